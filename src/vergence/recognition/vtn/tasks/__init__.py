"""The two tasks (classification and retrieval), and what they share: views, batches of pairs, the consistency loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.data.images import resized, scaled
from vergence.ops.fields import consistency, triplets
from vergence.recognition.birds import Birds, birds
from vergence.recognition.data import augmented, middle
from vergence.recognition.settings import Facts
from vergence.recognition.vtn.pictures import Region
from vergence.recognition.vtn.settings import Config, Landmarks, Pictures

Ctx = Context[Config, Facts]
S = TypeVar("S", bound=Pictures | Landmarks)
CENTROIDS = 8
"""Groups of channels whose centroids are compared, whatever the groups of the warp."""


def asked(config: Config, kind: type[S]) -> S:
    """The data settings of a config, checked to be of this kind."""
    if not isinstance(config.data, kind):
        raise VergenceError(f"expected settings of {kind.__name__}, got those of {type(config.data).__name__}")
    return config.data


def embedded_birds(view: Pictures | Landmarks, split: str, count: int = 0) -> Birds:
    """``count`` birds; by default the number that the view asks for in training, and half of it otherwise."""
    count = count or (view.count if split == "train" else max(view.count // 2, 16))
    return birds(count, view.size, view.pose, view.marks, split)


def cut(view: Pictures | Landmarks, picture: Tensor) -> Tensor:
    """The middle of a picture as network input, (3, size, size)."""
    return middle(view, _squared(view, picture))


def seen(view: Pictures | Landmarks, picture: Tensor) -> Region:
    """The part of a picture that :func:`cut` takes, in its own pixels."""
    height, width = picture.shape[-2:]
    if isinstance(view, Pictures) and view.square:
        share = view.size / view.resize
        return width * (1 - share) / 2, height * (1 - share) / 2, width * share, height * share
    left, top, side = view.region(height, width)
    return left, top, side, side


def _squared(view: Pictures | Landmarks, picture: Tensor) -> Tensor:
    """A picture of bytes or floats, as floats; with one length along both sides if the view asks for it."""
    if isinstance(view, Pictures) and view.square:
        return resized(scaled(picture), view.resize, view.resize)
    return scaled(picture)


def turned(picture: Tensor, degrees: float) -> Tensor:
    """A float picture (3, H, W) turned about its middle; corners repeat the border."""
    height, width = picture.shape[-2:]
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    theta = picture.new_tensor([[c, -s * height / width, 0], [s * width / height, c, 0]])
    grid = F.affine_grid(theta[None], [1, 3, height, width], align_corners=False)
    return F.grid_sample(picture[None], grid, "bilinear", "border", align_corners=False)[0]


@dataclass(frozen=True)
class Viewed:
    """Labelled pictures as network input, in batches with ``each`` pictures of a class: the middle of a picture by
    index, turned and cropped at random by ``draw``."""

    data: Any
    labels: Sequence[int]
    view: Pictures | Landmarks
    boxes: Sequence[Sequence[float]] = ()
    """Boxes of the objects as left, top, width and height in pixels of the picture, if they are known."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        """The input, the label, and the box in pixels of the input as left, top, right, bottom (NaN if unknown)."""
        picture = self._picture(index)
        box = torch.full((4,), torch.nan)
        if len(self.boxes):
            left, top, across, down = seen(self.view, picture)
            x, y, width, height = map(float, self.boxes[index])
            corners = torch.tensor([x - left, y - top, x + width - left, y + height - top])
            box = corners * self.view.size / torch.tensor([across, down]).repeat(2)
        return cut(self.view, picture), self.labels[index], box

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, int]:
        picture = _squared(self.view, self._picture(index))
        if self.view.rotate:
            angle = self.view.rotate * (2 * torch.rand((), generator=generator) - 1)
            picture = turned(picture, float(angle))
        return augmented(self.view, picture, generator), self.labels[index]

    def _picture(self, index: int) -> Tensor:
        item = self.data[index]
        picture: Tensor = item[0] if isinstance(item, tuple) else item
        return picture

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch: every picture about once, classes in random order, ``each`` pictures of a class together. Where a
        class has too few, they come again."""
        each = self.view.each
        if size % each:
            raise VergenceError(f"a batch of {size} cannot hold classes with {each} pictures each")
        by_class: dict[int, list[int]] = {}
        for index, label in enumerate(self.labels):
            by_class.setdefault(label, []).append(index)
        chunks = []
        for members in by_class.values():
            order = [members[i] for i in torch.randperm(len(members), generator=generator).tolist()]
            full = order * -(-each // len(order))
            chunks += [full[i : i + each] for i in range(0, max(len(order) - each, 0) + 1, each)]
        chunks = [chunks[i] for i in torch.randperm(len(chunks), generator=generator).tolist()]
        together = size // each
        for start in range(0, max(len(chunks) - together, 0) + 1, together):
            yield [index for chunk in chunks[start : start + together] for index in chunk]


def consistency_loss(ctx: Ctx, maps: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """λ times Eq. 4 for random triplets of a batch of warped maps; nothing if λ is zero."""
    objective = ctx.config.objective
    if not objective.consistency:
        return {}
    anchor, positive, negative = triplets(labels, ctx.generator)
    loss = consistency(maps[anchor], maps[positive], maps[negative], objective.margin)
    return {"consistency": objective.consistency * loss}


class Centroids:
    """Where the response of groups of channels lies, before and after the warp, over many pictures."""

    def __init__(self) -> None:
        self.rows: list[Tensor] = []

    def add(self, u: Tensor, v: Tensor, fields: Tensor | None) -> None:
        moved = u.new_zeros(len(u)) if fields is None else fields.float().norm(dim=2).mean((1, 2, 3))
        self.rows.append(torch.cat([_centroids(u), _centroids(v), moved[:, None]], 1).cpu())

    def scores(self, gather: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """By which factor the warp changes how far centroids scatter from picture to picture (standard deviation, mean
        over groups and axes), and the mean length of the fields, in pixels of the map."""
        rows = gather(torch.cat(self.rows))
        before, after = (part.std(0).mean() for part in (rows[:, :-1].chunk(2, 1)))
        return {"spread": float(after / before), "shift": float(rows[:, -1].mean())}


def _centroids(x: Tensor) -> Tensor:
    """The middles (B, 2 groups) of the mean positive response of groups of channels, in pixels of the map."""
    groups = math.gcd(CENTROIDS, x.shape[1])
    response = x.float().clamp(min=0).unflatten(1, (groups, -1)).mean(2)
    response = response / response.sum((2, 3), keepdim=True).clamp(min=1e-9)
    x_axis, y_axis = (torch.arange(side, device=x.device, dtype=response.dtype) for side in (x.shape[3], x.shape[2]))
    return torch.cat([(response.sum(2) * x_axis).sum(2), (response.sum(3) * y_axis).sum(2)], 1)
