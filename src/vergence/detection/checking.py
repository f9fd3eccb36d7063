"""Annotated boxes as files have them, checked: what is cut or left out is counted, and what is not understood refused.

Boxes in the wrong convention (corners for x, y, width, height, or the other way round) show by their number: most of
them are inverted or end outside of their pictures, and would not if they were read the other way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vergence.core.errors import VergenceError, did_you_mean
from vergence.detection.data import Collection, Entry
from vergence.ops.boxes import clipped

Convention = Literal["corners", "sides"]
"""Left, top, right, bottom; or left, top, width, height."""
NAMED = {"corners": "left, top, right, bottom", "sides": "left, top, width, height"}
SUSPICIOUS = 0.2
"""The share of boxes that do not fit, from which the convention is doubted."""


class Raw(NamedTuple):
    """A picture's annotation as it stands."""

    path: Path
    height: int
    width: int
    boxes: list[tuple[float, float, float, float]]
    names: list[str]
    aside: list[bool]
    source: str
    """The file of the annotation, for messages."""


def checked(raws: Sequence[Raw], classes: Sequence[str], convention: Convention, source: object) -> Collection:
    """A collection of the annotated pictures. Boxes are cut to their pictures; those without an area are left out."""
    numbers = {name: number for number, name in enumerate(classes, 1)}
    for raw in raws:
        strange = next((name for name in raw.names if name not in numbers), None)
        if strange is not None:
            raise VergenceError(f"{raw.source} has the class {strange!r}{did_you_mean(strange, numbers)}")
    _refuse_other_convention(raws, convention, source)
    counts: Counter[str] = Counter()
    entries = []
    for raw in raws:
        corners = _corners(raw, convention)
        cut = clipped(corners, raw.height, raw.width)
        has_area, inside = _has_area(corners), _has_area(cut)
        counts["inverted"] += int((corners[:, 2:] < corners[:, :2]).any(1).sum())
        counts["flat"] += int((~has_area & (corners[:, 2:] >= corners[:, :2]).all(1)).sum())
        counts["outside"] += int((has_area & ~inside).sum())
        counts["cut"] += int((inside & has_area & ((cut - corners).abs() > 1.0).any(1)).sum())
        kept = has_area & inside
        labels = torch.tensor([numbers[name] for name in raw.names], dtype=torch.long)
        aside = torch.tensor(raw.aside, dtype=torch.bool)
        entries.append(Entry(raw.path, cut[kept].float(), labels[kept], aside[kept]))
        counts["empty"] += not kept.any()
    return Collection(entries, tuple(classes), _told(counts))


def _told(counts: Counter[str]) -> str:
    words = (
        ("inverted", "inverted boxes left out"),
        ("flat", "boxes without area left out"),
        ("outside", "boxes outside of their pictures left out"),
        ("cut", "boxes cut to their pictures"),
        ("empty", "pictures without objects"),
    )
    return ", ".join(f"{counts[name]:,} {text}" for name, text in words if counts[name])


def _corners(raw: Raw, convention: Convention) -> Tensor:
    boxes = torch.tensor(raw.boxes, dtype=torch.float64).reshape(-1, 4)
    if not boxes.isfinite().all():
        raise VergenceError(f"{raw.source} has a box that is not of finite numbers")
    return boxes if convention == "corners" else torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], 1)


def _has_area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2:] - boxes[:, :2] > 1e-6).all(1)


def _misfits(raw: Raw, convention: Convention) -> int:
    """The number of boxes that are inverted, flat or end outside of the picture by more than two pixels."""
    boxes = _corners(raw, convention)
    limit = torch.tensor([raw.width, raw.height, raw.width, raw.height], dtype=torch.float64) + 2
    return int((~_has_area(boxes) | (boxes > limit).any(1) | (boxes < -2).any(1)).sum())


def _refuse_other_convention(raws: Sequence[Raw], convention: Convention, source: object) -> None:
    total = sum(len(raw.boxes) for raw in raws)
    other: Convention = "sides" if convention == "corners" else "corners"
    own = sum(_misfits(raw, convention) for raw in raws)
    if own <= SUSPICIOUS * total:
        return
    theirs = sum(_misfits(raw, other) for raw in raws)
    if theirs < own / 2:
        raise VergenceError(
            f"{source}: {own:,} of {total:,} boxes do not fit into their pictures as {NAMED[convention]}, and "
            f"{theirs:,} as {NAMED[other]}: they seem to be in the other convention"
        )
