"""Data of foreground object search: pairs of a background with a box and a cut-out, and patterns of cut-outs.

A query is cropped to a square and its box becomes four numbers; a cut-out is shown on a white square. Readers and the
rendered scenes give :class:`Pairs`; training draws cut-outs (:class:`Cutouts`) or triplets (:class:`Triplets`) of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import normalised, resized, scaled
from vergence.retrieval.cutouts import on_white
from vergence.retrieval.fos_settings import ForegroundView

Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels."""


class Reads(Protocol):
    """Pictures by index: a tensor of them, or a reader of files."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Tensor: ...


# Queries --------------------------------------------------------------------------------------------------------------


def square_crop(picture: Tensor, box: Box) -> tuple[Tensor, Box]:
    """The largest square of a picture (3, H, W) whose middle is as near as possible to that of the box, and the box in
    it, cut at its borders."""
    height, width = picture.shape[-2:]
    side = min(height, width)
    x, y, w, h = box
    left = round(min(max(x + w / 2 - side / 2, 0), width - side))
    top = round(min(max(y + h / 2 - side / 2, 0), height - side))
    return picture[:, top : top + side, left : left + side], _cut((x - left, y - top, w, h), side)


def random_zoom(square: Tensor, box: Box, share: float, generator: torch.Generator) -> tuple[Tensor, Box]:
    """A random smaller square that still holds the whole box, and the box in it. ``share`` is how much of the way from
    the whole square to the smallest one may be gone."""
    full = square.shape[-1]
    x, y, w, h = box
    least = max(min(math.ceil(max(w, h)) + 1, full), 2)
    size, across, down = torch.rand(3, generator=generator).tolist()
    side = round(full - size * share * (full - least))

    def start(low: float, length: float, at: float) -> int:
        """The first pixel of a part of the axis that holds ``low`` to ``low + length``."""
        first, last = max(math.ceil(low + length - side), 0), min(math.floor(low), full - side)
        return (
            min(max(first + int(at * (last - first + 1)), 0), full - side) if last >= first else min(first, full - side)
        )

    left, top = start(x, w, across), start(y, h, down)
    return square[:, top : top + side, left : left + side], _cut((x - left, y - top, w, h), side)


def relaxed(box: Box, side: float, share: float, generator: torch.Generator) -> Box:
    """A box with random space around it, up to ``share`` of its width and height in all, inside a square."""
    x, y, w, h = box
    wide, high, left, top = torch.rand(4, generator=generator).tolist()
    more_x, more_y = share * wide * w, share * high * h
    return _cut((x - left * more_x, y - top * more_y, w + more_x, h + more_y), side)


def layout_of(box: Box, side: float) -> Tensor:
    """Centre, width and height of a box as shares of a square's side, in steps of 0.01: (4,)."""
    x, y, w, h = box
    return (torch.tensor([x + w / 2, y + h / 2, w, h], dtype=torch.float64) / side * 100).round().div(100).float()


def _cut(box: Box, side: float) -> Box:
    x, y, w, h = box
    left, top = min(max(x, 0.0), side), min(max(y, 0.0), side)
    return left, top, max(min(x + w, side) - left, 0.0), max(min(y + h, side) - top, 0.0)


# Views ----------------------------------------------------------------------------------------------------------------


