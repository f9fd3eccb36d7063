"""Input crops of Siamese trackers: square windows around a target and its context, padded with one colour.

A window has whole pixels, so its place and size differ a little from those requested; it stores its actual ones, so
that positions measured in it are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Frame = NDArray[np.uint8]
"""A picture as bytes (H, W, 3)."""


class Window(NamedTuple):
    """A square crop of a frame."""

    pixels: Tensor
    """(3, size, size), 0 to 255."""
    x: float
    """Its centre in the frame, along the width."""
    y: float
    side: float
    """Side in pixels of the frame."""


def context_side(width: float, height: float) -> float:
    """The side of the square crop of a target with context: (width + height) / 2 is added to width and height."""
    context = (width + height) / 2
    return math.sqrt((width + context) * (height + context))


def mean_colour(frame: Frame) -> tuple[float, float, float]:
    """Mean colour of a frame (H, W, 3)."""
    red, green, blue = frame.reshape(-1, 3).mean(0)
    return float(red), float(green), float(blue)


def window(frame: Frame, x: float, y: float, side: float, size: int, fill: Sequence[float]) -> Window:
    """The square of about ``side`` around (x, y), resized to ``size``."""
    length = max(round(side), 1)
    left, top = round(x - length / 2), round(y - length / 2)
    height, width = frame.shape[:2]
    x0, y0, x1, y1 = max(left, 0), max(top, 0), min(left + length, width), min(top + length, height)
    whole = x0 == left and y0 == top and x1 == left + length and y1 == top + length
    if whole:
        cut = frame[y0:y1, x0:x1]
    else:
        cut = np.empty((length, length, 3), np.uint8)
        cut[:] = np.round(fill).astype(np.uint8)
        if x1 > x0 and y1 > y0:
            cut[y0 - top : y1 - top, x0 - left : x1 - left] = frame[y0:y1, x0:x1]
    pixels = torch.from_numpy(np.ascontiguousarray(cut)).permute(2, 0, 1).float()
    if length != size:
        pixels = F.interpolate(pixels[None], (size, size), mode="bilinear", align_corners=False)[0]
    return Window(pixels, left + length / 2, top + length / 2, float(length))


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of ImageNet's colours, in [0, 1]."""


def normalised(pixels: Tensor) -> Tensor:
    """Normalises pixels (..., 3, H, W) of 0 to 255 for the networks."""
    mean, std = (pixels.new_tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    return (pixels / 255 - mean) / std
