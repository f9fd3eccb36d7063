"""Pictures of restorations: the parts of one, and variants side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.core.seeding import generator
from vergence.drawing.figure import figure, saved
from vergence.generation.ddn.model import DDN
from vergence.generation.measurements import drawn, measured
from vergence.metrics.fidelity import psnr

SHOWN = 360
"""Pixels of the part of a picture that a sheet shows, along each side."""


def gain_of(part: Tensor) -> float:
    """A factor of 1, 2, 5, 10, ... that makes 99 % of a part visible about zero."""
    values = part.abs().flatten()
    most = float(values[:: max(len(values) // 500_000, 1)].quantile(0.99)) if len(values) else 0.0
    gains = [factor * 10**power for power in range(3) for factor in (1.0, 2.0, 5.0)]
    return max([gain for gain in gains if gain * most <= 0.5], default=1.0)


def shown_part(part: Tensor, gain: float) -> Tensor:
    """A part with both signs as a picture: grey is zero."""
    return (0.5 + gain * part).clamp(0, 1)


def shown_invention(task: str, invented: Tensor, gain: float) -> Tensor:
    """The invented part as a picture: of filled holes the fill itself, on grey."""
    if task != "inpaint":
        return shown_part(invented, gain)
    return torch.where((invented != 0).any(0), invented.clamp(0, 1), 0.5)


def coloured(picture: Tensor) -> Tensor:
    """A picture (1 or 3, H, W) as (3, H, W)."""
    return picture.clamp(0, 1).expand(3, -1, -1) if len(picture) == 1 else picture.clamp(0, 1)


def window(invented: Tensor, side: int = SHOWN) -> tuple[slice, slice]:
    """The part of a picture to show: of a grid of windows, the one in which most was invented."""
    height, width = invented.shape[-2:]
    tall, wide = min(side, height), min(side, width)
    best, place = -1.0, (0, 0)
    for top in range(0, height - tall + 1, max(tall // 2, 1)):
        for left in range(0, width - wide + 1, max(wide // 2, 1)):
            size = float(invented[..., top : top + tall, left : left + wide].square().mean())
            if size > best:
                best, place = size, (top, left)
    return slice(place[0], place[0] + tall), slice(place[1], place[1] + wide)


def sheet(path: Path, result: Any, plain: str, gain: float) -> Path:
    """Four panels of a restoration: plain, restored, measured, invented."""
    cut = (..., *window(result.invented))
    panels = [
        (result.before, plain), (result.picture, "restored"), (result.measured, "measured"),
        (shown_invention(result.task, result.invented, gain), f"invented (contrast x {gain:g})"),
    ]  # fmt: skip
    return panels_of(path, [[(coloured(picture)[cut], title) for picture, title in panels]], 3.2)


def panels_of(path: Path, rows: Sequence[Sequence[tuple[Tensor, str]]], width: float) -> Path:
    """Rows of pictures (3, H, W) with titles."""
    height, across = rows[0][0][0].shape[-2:]
    tall = min(max(width * height / across, 0.6), 2 * width)
    canvas = figure(width * max(map(len, rows)), (tall + 0.3) * len(rows))
    axes = canvas.subplots(len(rows), max(map(len, rows)), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for row, places in zip(rows, axes, strict=True):
        for (picture, title), axis in zip(row, places, strict=False):
            axis.imshow(picture.permute(1, 2, 0).numpy(), interpolation="nearest")
            axis.set_title(title, fontsize=8)
    return saved(canvas, path)


def of_variants(ctx: Any, models: Mapping[str, DDN], data: Any) -> Sequence[Artifact]:
    """Held-out pictures: truth, pseudo-inverse, every network's output, and the two parts of the first one."""
    rows, parts = [], []
    for index in range(min(4, len(data))):
        x = data[index]["image"][None].to(ctx.device)
        source = generator("ddn", "test", index)
        operator = drawn(ctx.config.measure, x, source)
        y, _ = measured(ctx.config.measure, operator, x, source)
        z = operator.pinv(y)
        row = [(_shown(x), "truth"), (_shown(z), f"pseudo-inverse: {_quality(z, x)}")]
        for number, (name, model) in enumerate(models.items()):
            found = model(y, operator)
            row.append((_shown(found.image), f"{name}: {_quality(found.image, x)}"))
            if not number:
                gain = gain_of(found.detail)
                parts.append([
                    (_shown(x), "truth"), (_shown(z), "pseudo-inverse"), (_shown(z - found.noise), "measured"),
                    (_shown(shown_part(found.detail, gain)), f"invented x {gain:g}"),
                    (_shown(shown_part(found.noise, 2)), "noise x 2"), (_shown(found.image), "restored"),
                ])  # fmt: skip
        rows.append(row)
    first = next(iter(models))
    return [
        Artifact("image", panels_of(ctx.folder / "restored.png", rows, 1.6),
                 "Held-out pictures: truth, pseudo-inverse and restored, with their PSNR in dB."),
        Artifact("image", panels_of(ctx.folder / "parts.png", parts, 1.6),
                 f"The parts of {first}: pseudo-inverse - noise + invented = restored."),
    ]  # fmt: skip


def _shown(x: Tensor) -> Tensor:
    picture = x[0].float().cpu()
    picture = picture.norm(dim=0, keepdim=True) if len(picture) == 2 else picture[:1]
    return coloured(picture)


def _quality(found: Tensor, x: Tensor) -> str:
    return f"{float(psnr(found.float().clamp(0, 1), x.float()).mean()):.1f}"
