"""Pictures: words coloured by confidence, curves of precision, reliability, and what is emitted at each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.files import replacing
from vergence.documents.lines import Lines
from vergence.documents.protocol import Recognised, recognised
from vergence.documents.reader import centres
from vergence.documents.varctc.model import Recogniser
from vergence.documents.varctc.settings import SETTINGS
from vergence.drawing.figure import GREY, colours, figure, saved
from vergence.metrics.reading import error_kinds, precision_recall, reliability
from vergence.rendering.documents.fonts import Face, opened

if TYPE_CHECKING:
    from vergence.documents.varctc.predict import TextLine

FACE = Face("DejaVuSans", "sans")
TALL = 44
"""Rows of a line in a proof."""
MOST = 60
"""Lines that a proof shows."""
SHOWN = 400
"""Held-out words that pictures are drawn from."""


def shade(confidence: float) -> tuple[int, int, int]:
    """Red for 0, yellow for a half, green for 1; dark enough to be read on white."""
    stops = ((190, 25, 30), (200, 130, 0), (15, 120, 60))
    place = min(max(confidence, 0.0), 1.0) * 2
    low = min(int(place), 1)
    return tuple(round(a + (b - a) * (place - low)) for a, b in zip(stops[low], stops[low + 1], strict=True))  # type: ignore[return-value]


def _written(path: Path, picture: Image.Image) -> Path:
    with replacing(path) as partial:
        picture.save(partial, "PNG")
    return path


def marked_page(path: Path, picture: Tensor, lines: Sequence[TextLine]) -> Path:
    """The picture with a translucent mark over each word."""
    page = Image.fromarray(picture.permute(1, 2, 0).numpy())
    over = Image.new("RGBA", page.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(over)
    for word in (word for line in lines for word in line.words):
        left, top, right, bottom = word.box
        colour = shade(word.confidence)
        frame = (left, top, max(right - 1, left), max(bottom - 1, top))
        draw.rectangle(frame, fill=(*colour, 45), outline=(*colour, 255 if word.check else 120))
    return _written(path, Image.alpha_composite(page.convert("RGBA"), over).convert("RGB"))


def proof(path: Path, picture: Tensor, lines: Sequence[TextLine]) -> Path:
    """Every line at one height, with its words under it where they stand, coloured by confidence."""
    page = Image.fromarray(picture.permute(1, 2, 0).numpy())
    return _written(path, proof_sheet(page, lines[:MOST]))


def proof_sheet(page: Image.Image, lines: Sequence[TextLine]) -> Image.Image:
    """The picture of :func:`proof`."""
    scales = [TALL / max(line.box[3] - line.box[1], 1) for line in lines]
    scale = float(np.median(scales))
    rows = [min(max(round((line.box[3] - line.box[1]) * scale), 16), 3 * TALL) for line in lines]
    wide = max(200, *(round((line.box[2] - line.box[0]) * scale) for line in lines)) + 16
    under = round(TALL * 0.95)
    sheet = Image.new("RGB", (wide, sum(rows) + len(rows) * (under + 8) + 8), "white")
    draw, y = ImageDraw.Draw(sheet), 8
    for line, tall in zip(lines, rows, strict=True):
        cut = page.crop(line.box)
        sheet.paste(cut.resize((max(round(cut.width * scale), 1), tall), Image.Resampling.BICUBIC), (8, y))
        free, most = 8.0, _usual_size([(w.text, (w.box[2] - w.box[0]) * scale) for w in line.words], under)
        for word in line.words:
            left, right = (8 + (x - line.box[0]) * scale for x in (word.box[0], word.box[2]))
            free = _word(
                draw, word.text, max(left, free), right, y + tall, under, shade(word.confidence), word.check, most
            )
        y += tall + under + 8
    return sheet


def _usual_size(words: Sequence[tuple[str, float]], tall: int) -> int:
    """The size at which most words of a line fit the places they have."""
    sizes = [room / max(opened(FACE, 100).getlength(text), 1) * 100 for text, room in words]
    return max(min(round(float(np.median(sizes))), round(tall * 0.62)), 10) if sizes else 10


def _word(
    draw: ImageDraw.ImageDraw, text: str, left: float, right: float, y: int, tall: int, colour: tuple[int, int, int],
    check: bool, size: int,
) -> float:  # fmt: skip
    """Write a word under its place, as large as fits; returns where the next may begin."""
    while size > 9 and opened(FACE, size).getlength(text) > max(right - left, 12):
        size -= 1
    font = opened(FACE, size)
    draw.text((left, y + tall * 0.66), text, colour, font, "ls")
    end = left + font.getlength(text)
    if check:
        draw.line((left, y + tall * 0.82, end, y + tall * 0.82), fill=colour, width=2)
    return end + 3


# Held-out data --------------------------------------------------------------------------------------------------------


def compared(ctx: Context[Any, Any], models: Mapping[str, Recogniser], data: Lines) -> Sequence[Artifact]:
    """Curves and bars of all networks, and what they emit along held-out words."""
    some = data.first(SHOWN)
    found = {name: recognised(ctx, model, some) for name, model in models.items()}
    curves = _curves(ctx.folder / "confidence.png", found)
    emitted = _emissions(ctx, models, data)
    return [
        Artifact("image", curves, "Precision against recall of the correct words; reliability; kinds of errors."),
        Artifact("image", emitted, "Chance of each symbol along held-out words: all, and given that one is emitted."),
    ]


def _curves(path: Path, found: Mapping[str, Recognised]) -> Path:
    drawn = figure(11.0, 3.6)
    left, middle, right = drawn.subplots(1, 3)
    for colour, (name, own) in zip(colours(len(found)), found.items(), strict=True):
        precision, recall = precision_recall(own.confidence, own.correct)
        left.plot(100 * recall, 100 * precision, color=colour, label=SETTINGS.label(name))
        bins = reliability(own.confidence.exp().clamp(max=1.0), own.correct)
        middle.plot(bins.confidence, 100 * bins.accuracy, "o-", color=colour)
    left.axhline(98, color=GREY, linewidth=0.8, linestyle=":")
    left.set(xlabel="correct words accepted, %", ylabel="precision, %")
    left.legend(frameon=False, fontsize=8)
    middle.plot([0, 1], [0, 100], color=GREY, linewidth=0.8, linestyle=":")
    middle.set(xlabel="confidence", ylabel="correct, %")
    for place, (colour, own) in enumerate(zip(colours(len(found)), found.values(), strict=True)):
        kinds = error_kinds(own.read, own.truth)
        right.bar(np.arange(3) + 0.8 * (place + 0.5) / len(found) - 0.4, kinds, 0.75 / len(found), color=colour)
    right.set_xticks(range(3), ("replaced", "deleted", "inserted"))
    right.set(ylabel="of wrong words, %")
    return saved(drawn, path)


def _emissions(ctx: Context[Any, Any], models: Mapping[str, Recogniser], data: Lines, words: int = 2) -> Path:
    """Rows: each network; columns: words. Lines are symbols of the label, dots the blank."""
    batch = ctx.to_device(data.collate([data[k] for k in range(words)]))
    drawn = figure(5.2 * words, 1.7 * (len(models) + 0.6))
    axes = drawn.subplots(len(models) + 1, words, squeeze=False, height_ratios=[0.6, *[1.0] * len(models)])
    wide = batch["image"].shape[-1]
    for column in range(words):
        axes[0, column].imshow(
            batch["image"][column, 0].float().cpu(), cmap="gray", aspect="auto", extent=(0, wide, 32, 0)
        )
        axes[0, column].set_title(batch["text"][column], fontsize=9)
        axes[0, column].set(xticks=[], yticks=[])
    for row, (name, model) in enumerate(models.items(), 1):
        log_probs = model(batch["image"]).float().cpu()
        at = centres(len(log_probs), wide)
        for column in range(words):
            axis, own = axes[row, column], log_probs[:, column]
            axis.plot(at, own[:, 0].exp(), ":", color=GREY, linewidth=1)
            label = data.alphabet.encode(batch["text"][column])
            for colour, symbol in zip(colours(len(set(label))), dict.fromkeys(label), strict=True):
                axis.plot(at, own[:, symbol].exp(), color=colour, linewidth=1.4)
                axis.fill_between(at, own[:, 1:].softmax(-1)[:, symbol - 1], color=colour, alpha=0.18, linewidth=0)
            axis.set(xlim=(0, wide), ylim=(0, 1.05), xticks=[], yticks=[0, 1])
            axis.set_ylabel(SETTINGS.label(name) if column == 0 else "", fontsize=8)
    return saved(drawn, ctx.folder / "emissions.png")
