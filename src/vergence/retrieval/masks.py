"""Shapes in pictures: masks, photographs binarised by Otsu's threshold, and views of a shape by random cameras."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import read_image

Foreground = Literal["auto", "bright", "dark"]
"""Which pixels are the shape; auto: those that hold less of the picture's border."""
SPECK = 0.01
"""In photographs, parts and holes smaller than this share of the largest part are removed."""
THIN = 2.0
"""Shapes are at least this wide in every direction, in pixels."""
LARGEST = 2048
"""A larger picture is reduced while it is read, to a longer side of at least that many pixels."""


@dataclass(frozen=True)
class Binarised:
    """The shape in a picture."""

    mask: Tensor
    """Whether each pixel (H, W) is part of the shape."""
    photograph: bool
    """Whether the picture had more than two grey values, so that a threshold was chosen and specks were removed."""
    threshold: int = 0
    """The largest grey value of the darker class."""


def read_shape(path: Path, foreground: Foreground = "auto", clean: bool = True) -> Binarised:
    """The shape in a picture file; one that holds none, a point or a line is refused. ``clean`` removes specks from
    photographs."""
    picture = read_image(path, LARGEST)
    step = max(max(picture.shape[-2:]) // LARGEST, 1)  # a mask of few colours is not reduced while it is read
    return binarised(picture[:, ::step, ::step], path, foreground, clean)


def binarised(picture: Tensor, name: object, foreground: Foreground = "auto", clean: bool = True) -> Binarised:
    """The shape in a picture of bytes (3, H, W). One of two values is a mask; others are cut by Otsu's threshold."""
    red, green, blue = picture.int()
    grey = (299 * red + 587 * green + 114 * blue + 500) // 1000
    values = grey.unique()
    if len(values) < 2:
        raise VergenceError(f"{name} holds no shape: all its pixels have the grey value {int(values[0])}")
    threshold = int(values[0]) if len(values) == 2 else otsu(grey)
    bright = grey > threshold
    mask = bright if _is_bright(bright, foreground) else ~bright
    photograph = len(values) > 2
    if photograph and clean:
        mask = without_specks(mask)
    refuse_thin(mask, name)
    return Binarised(mask, photograph, threshold)


def otsu(grey: Tensor) -> int:
    """Otsu's threshold of an image of bytes: values up to it are one class, and the variance between the two classes is
    the largest possible."""
    counts = torch.bincount(grey.flatten(), minlength=256).double()
    value = torch.arange(256, dtype=torch.float64)
    below, sums = counts.cumsum(0)[:-1], (counts * value).cumsum(0)
    above = counts.sum() - below
    spread = below * above * (sums[:-1] / below - (sums[-1] - sums[:-1]) / above) ** 2
    return int(spread.nan_to_num(-1.0, posinf=-1.0).argmax())


def _is_bright(bright: Tensor, foreground: Foreground) -> bool:
    if foreground != "auto":
        return foreground == "bright"
    border = torch.cat([bright[0], bright[-1], bright[:, 0], bright[:, -1]])
    share = float(border.float().mean())
    return share < 0.5 or (share == 0.5 and float(bright.float().mean()) <= 0.5)


def without_specks(mask: Tensor, share: float = SPECK) -> Tensor:
    """A mask without parts, and without holes, that are smaller than a share of its largest part."""
    from scipy import ndimage

    parts, count = ndimage.label(mask.numpy(), np.ones((3, 3)))
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    least = share * sizes.max()
    kept = (sizes >= max(least, 1))[parts]
    holes, count = ndimage.label(~kept)
    sizes = np.bincount(holes.ravel(), minlength=count + 1)
    return torch.from_numpy(kept | ((sizes < least)[holes] & (holes > 0)))


def refuse_thin(mask: Tensor, name: object) -> None:
    """Refuse a mask without a shape, or whose shape has no area to speak of: a point or a line."""
    count = int(mask.sum())
    if not count:
        raise VergenceError(f"{name} holds no shape: its mask is empty")
    if count == mask.numel():
        raise VergenceError(f"{name} holds no shape: its mask covers all pixels")
    if _width(mask) < THIN:
        what = "point" if count == 1 else "line"
        raise VergenceError(
            f"{name} holds a {what}: a shape is at least {THIN:g} pixels wide in every direction, got {count} "
            f"pixel{'s' if count > 1 else ''} in a row"
        )


def _width(mask: Tensor, count: int = 90) -> float:
    """The least width of a mask's pixels, between parallel lines through centres, plus one pixel."""
    angles = torch.arange(count, dtype=torch.float64) * (math.pi / count)
    rows = mask.any(1).nonzero()[:, 0]
    # Only the ends of each row of pixels can touch a line.
    first, last = mask[rows].byte().argmax(1), mask.shape[1] - 1 - mask[rows].flip(1).byte().argmax(1)
    corners = torch.cat([torch.stack([rows, end], 1) for end in (first, last)]).double()
    along = corners @ torch.stack([angles.cos(), angles.sin()])
    return float((along.amax(0) - along.amin(0)).min()) + 1


def prepared(mask: Tensor, size: int) -> Tensor:
    """The shape of a mask (H, W), cropped and resized to a longer side of ``size`` pixels, with an empty border: floats
    (h, w) from 0 to 1."""
    mask = mask.float()
    inside = mask >= 0.5
    rows, columns = inside.any(1).nonzero()[:, 0], inside.any(0).nonzero()[:, 0]
    part = mask[int(rows[0]) : int(rows[-1]) + 1, int(columns[0]) : int(columns[-1]) + 1]
    height, width = part.shape
    factor = size / max(height, width)
    pad = math.ceil(2 / min(factor, 1))  # two pixels after the resize
    part = F.pad(part, (pad, pad, pad, pad))
    target = [max(round(side * factor), 1) for side in part.shape]
    return F.interpolate(part[None, None], target, mode="bilinear", antialias=True, align_corners=False)[0, 0]


# Views ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cameras:
    """How views of a shape are drawn."""

    stretch: float = 2.5
    """The largest ratio of the two scales of a view."""
    tilt: float = 0.1
    """Perspective: how much nearer one side of the shape may be than its centre, as a share of the distance."""
    side: int = 192
    """The side of a view, in pixels."""

    def __post_init__(self) -> None:
        if not (1 <= self.stretch <= 20 and 0 <= self.tilt <= 0.6 and 16 <= self.side <= 4096):
            raise VergenceError(
                f"views have a stretch of 1 to 20, a tilt of 0 to 0.6 and a side of 16 to 4096, got {self.stretch}, "
                f"{self.tilt} and {self.side}"
            )


def homography(cameras: Cameras, generator: torch.Generator) -> Tensor:
    """A random view (3, 3) of the unit disc: turned, stretched, mirrored in half of all cases, and tilted."""
    draw = torch.rand(6, generator=generator, dtype=torch.float64)
    first, second = (_rotation(float(turn) * 2 * math.pi) for turn in draw[:2])
    scale = cameras.stretch ** (float(draw[2]) / 2)
    stretch = torch.diag(torch.tensor([scale, (-1 if draw[3] < 0.5 else 1) / scale], dtype=torch.float64))
    view = torch.eye(3, dtype=torch.float64)
    view[:2, :2] = first @ stretch @ second
    lean = cameras.tilt * float(draw[4].sqrt())
    way = float(draw[5]) * 2 * math.pi
    view[2, 0], view[2, 1] = lean * math.cos(way), lean * math.sin(way)
    return view


def _rotation(angle: float) -> Tensor:
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)


