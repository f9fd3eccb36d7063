"""Pictures with named keypoints, and sets of two or more of the same kind to be matched.

The filters are those of the field: *intersection* keeps keypoints that both pictures have, *inclusion* takes pairs in
which the second has all keypoints of the first, and *unfiltered* keeps everything, so that some remain without partner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import normalised, read_image
from vergence.matching.creatures import KINDS, creatures
from vergence.ops.delaunay import delaunay_edges

Filter = Literal["intersection", "inclusion", "unfiltered"]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRIES = 200
"""Draws until a set passes the filter."""


@dataclass(frozen=True)
class Marked:
    """A picture of a thing, cut out, with named keypoints."""

    kind: str
    picture: Path | Tensor
    points: Mapping[str, tuple[float, float]]
    """x and y as shares of the width and height of what is cut out."""
    box: tuple[float, float, float, float] | None = None
    """Left, top, width and height in pixels; the whole picture, if not given."""

    def crop(self, side: int) -> Tensor:
        """What is cut out, ``side`` pixels square: floats (3, side, side) from 0 to 1."""
        picture = read_image(self.picture) if isinstance(self.picture, Path) else self.picture
        if self.box is None and picture.shape[-2:] == (side, side):
            return picture.float() / 255
        whole = Image.fromarray(picture.permute(1, 2, 0).numpy())
        left, top, width, height = self.box or (0.0, 0.0, float(whole.width), float(whole.height))
        right, bottom = min(left + width, whole.width), min(top + height, whole.height)
        if not (0 <= left < right and 0 <= top < bottom):
            raise VergenceError(f"{self.picture} has no pixels in the box at {left:g}, {top:g}")
        cut = whole.resize((side, side), Image.Resampling.BICUBIC, box=(left, top, right, bottom))
        return torch.from_numpy(np.array(cut)).permute(2, 0, 1).float() / 255


@dataclass(frozen=True)
class Pool:
    """Marked pictures, from which sets of one kind are drawn."""

    pictures: tuple[Marked, ...]

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, Marked]:
        return self.pictures[index].crop(64), self.pictures[index]

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({one.kind for one in self.pictures}))

    @cached_property
    def by_kind(self) -> dict[str, list[Marked]]:
        return {kind: [one for one in self.pictures if one.kind == kind] for kind in self.kinds}


@dataclass(frozen=True)
class Listed:
    """Pairs that a data set lists."""

    pairs: tuple[tuple[Marked, Marked], ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[tuple[Tensor, Marked], ...]:
        return tuple((one.crop(64), one) for one in self.pairs[index])

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(sorted({pair[0].kind for pair in self.pairs}))

    @cached_property
    def by_kind(self) -> dict[str, list[tuple[Marked, Marked]]]:
        return {kind: [pair for pair in self.pairs if pair[0].kind == kind] for kind in self.kinds}


@dataclass(frozen=True)
class Sets:
    """Samples: sets of pictures of one kind with their graphs and the numbers of their keypoints.

    For evaluation, sample i is of kind i modulo their number and always the same; of listed pairs, it is the i-th."""

    data: Pool | Listed
    count: int
    """Samples of an epoch."""
    side: int
    views: int = 2
    filter: Filter = "unfiltered"
    most: int = 0
    """The most keypoints of a picture (0: all)."""
    outliers: float = 0.0
    """unfiltered: the share of keypoints that are moved to a random place, where they are nothing."""
    seed: tuple[int | str, ...] = ("sets",)

    def __post_init__(self) -> None:
        if isinstance(self.data, Listed):
            if self.views != 2:
                raise VergenceError(f"listed pairs have 2 pictures, got views={self.views}")
            return
        short = [kind for kind, own in self.data.by_kind.items() if len(own) < self.views]
        if short or not self.data.kinds:
            raise VergenceError(f"sets of {self.views} need as many pictures of each kind: {short or 'none'} has fewer")

    def __len__(self) -> int:
        return self.count

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.data.kinds

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = range(self.count)[index]
        source = generator(*self.seed, index)
        if isinstance(self.data, Listed):
            return self._sample(self.data.pairs[index % len(self.data.pairs)], source)
        return self._drawn(self.kinds[index % len(self.kinds)], source)

    def draw(self, index: int, source: torch.Generator) -> dict[str, Any]:
        return self._drawn(self.kinds[_choice(len(self.kinds), source)], source)

    def _drawn(self, kind: str, source: torch.Generator) -> dict[str, Any]:
        for _ in range(TRIES):
            if isinstance(self.data, Listed):
                every = self.data.by_kind[kind]
                chosen: Sequence[Marked] = every[_choice(len(every), source)]
            else:
                order = torch.randperm(len(self.data.by_kind[kind]), generator=source)[: self.views]
                chosen = [self.data.by_kind[kind][i] for i in order.tolist()]
            if self._passes(chosen):
                return self._sample(chosen, source)
        raise VergenceError(f"no {self.views} pictures of kind {kind!r} have keypoints for the filter {self.filter!r}")

    def _passes(self, chosen: Sequence[Marked]) -> bool:
        first, second = (set(one.points) for one in chosen[:2])
        if self.filter == "unfiltered":
            return all(one.points for one in chosen)
        if self.filter == "inclusion":
            return bool(first) and first <= second
        return len(first & second) >= 2

    def _sample(self, chosen: Sequence[Marked], source: torch.Generator) -> dict[str, Any]:
        every = sorted({name for one in chosen for name in one.points})
        order = [every[i] for i in torch.randperm(len(every), generator=source).tolist()]
        if self.filter == "intersection":
            order = [name for name in order if all(name in one.points for one in chosen[:2])]
        points, labels = [], []
        for number, one in enumerate(chosen):
            names = [name for name in order if name in one.points]
            if self.most and not (self.filter == "inclusion" and number):
                names = names[: self.most]
            names = [names[i] for i in torch.randperm(len(names), generator=source).tolist()]
            place = torch.tensor([one.points[name] for name in names]).reshape(-1, 2) * self.side
            label = torch.tensor([every.index(name) for name in names], dtype=torch.long)
            if self.filter == "unfiltered" and self.outliers:
                lost = torch.rand(len(names), generator=source) < self.outliers
                place = torch.where(lost[:, None], torch.rand(place.shape, generator=source) * self.side, place)
                label = label.masked_fill(lost, -1)
            points.append(place)
            labels.append(label)
        return {
            "images": torch.stack([normalised(one.crop(self.side), MEAN, STD) for one in chosen]),
            "points": points,
            "labels": labels,
            "kind": self.kinds.index(chosen[0].kind),
        }

    @staticmethod
    def collate(samples: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """One batch, padded: see :func:`padded`."""
        graphs = padded([one["points"] for one in samples], [one["labels"] for one in samples])
        images = torch.stack([one["images"] for one in samples])
        return {"images": images, "kind": torch.tensor([one["kind"] for one in samples]), **graphs}


def padded(points: Sequence[Sequence[Tensor]], labels: Sequence[Sequence[Tensor]] | None = None) -> dict[str, Tensor]:
    """Keypoints of B sets of V pictures as ``points`` (B, V, N, 2), with ``counts`` (B, V), Delaunay ``edges``
    (B, V, E, 2) and ``labels`` (B, V, N); edges and labels that are none are -1."""
    size = (len(points), len(points[0]))
    edges = [[delaunay_edges(own) for own in each] for each in points]
    most, longest = (max(1, *(len(own) for each in every for own in each)) for every in (points, edges))
    batch = {
        "points": torch.zeros(*size, most, 2),
        "counts": torch.tensor([[len(own) for own in each] for each in points]),
        "edges": torch.full((*size, longest, 2), -1),
        "labels": torch.full((*size, most), -1),
    }
    for b, each in enumerate(points):
        for v, own in enumerate(each):
            batch["points"][b, v, : len(own)] = own
            batch["edges"][b, v, : len(edges[b][v])] = edges[b][v]
            if labels is not None:
                batch["labels"][b, v, : len(own)] = labels[b][v]
    return batch


def truth(labels: Tensor, first: int, second: int) -> Tensor:
    """(B, N, N) of zeros and ones: keypoints of two views of a batch with the same label (B, V, N)."""
    one, other = labels[:, first].unsqueeze(2), labels[:, second].unsqueeze(1)
    return ((one == other) & (one >= 0)).float()


def _choice(count: int, source: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=source))


def embedded(count: int, side: int, split: str) -> Pool:
    """Rendered animals and vehicles, ``count`` of each kind; textures of the test come from other photographs."""
    drawn = creatures(count, side, ("bbgm", split), "test" if split == "test" else "train")
    pictures = []
    for number, kind in enumerate(KINDS):
        for row in range(number * count, (number + 1) * count):
            places = drawn.points[row].add(0.5).div(side).tolist()
            points = {
                name: (x, y)
                for name, (x, y), seen in zip(KINDS[kind].places, places, drawn.seen[row].tolist(), strict=False)
                if seen
            }
            pictures.append(Marked(kind, drawn.pictures[row], points))
    return Pool(tuple(pictures))
