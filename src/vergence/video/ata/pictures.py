"""Pictures of labels over time, matched patches and response maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.core.files import replacing
from vergence.drawing.figure import colours, figure, saved
from vergence.drawing.grid import Scale, bar, overlay
from vergence.video.ata.model import Response
from vergence.video.settings import ClipView

MOST = 8
"""Frames drawn side by side."""
LABELS = 5
"""Number of labels in tables and of curves in plots."""
TILE, GAP, STRIP, BAR = 176, 6, 20, 60
"""Side of a tile, gap between tiles, height of a title, and length of a colour bar, in pixels."""

Line = tuple[float, float, float, float]


@dataclass(frozen=True)
class Tile:
    """A picture (3, H, W) in [0, 1], its title, lines (x0, y0, x1, y1) as fractions of its side, and a scale to show as
    a colour bar in place of a title."""

    picture: Tensor
    title: str = ""
    lines: Sequence[Line] = ()
    scale: Scale | None = None


def mosaic(path: Path, rows: Sequence[Sequence[Tile]]) -> Path:
    """Writes rows of tiles as one PNG."""
    columns = max(map(len, rows))
    canvas = Image.new("RGB", (columns * (TILE + GAP) + GAP, len(rows) * (TILE + STRIP + GAP) + GAP), "white")
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(13)
    for number, row in enumerate(rows):
        for column, tile in enumerate(row):
            left, top = GAP + column * (TILE + GAP), GAP + number * (TILE + STRIP + GAP)
            draw.text((left, top), tile.title, "black", font)
            if tile.scale is not None:
                low, high = tile.scale.ends
                draw.text((left + TILE / 2 - BAR / 2 - 4, top), low, "black", font, anchor="ra")
                canvas.paste(_image(bar(BAR)).resize((BAR, STRIP - 8)), (left + (TILE - BAR) // 2, top + 3))
                draw.text((left + TILE / 2 + BAR / 2 + 4, top), high, "black", font)
            picture = _image(tile.picture).resize((TILE, TILE), Image.Resampling.NEAREST)
            _draw(picture, tile.lines)
            canvas.paste(picture, (left, top + STRIP))
    with replacing(path) as partial:
        canvas.save(partial, format="PNG")
    return path


def _image(pixels: Tensor) -> Image.Image:
    return Image.fromarray((pixels.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())


def _draw(picture: Image.Image, lines: Sequence[Line]) -> None:
    """Draws white lines with a dot at their end, outlined in black."""
    draw = ImageDraw.Draw(picture)
    for colour, width in (("black", 3), ("white", 1)):
        for line in lines:
            x0, y0, x1, y1 = (TILE * share for share in line)
            draw.line((x0, y0, x1, y1), colour, width)
            draw.ellipse((x1 - width, y1 - width, x1 + width, y1 + width), colour)


def shown(clip: Tensor, view: ClipView) -> Tensor:
    """Undoes the normalisation of a clip (T, 3, S, S), to [0, 1]."""
    mean, std = (clip.new_tensor(v).view(3, 1, 1) for v in (view.mean, view.std))
    return (clip * std + mean).clamp(0, 1).float().cpu()


def chosen(frames: int) -> list[int]:
    """Indices of the frames that are drawn, at most :data:`MOST`."""
    places: list[int] = np.unique(np.linspace(0, frames - 1, min(MOST, frames)).astype(int)).tolist()
    return places


def chained(matches: Tensor) -> Tensor:
    """Composes matches between neighbouring frames (T - 1, N): the patch of each frame that each patch of the first one
    leads to, (T, N)."""
    places = [torch.arange(matches.shape[1], device=matches.device)]
    for step in matches:
        places.append(step[places[-1]])
    return torch.stack(places)


def place_colours(side: int) -> Tensor:
    """A colour for each cell of a grid, (N, 3): red to the right, blue downwards, green against both."""
    across = torch.linspace(0, 1, side).expand(side, side)
    return torch.stack([across, 1 - (across + across.T) / 2, across.T], -1).flatten(0, 1)


def followed(path: Path, frames: Tensor, matches: Tensor, title: str) -> Artifact:
    """Draws frames (T, 3, S, S) above; below, each patch in the colour of its origin in the first frame, with a line
    from its position in the frame before, if it moved; ``matches`` are (T - 1, N)."""
    places, side = chained(matches), math.isqrt(matches.shape[1])
    step = len(frames) // len(places)  # a tubelet spans several frames
    palette = place_colours(side)
    above, below = [], []
    for time in chosen(len(places)):
        frame = frames[time * step]
        painted = torch.empty(side * side, 3)
        painted[places[time]] = palette
        patches = F.interpolate(painted.T.reshape(1, 3, side, side), frame.shape[-2:], mode="nearest")[0]
        above.append(Tile(frame, title if time == 0 else f"frame {time * step + 1}"))
        below.append(Tile(0.45 * frame.mean(0) + 0.55 * patches, "", _moves(matches[time - 1], side) if time else ()))
    caption = (
        "Matched patches: a colour follows a patch of the first frame, a line comes from its position in the frame "
        "before."
    )
    return Artifact("image", mosaic(path, [above, below]), caption)


def _moves(match: Tensor, side: int) -> list[Line]:
    """Lines from the centre of each patch to the centre of its match, if that is another patch."""
    start = torch.arange(len(match))
    ends = torch.stack([start % side, start // side, match % side, match // side], 1)[match != start]
    return [tuple(line) for line in ((ends + 0.5) / side).tolist()]


def responses(stem: Path, frames: Tensor, networks: Mapping[str, Response], labels: Sequence[str]) -> list[Artifact]:
    """Figures 1 and 2: frames (T, 3, S, S), then one row of responses per network, for the last layer and for an inner
    block."""
    drawn = chosen(len(frames))
    first = [Tile(frames[t], f"frame {t + 1}") for t in drawn]
    last, inner = [first], [first]
    for name, response in networks.items():
        answer = f"{name}: {labels[int(response.scores.argmax())]} {float(response.scores.max()):.0%}"
        for rows, maps in ((last, response.last), (inner, response.inner)):
            # The sign of a mean over channels has no meaning, so deviations to either side are bright.
            heat = (maps - maps.mean()).abs()[[t * len(maps) // len(frames) for t in drawn]]
            # Side by side as one picture, so that all frames share a scale.
            whole = torch.cat(list(heat), -1)
            strip = overlay(torch.cat([frames[t] for t in drawn], -1), whole)
            tiles = [Tile(tile, "" if n else answer) for n, tile in enumerate(strip.chunk(len(drawn), -1))]
            tiles[-1] = replace(tiles[-1], title="", scale=Scale.of(whole)) if len(tiles) > 1 else tiles[-1]
            rows.append(tiles)
    what = "absolute deviation of the mean over channels from its mean over the clip"
    return [
        Artifact(
            "image",
            mosaic(stem.with_name(f"{stem.name}-{kind}.png"), rows),
            f"Responses of the networks {at}: {what}.",
        )
        for kind, rows, at in (
            ("last", last, "before the classifier"),
            ("inner", inner, "after the temporal operator of an inner block"),
        )
    ]


def timeline(path: Path, spans: Sequence[tuple[float, float]], scores: Tensor, labels: Sequence[str]) -> Artifact:
    """Plots the probabilities (W, K) of the most likely labels over windows (start, end) in seconds."""
    drawn = figure(7.5, 2.6, 120)
    axis = drawn.subplots()
    best = scores.max(0).values.argsort(descending=True)[:LABELS].tolist()
    for colour, label in zip(colours(len(best)), best, strict=True):
        if len(spans) == 1:
            axis.hlines(float(scores[0, label]), *spans[0], color=colour, label=labels[label])
        else:
            middles = [(start + end) / 2 for start, end in spans]
            axis.plot(middles, scores[:, label].tolist(), "o-", markersize=2.5, color=colour, label=labels[label])
    axis.set(xlabel="seconds", ylabel="probability", ylim=(-0.03, 1.03))
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return Artifact("image", saved(drawn, path), "Labels over time: each point is the middle of a window.")