def seen(mask: Tensor, view: Tensor, side: int, finer: int = 2) -> Tensor:
    """A mask (H, W) as a homography of the unit disc around its shape shows it, scaled to fit a mask (side, side).

    Each pixel is the mean of ``finer`` x ``finer`` samples, cut at a half.
    """
    mask = mask.float()
    outline = (mask >= 0.5).nonzero().double().flip(1)  # x, y
    centre = (outline.amin(0) + outline.amax(0)) / 2
    radius = float((outline - centre).norm(dim=1).max()) + 1
    moved = _mapped((outline - centre) / radius, view)
    low, high = moved.amin(0), moved.amax(0)
    scale = float((high - low).max()) / (side - 4)  # of a pixel of the view
    place = (torch.arange(side * finer) + 0.5) / finer - side / 2
    grid = torch.stack(torch.meshgrid(place, place, indexing="xy"), -1) * scale + (low + high).float() / 2
    source = _mapped(grid, torch.linalg.inv(view).float()) * radius + centre.float()
    size = torch.tensor(mask.shape[::-1])
    drawn = F.grid_sample(mask[None, None], ((2 * source + 1) / size - 1)[None], align_corners=False)
    return F.avg_pool2d(drawn, finer)[0, 0] >= 0.5


def _mapped(points: Tensor, view: Tensor) -> Tensor:
    flat = points @ view[:2, :2].T + view[:2, 2]
    return flat / (points @ view[2, :2] + view[2, 2]).clamp(min=1e-3).unsqueeze(-1)
