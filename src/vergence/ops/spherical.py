"""Range images: the points of a spinning scanner unrolled into rows of pitch and columns of yaw, and back.

One pass of two scattered minima decides which point a pixel shows, without sorting the points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vergence.ops.precision import wide

Keep = Literal["nearest", "farthest"]
"""The point that is shown where several fall into one pixel."""


@dataclass(frozen=True)
class RangeImage:
    """The pixels of points, and the points of pixels."""

    index: Tensor
    """(H, W): the point that each pixel shows; -1 where there is none."""
    row: Tensor
    """(P,): each point's row, from the highest pitch down."""
    column: Tensor
    """(P,): each point's column, from behind over the left, the front and the right."""
    range: Tensor
    """(P,): each point's distance from the scanner."""

    @property
    def mask(self) -> Tensor:
        """(H, W): whether a pixel shows a point."""
        return self.index >= 0

    def image(self, values: Tensor, empty: float = 0.0) -> Tensor:
        """Values (P, ...) of points as an image (H, W, ...); pixels without a point are ``empty``."""
        shown = values[self.index.clamp(min=0)]
        mask = self.mask.reshape(*self.mask.shape, *[1] * (values.dim() - 1))
        return shown.where(mask, torch.full((), empty, dtype=values.dtype, device=values.device))

    def points(self, image: Tensor) -> Tensor:
        """The values (P, ...) of an image (H, W, ...) at the pixels of the points."""
        return image[self.row, self.column]


def spherical_project(
    points: Tensor, height: int = 64, width: int = 2048, up: float = 3.0, down: float = 25.0, keep: Keep = "nearest"
) -> RangeImage:
    """The range image of points (P, 3) with axes forward, left, up (Eq. 1).

    Rows go from ``up`` degrees above the horizon to ``down`` degrees below; points beyond are shown in the first and
    the last row. Straight ahead is column ``width / 2``, left is ``width / 4``. Of points at equal range the first
    counts. Points that are not finite are refused.
    """
    if points.dim() != 2 or points.shape[1] != 3 or not points.is_floating_point():
        raise ValueError(f"points are floats (P, 3), got {tuple(points.shape)} of {points.dtype}")
    if up + down <= 0 or height < 1 or width < 1:
        raise ValueError(f"a range image has up > -down and at least one pixel, got {up}, {down}, {height} x {width}")
    x, y, z = wide(points).unbind(1)
    distance = (x * x + y * y + z * z).sqrt_()
    if not bool(distance.isfinite().all()):
        bad = int((~distance.isfinite()).sum())
        raise ValueError(f"{bad} of {len(points)} points are not finite, or too far away to compute their range")
    yaw = torch.atan2(y, x)
    pitch = torch.asin((z / distance.clamp(min=torch.finfo(z.dtype).tiny)).clamp_(-1, 1))
    column = yaw.mul_(-0.5 / math.pi).add_(0.5).mul_(width).floor_().clamp_(0, width - 1).long()
    low, field = math.radians(-down), math.radians(up + down)
    row = pitch.sub_(low).mul_(-1 / field).add_(1).mul_(height).floor_().clamp_(0, height - 1).long()
    pixel = row * width + column
    return RangeImage(_shown(pixel, distance, height * width, keep).view(height, width), row, column, distance)


def _shown(pixel: Tensor, distance: Tensor, pixels: int, keep: Keep) -> Tensor:
    """The first of the nearest or farthest points of each pixel; -1 for none."""
    how, start = ("amin", math.inf) if keep == "nearest" else ("amax", -math.inf)
    best = distance.new_full((pixels,), start).scatter_reduce_(0, pixel, distance, how)
    among = (best[pixel] == distance).nonzero().squeeze(1)
    count = len(pixel)
    index = torch.full((pixels,), count, device=pixel.device).scatter_reduce_(0, pixel[among], among, "amin")
    return index.masked_fill_(index == count, -1)
