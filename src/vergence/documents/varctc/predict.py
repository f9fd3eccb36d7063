"""Text of a user's pictures: lines found, read, and cut into words with a confidence each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table, write_text
from vergence.documents.lines import MARGIN, Alphabet
from vergence.documents.page import LineBox, Page, find_lines, read_upright
from vergence.documents.reader import BUCKET, Reader, centres, one_line, whole_line, word_spans
from vergence.documents.varctc.model import Recogniser
from vergence.documents.varctc.pictures import marked_page, proof
from vergence.documents.varctc.settings import Config, Inputs
from vergence.ops.ctc import Trie, beam_search, collapse, lexicon_scores
from vergence.reading.files import read_text

Ctx = Context[Config, NoFacts]
FLATTEST = 0.18
"""A picture lower than this share of its width is taken for a line, unless several lines are found in it."""
BEAM = 12


@dataclass(frozen=True)
class Word:
    """A word of a line."""

    text: str
    """What it says."""
    confidence: float
    """From 0 to 1: the probability of the most probable path over the word's steps."""
    box: tuple[int, int, int, int]
    """Left, top, right and bottom in pixels of the upright picture."""
    check: bool
    """Whether a person should look at it."""


@dataclass(frozen=True)
class TextLine:
    """A line of a picture."""

    picture: int
    """The number of the picture, from 0."""
    text: str
    """What it says."""
    confidence: float
    """From 0 to 1: the probability of the most probable path."""
    box: tuple[int, int, int, int]
    """Left, top, right and bottom in pixels of the upright picture."""
    words: tuple[Word, ...]
    """Its words, from left to right."""


@dataclass(frozen=True, eq=False)
class Reading(Result):
    """The text of pictures."""

    names: tuple[str, ...]
    """The pictures' names."""
    lines: tuple[TextLine, ...]
    """All lines, picture by picture, in reading order."""
    skew: tuple[float, ...]
    """Degrees by which each picture was turned upright, anticlockwise."""
    upright: tuple[Tensor, ...]
    """The pictures as they were read, bytes (3, H, W) each."""
    checked_below: float
    """Words with a confidence below this are marked."""
    note: str
    """What is missing; empty if nothing is."""

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(line.text for line in self.lines)

    def summary(self) -> Mapping[str, Any]:
        words = [word for line in self.lines for word in line.words]
        found = {"lines": len(self.lines), "words": len(words), "to be checked": sum(word.check for word in words)}
        shown = {f"line {number}": line.text for number, line in enumerate(self.lines[:5], 1)}
        return {**found, **({"note": self.note} if self.note else {}), **shown}


# Reading --------------------------------------------------------------------------------------------------------------


def reading_of(ctx: Ctx, model: Recogniser, inputs: Inputs) -> Reading:
    """Reads all pictures."""
    alphabet = Alphabet(ctx.config.model.alphabet)
    words = _lexicon(Path(inputs.lexicon), alphabet) if inputs.lexicon else None
    pages = [_page(path, inputs) for path in inputs.images]
    reader = Reader(model, alphabet, ctx.config.data.height, ctx.config.data.width)
    emitted = iter(reader.emitted(ctx, [own for page in pages for own in reader.strips(page)]))
    lines = list[TextLine]()
    for number, page in enumerate(pages):
        for box in page.lines:
            lines.append(_line(number, page, box, next(emitted), alphabet, words, inputs))
    empty = [path.name for number, path in enumerate(inputs.images) if not any(x.picture == number for x in lines)]
    note = f"no text found in {', '.join(empty)}" if empty else ""
    return Reading(
        tuple(path.name for path in inputs.images), tuple(lines), tuple(page.skew for page in pages),
        tuple(page.picture for page in pages), inputs.check, note,
    )  # fmt: skip


def _page(path: Path, inputs: Inputs) -> Page:
    picture = read_upright(path)
    height, width = picture.shape[-2:]
    if inputs.layout == "line":
        return one_line(picture)
    page = find_lines(picture, inputs.deskew)
    flat = inputs.layout == "auto" and height < FLATTEST * width
    if flat and page.lines and max(b.bottom - b.top for b in page.lines) > 0.4 * height:
        level = find_lines(picture, 0.0)  # a single line has no profile of rows to be turned by
        top = max(level.lines, key=lambda b: b.right - b.left) if level.lines else whole_line(level.ink)
        whole = LineBox(0, top.top, width, top.bottom, top.tilt, top.bend) if top.right - top.left > width / 2 else top
        return Page(picture, 0.0, level.ink, (whole if len(level.lines) < 3 else whole_line(level.ink),))
    return page


