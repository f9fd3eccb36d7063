"""Range images of labelled sweeps: projected, normalised, and in training as another scanner would have seen them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from vergence.contract.data import Spread
from vergence.ops.spherical import Keep, RangeImage, spherical_project
from vergence.points.classes import ClassSet
from vergence.points.semantickitti import Sweep

COUNTED = 200
"""Sweeps from which the frequencies of classes are estimated."""
TURN, RISE, SCALE = math.radians(180), 0.25, 0.05
"""Augmentation: angle, metres and share by which a sweep is turned, raised and scaled at most."""
THIN, ROWS = 0.4, 0.25
"""Augmentation: the largest share of points, and of beams, that are left out."""


class Imaging(Protocol):
    """How sweeps become range images."""

    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def up(self) -> float: ...
    @property
    def down(self) -> float: ...
    @property
    def keep(self) -> Keep: ...
    @property
    def means(self) -> tuple[float, ...]: ...
    @property
    def deviations(self) -> tuple[float, ...]: ...
    @property
    def augment(self) -> str: ...


def project(points: Tensor, settings: Imaging) -> RangeImage:
    """The range image of points (P, 3)."""
    return spherical_project(points, settings.height, settings.width, settings.up, settings.down, settings.keep)


def network_input(seen: RangeImage, points: Tensor, intensity: Tensor, settings: Imaging) -> Tensor:
    """What the network sees of a sweep, (5, H, W): range, x, y, z and intensity, normalised; zero where it is empty."""
    values = torch.cat([seen.range.unsqueeze(1), points, intensity.unsqueeze(1)], 1)
    mean, deviation = (values.new_tensor(numbers) for numbers in (settings.means, settings.deviations))
    return seen.image((values - mean) / deviation).permute(2, 0, 1).contiguous()


@dataclass(frozen=True)
class Images:
    """Range images of sweeps, by index."""

    data: Any
    settings: Imaging

    @property
    def classes(self) -> ClassSet:
        """The classes of the sweeps."""
        classes: ClassSet = self.data.classes
        return classes

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """A sweep's image and labels, and its points, for evaluation."""
        sweep = self.data[index]
        points = {"points": sweep.points, "point_labels": sweep.labels}
        return self._image(sweep) | points

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        """A sweep's image and labels, for training."""
        sweep = self.data[index]
        return self._image(sweep if self.settings.augment == "none" else altered(sweep, generator))

    def _image(self, sweep: Sweep) -> dict[str, Tensor]:
        seen = project(sweep.points, self.settings)
        image = network_input(seen, sweep.points, sweep.intensity, self.settings)
        return {"image": image, "labels": seen.image(sweep.labels)}

    def frequencies(self) -> tuple[float, ...]:
        """The share of pixels that have each class."""
        counts = torch.zeros(len(self.classes), dtype=torch.long)
        some = Spread(self.data, COUNTED)
        for index in range(len(some)):
            labels = self._image(some[index])["labels"]
            counts += labels.flatten().bincount(minlength=len(counts))
        shares = counts / counts.sum().clamp(min=1)
        return tuple(round(share, 6) for share in shares.tolist())


def altered(sweep: Sweep, generator: torch.Generator) -> Sweep:
    """A sweep mirrored, turned, raised and scaled, with fewer points and beams, and other intensities."""

    def uniform(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    x, y, z = sweep.points.unbind(1)
    y = -y if uniform(0, 1) < 0.5 else y
    # Streets run forward: most sweeps are turned a little, some by any angle.
    angle = uniform(-TURN, TURN) if uniform(0, 1) < 0.2 else uniform(-0.1, 0.1) * TURN
    cosine, sine, scale = math.cos(angle), math.sin(angle), uniform(1 - SCALE, 1 + SCALE)
    z = z + uniform(-RISE, RISE)
    points = scale * torch.stack([cosine * x - sine * y, sine * x + cosine * y, z], 1)
    beam = (torch.rand(64, generator=generator) < uniform(0, ROWS))[_beam(sweep.points)]
    kept = ~beam & (torch.rand(len(points), generator=generator) > uniform(0, THIN))
    if int(kept.sum()) < 2:
        kept[:] = True
    intensity = sweep.intensity * uniform(0.4, 1.4) + uniform(-0.1, 0.1)
    intensity = intensity + 0.05 * torch.randn(len(points), generator=generator)
    intensity = intensity.clamp(0, 1) if uniform(0, 1) < 0.85 else torch.zeros_like(intensity)
    return Sweep(points[kept], intensity[kept], sweep.labels[kept])


def _beam(points: Tensor) -> Tensor:
    """Roughly the beam of each point, from 0 to 63, by its pitch."""
    pitch = torch.atan2(points[:, 2], points[:, :2].norm(dim=1))
    return ((math.radians(3) - pitch) * (64 / math.radians(28))).long().clamp_(0, 63)