def shown_query(
    view: ForegroundView, picture: Tensor, box: Box, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """A background (3, H, W) and its box as the networks see them, (3, size, size) and (4,); with a generator, as
    drawn for training."""
    square, inner = square_crop(picture, box)
    if generator is not None:
        inner = relaxed(inner, square.shape[-1], view.relax, generator)
        if view.zoom:
            square, inner = random_zoom(square, inner, view.zoom, generator)
    layout = layout_of(inner, square.shape[-1])
    return _shown(view, resized(scaled(square), view.size, view.size), generator), layout


def shown_cutout(view: ForegroundView, rgba: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """A cut-out (4, H, W) as the networks see it, (3, size, size); with a generator, as drawn for training."""
    if generator is None:
        return _shown(view, on_white(rgba, view.size), None)
    left, right, top, bottom = (torch.rand(4, generator=generator) * view.padding).tolist()
    return _shown(view, on_white(rgba, view.size, (left, right, top, bottom)), generator)


def _shown(view: ForegroundView, picture: Tensor, generator: torch.Generator | None) -> Tensor:
    if generator is not None and any(view.jitter):
        picture = jittered(picture, view.jitter, generator)
    return normalised(picture, view.mean, view.std)


_GREY = np.array([0.299, 0.587, 0.114])
_TURN = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / math.sqrt(3)
"""The axis of greys as a cross product: colours turn about it when their hue changes."""


def jittered(picture: Tensor, strength: Sequence[float], generator: torch.Generator) -> Tensor:
    """A picture (3, H, W) from 0 to 1 with its brightness, contrast and saturation multiplied by 1 plus or minus up to
    ``strength``, and its colours turned by up to that share of the circle of hues."""
    draws = (2 * torch.rand(4, generator=generator) - 1).tolist()
    bright, contrast, saturation = (1 + s * d for s, d in zip(strength[:3], draws[:3], strict=True))
    angle = 2 * math.pi * strength[3] * draws[3]
    # All but the clipping is linear in the colours: one matrix and one shift.
    turn = math.cos(angle) * np.eye(3) + (1 - math.cos(angle)) / 3 + math.sin(angle) * _TURN
    matrix = contrast * bright * turn @ (saturation * np.eye(3) + (1 - saturation) * _GREY)
    flat = picture.flatten(1)
    grey = bright * sum(weight * mean for weight, mean in zip(_GREY.tolist(), flat.mean(1).tolist(), strict=True))
    mixed = torch.from_numpy(matrix).to(flat) @ flat
    return mixed.add_((1 - contrast) * grey).clamp_(0, 1).view_as(picture)


# Pairs ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Q queries and F cut-outs. As data they are samples by index: the queries first, then the cut-outs."""

    backgrounds: Reads
    """Q pictures (3, H, W) of bytes, without the object."""
    boxes: Tensor
    """(Q, 4): left, top, width and height in pixels."""
    cutouts: Reads
    """F cut-outs (4, H, W) of bytes, trimmed."""
    own: Tensor
    """(Q,), the cut-out that each query was made from."""
    patterns: Tensor
    """(F,), the pattern of each cut-out; -1 for none."""
    names: tuple[str, ...]
    """Of the patterns."""
    fits: Tensor | None = None
    """(Q, F), which cut-outs fit a query; by default those of the pattern of its own."""
    among: Tensor | None = None
    """(Q, F), the cut-outs that are ranked for a query (of its category); by default all."""
    positives: Mapping[int, Tensor] | None = None
    """Cut-outs to draw as positives by query, where the data names them; by default those of its pattern."""
    negatives: Mapping[int, Tensor] | None = None
    where: Tensor | None = None
    """(Q,): 1 if what decides the fit is inside the box, 0 if it is elsewhere, -1 if it is not known."""
    scenes: Tensor | None = None
    """(Q, A), attributes of the backgrounds, for pre-training."""
    scene_sizes: tuple[int, ...] = ()
    """(A,), the number of values of each attribute."""
    note: str = ""
    """How the data was split, if the reader did it."""

    def __post_init__(self) -> None:
        if not len(self.boxes) or not len(self.patterns):
            raise VergenceError(f"foreground search needs queries and cut-outs, got {len(self.boxes)} and "
                                f"{len(self.patterns)}")  # fmt: skip

    def __len__(self) -> int:
        return len(self.boxes) + len(self.patterns)

    def __getitem__(self, index: int) -> Tensor:
        place = range(len(self))[index]
        count = len(self.boxes)
        return self.backgrounds[place] if place < count else self.cutouts[place - count]

    def box(self, query: int) -> Box:
        x, y, w, h = self.boxes[query].tolist()
        return x, y, w, h

    def query_patterns(self) -> Tensor:
        """(Q,), the pattern of each query's own cut-out."""
        return self.patterns[self.own]

    def relevance(self) -> Tensor:
        """(Q, F), which cut-outs fit a query."""
        if self.fits is not None:
            return self.fits
        own = self.query_patterns()
        same = (own.unsqueeze(1) == self.patterns) & (own >= 0).unsqueeze(1)
        same[torch.arange(len(own)), self.own] = True
        return same


@dataclass(frozen=True)
class Cutouts:
    """Cut-outs with their patterns; those without one are left out. ``copies`` is the number of random views of each in
    an epoch."""

    data: Pairs
    view: ForegroundView
    copies: int = 1

    def __post_init__(self) -> None:
        if not bool((self.data.patterns >= 0).any()):
            raise VergenceError("no cut-out has a pattern: there is nothing to train the foreground encoder on")

    @property
    def places(self) -> Tensor:
        return (self.data.patterns >= 0).nonzero()[:, 0]

    def __len__(self) -> int:
        return len(self.places) * self.copies

    def _sample(self, index: int, generator: torch.Generator | None) -> tuple[Tensor, int]:
        places = self.places
        place = int(places[index % len(places)])
        return shown_cutout(self.view, self.data.cutouts[place], generator), int(self.data.patterns[place])

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._sample(range(len(self))[index], None)

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, int]:
        return self._sample(index, generator)


@dataclass(frozen=True)
class Backgrounds:
    """Backgrounds with the attributes of their scenes."""

    data: Pairs
    view: ForegroundView

    def __len__(self) -> int:
        return len(self.data.boxes)

    def _sample(self, index: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        assert self.data.scenes is not None
        shown, _ = shown_query(self.view, self.data.backgrounds[index], self.data.box(index), generator)
        return shown, self.data.scenes[index]

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self._sample(range(len(self))[index], None)

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self._sample(index, generator)


@dataclass(frozen=True)
class Triplets:
    """A query, a cut-out that fits it and one that does not: of its own pattern and of any other; or by ``instance``,
    its own cut-out and any other one."""

    data: Pairs
    view: ForegroundView
    copies: int = 1
    instance: bool = False

    def __len__(self) -> int:
        return len(self.data.boxes) * self.copies

    def __getitem__(self, index: int) -> Any:
        return self.draw(range(len(self))[index], torch.Generator().manual_seed(index))

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        data, query = self.data, index % len(self.data.boxes)
        positive, negative = self.chosen(query, generator)
        shown, layout = shown_query(self.view, data.backgrounds[query], data.box(query), generator)
        near, far = (shown_cutout(self.view, data.cutouts[place], generator) for place in (positive, negative))
        return shown, layout, near, far, int(data.patterns[positive])

    def chosen(self, query: int, generator: torch.Generator) -> tuple[int, int]:
        """A positive and a negative cut-out of a query."""
        data, own = self.data, int(self.data.own[query])
        if not self.instance and data.positives is not None and data.negatives is not None:
            return _pick(data.positives[query], generator), _pick(data.negatives[query], generator)
        pattern = int(data.patterns[own])
        if self.instance or pattern < 0:
            other = int(torch.randint(max(len(data.patterns) - 1, 1), (), generator=generator))
            return own, other + (other >= own)
        same = data.patterns == pattern
        others = ~same & (data.patterns >= 0)
        return _pick(same.nonzero()[:, 0], generator), _pick(others.nonzero()[:, 0], generator)


@dataclass(frozen=True)
class Encoded:
    """Triplets whose cut-outs, and perhaps queries, are features of random views that a frozen encoder saw once."""

    data: Triplets
    foregrounds: Tensor
    """(V, F, D), embeddings of V views of each cut-out."""
    backgrounds: Tensor | None = None
    """(V, Q, D), features of V views of each background; without them, a background is drawn anew."""
    layouts: Tensor | None = None
    """(V, Q, 4)."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Any:
        return self.draw(range(len(self))[index], torch.Generator().manual_seed(index))

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        pairs = self.data.data
        query = index % len(pairs.boxes)
        positive, negative = self.data.chosen(query, generator)
        one, near, far = torch.randint(len(self.foregrounds), (3,), generator=generator).tolist()
        if self.backgrounds is None or self.layouts is None:
            shown, layout = shown_query(self.data.view, pairs.backgrounds[query], pairs.box(query), generator)
        else:
            shown, layout = self.backgrounds[one, query], self.layouts[one, query]
        embeddings = self.foregrounds[near, positive], self.foregrounds[far, negative]
        return shown, layout, *embeddings, int(pairs.patterns[positive])


@dataclass(frozen=True)
class Views:
    """Every query (or every cut-out) as drawn for training in one random view of each; ``seed`` names the view."""

    data: Pairs
    view: ForegroundView
    seed: tuple[int | str, ...]
    cutouts: bool = False

    def __len__(self) -> int:
        return len(self.data.patterns if self.cutouts else self.data.boxes)

    def __getitem__(self, index: int) -> Any:
        source = generator("view", *self.seed, index)
        if self.cutouts:
            return shown_cutout(self.view, self.data.cutouts[index], source)
        return shown_query(self.view, self.data.backgrounds[index], self.data.box(index), source)


def _pick(places: Tensor, generator: torch.Generator) -> int:
    if not len(places):
        raise VergenceError("a query has no cut-out to compare with: training needs at least two patterns")
    return int(places[torch.randint(len(places), (), generator=generator)])


def judged(data: Pairs, view: ForegroundView) -> tuple[_Queries, _Gallery]:
    """Queries and cut-outs as networks see them in evaluation."""
    return _Queries(data, view), _Gallery(data, view)


@dataclass(frozen=True)
class _Queries:
    data: Pairs
    view: ForegroundView

    def __len__(self) -> int:
        return len(self.data.boxes)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return shown_query(self.view, self.data.backgrounds[index], self.data.box(index))


@dataclass(frozen=True)
class _Gallery:
    data: Pairs
    view: ForegroundView

    def __len__(self) -> int:
        return len(self.data.patterns)

    def __getitem__(self, index: int) -> Tensor:
        return shown_cutout(self.view, self.data.cutouts[index])