def _lexicon(path: Path, alphabet: Alphabet) -> tuple[list[str], Trie]:
    words = list(dict.fromkeys(alphabet.plain(word.strip()) for word in read_text(path).splitlines() if word.strip()))
    if not words:
        raise VergenceError(f"{path} has no words: expected one per line")
    stray = next((word for word in words if alphabet.unknown(word)), None)
    if stray is not None:
        raise VergenceError(f"{path} has the word {stray[:40]!r} with {alphabet.unknown(stray)!r}, which is not read")
    return words, Trie.of([alphabet.encode(word) for word in words])


def _line(
    picture: int, page: Page, box: LineBox, log_probs: Tensor, alphabet: Alphabet,
    lexicon: tuple[list[str], Trie] | None, inputs: Inputs,
) -> TextLine:  # fmt: skip
    best, path = log_probs.max(-1)
    words = list[Word]()
    for first, last in word_spans(path.tolist(), alphabet):
        own = log_probs[first:last]
        if lexicon is not None:
            scores = lexicon_scores(own.unsqueeze(1), torch.tensor([len(own)]), lexicon[1])[0]
            text, score = lexicon[0][int(scores.argmax())], float(scores.max())
        elif inputs.decode == "beam":
            label, score = beam_search(own, BEAM)[0]
            text = alphabet.decode(label)
        else:
            text, score = alphabet.decode(collapse(path[first:last].tolist())), float(best[first:last].sum())
        chance = min(math.exp(score), 1.0)
        if text.strip():
            words.append(Word(text, chance, _word_box(page, box, first, last, len(log_probs)), chance < inputs.check))
    corners = box.outer(page.picture.shape[-2])
    return TextLine(picture, " ".join(word.text for word in words), min(math.exp(float(best.sum())), 1.0), corners,
                    tuple(words))  # fmt: skip


def _word_box(page: Page, box: LineBox, first: int, last: int, steps: int) -> tuple[int, int, int, int]:
    """The ink of a word, from the columns in the middle of its first and last step."""
    tall, wide = box.bottom - box.top, box.right - box.left
    strip_width = -(-round(wide * 32 / tall + 2 * MARGIN) // BUCKET) * BUCKET
    at = (centres(steps, strip_width) - MARGIN) * tall / 32
    left = 0 if first == 0 else int((at[first - 1] + at[first]) / 2)
    right = wide if last >= steps else math.ceil((at[last - 1] + at[min(last, steps - 1)]) / 2)
    left, right = max(min(left, wide - 1), 0), max(min(right, wide), 1)
    columns = np.nonzero(box.cut(page.ink)[:, left:right].any(0))[0]
    if len(columns):
        left, right = left + int(columns[0]), left + int(columns[-1]) + 1
    shift = round(float(box.lower(box.left + (left + right) / 2)))
    return box.left + left, max(box.top + shift, 0), box.left + max(right, left + 1), box.bottom + shift


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Reading) -> Sequence[Artifact]:
    """Writes text, a table of words, JSON, and pictures of what was read."""
    files = list[Artifact]()
    for number, name in enumerate(result.names):
        own = [line for line in result.lines if line.picture == number]
        stem = f"{Path(name).stem}" if len(result.names) == 1 else f"{number + 1:03d}-{Path(name).stem}"
        if own:
            at = proof(ctx.folder / f"{stem}-proof.png", result.upright[number], own)
            files.append(Artifact("image", at, "Every line with its reading under it: green is sure, red is not."))
        at = marked_page(ctx.folder / f"{stem}-words.png", result.upright[number], own)
        files.append(Artifact("image", at, "The picture, upright, with its words marked by confidence."))
    rows = [
        (result.names[line.picture], place, number, word.text, f"{word.confidence:.4f}", "yes" if word.check else "",
         *word.box)
        for place, line in enumerate(result.lines, 1) for number, word in enumerate(line.words, 1)
    ]  # fmt: skip
    heading = ("picture", "line", "word", "text", "confidence", "check", "left", "top", "right", "bottom")
    table = write_table(ctx.folder / "words.csv", heading, rows)
    write_text(ctx.folder / "text.txt", result.text + "\n")
    plain = {k: v for k, v in result.to_json().items() if k != "upright"}
    write_json(ctx.folder / "text.json", plain)
    return [
        *files,
        Artifact("text", ctx.folder / "text.txt", "The text, line by line."),
        Artifact("table", table, "Every word with its confidence, its box, and whether it should be checked."),
        Artifact("json", ctx.folder / "text.json", "Lines and words with confidences and boxes."),
    ]
