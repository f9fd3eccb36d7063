"""Labelled scans as training samples: their augmentation, and batches of points that know their cloud."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vergence.points.classes import ClassSet
from vergence.points.semantickitti import Sweep

BEAMS = 64
"""Rows of elevation angles that drop out together."""


@dataclass(frozen=True)
class Augmentation:
    """Random changes of a training scan. The first two are the paper's."""

    turn: bool = True
    """Rotate about the vertical axis, by any angle."""
    scale: float = 0.05
    """Scale by up to this share, up or down."""
    most: int = 80_000
    """Random points that are kept at most."""
    sector: float = 1.0
    """Share of the revolution that is kept, in a random direction."""
    drop: float = 0.0
    """Rows of elevation angles that are left out, as a share, up to this."""
    shine: float = 0.0
    """Intensities are multiplied and shifted at random by up to this."""


@dataclass(frozen=True)
class ScanSamples:
    """Scans of ``data`` from ``start`` to ``stop``: ``points`` (P, 4), the last the intensity, and ``labels`` (P,)."""

    data: Any
    augmentation: Augmentation = Augmentation()
    start: int = 0
    stop: int | None = None

    @property
    def classes(self) -> ClassSet:
        classes: ClassSet = self.data.classes
        return classes

    @property
    def places(self) -> range:
        return range(len(self.data))[self.start : self.stop]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return _sample(self.data[self.places[index]])

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        return augmented(self[index], self.augmentation, generator)

    def collate(self, samples: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Clouds one after another, with the number of each point's cloud."""
        sizes = torch.tensor([len(sample["points"]) for sample in samples])
        joined = {name: torch.cat([sample[name] for sample in samples]) for name in samples[0]}
        return joined | {"cloud": torch.arange(len(samples)).repeat_interleave(sizes)}


def _sample(sweep: Sweep) -> dict[str, Tensor]:
    return {"points": torch.cat([sweep.points, sweep.intensity.unsqueeze(1)], 1), "labels": sweep.labels}


def augmented(sample: dict[str, Tensor], how: Augmentation, source: torch.Generator) -> dict[str, Tensor]:
    """A scan changed at random; at least one point is left."""
    points, labels = sample["points"], sample["labels"]
    kept = torch.ones(len(points), dtype=torch.bool)
    if how.sector < 1:
        angle = torch.atan2(points[:, 1], points[:, 0]) / (2 * math.pi) + torch.rand((), generator=source)
        kept &= angle.remainder(1) < how.sector
    if how.drop:
        pitch = torch.atan2(points[:, 2], points[:, :2].norm(dim=1))
        row = ((pitch + 0.44) / 0.5 * BEAMS).long().clamp(0, BEAMS - 1)
        share = how.drop * torch.rand((), generator=source)
        kept &= (torch.rand(BEAMS, generator=source) >= share)[row]
    chosen = kept.nonzero().squeeze(1) if kept.any() else torch.arange(len(points))
    if len(chosen) > how.most:
        chosen = chosen[torch.randperm(len(chosen), generator=source)[: how.most]]
    places, intensity = points[chosen, :3], points[chosen, 3:]
    if how.turn:
        angle = 2 * math.pi * torch.rand((), generator=source)
        cos, sin = angle.cos(), angle.sin()
        x, y, z = places.unbind(1)
        places = torch.stack([cos * x - sin * y, sin * x + cos * y, z], 1)
    places = places * (1 + how.scale * (2 * torch.rand((), generator=source) - 1))
    if how.shine:
        gain, shift = how.shine * (2 * torch.rand(2, generator=source) - 1)
        intensity = (intensity * (1 + gain) + 0.5 * shift).clamp(0, 1)
    return {"points": torch.cat([places, intensity], 1), "labels": labels[chosen]}
