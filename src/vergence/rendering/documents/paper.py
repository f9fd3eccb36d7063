"""What printing, paper, scanners and cameras do to a page, with where its points go."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from vergence.rendering.things import choice, uniform

Picture = NDArray[np.uint8]
"""(H, W, 3)."""


@dataclass(frozen=True)
class Wear:
    """How a page is worn; the defaults leave it as it is."""

    skew: float = 0.0
    """Degrees, anticlockwise."""
    blur: float = 0.0
    """Standard deviation in pixels."""
    noise: float = 0.0
    """Standard deviation in grey levels."""
    texture: float = 0.0
    """Grey levels by which paper varies."""
    light: float = 0.0
    """Share of the brightness that is lost towards one side."""
    ink: float = 0.0
    """Share of the ink that is missing, in spots."""
    quality: int = 100
    """Of a JPEG file; 100: none."""

    @staticmethod
    def drawn(source: torch.Generator, strength: float = 1.0) -> Wear:
        """Random wear; ``strength`` = 0 is none."""

        def sometimes(share: float, low: float, high: float) -> float:
            return strength * uniform(source, low, high) if uniform(source, 0, 1) < share else 0.0

        return Wear(
            skew=sometimes(0.5, -2.0, 2.0), blur=sometimes(0.5, 0.3, 1.1), noise=sometimes(0.6, 1, 14),
            texture=sometimes(0.5, 2, 12), light=sometimes(0.4, 0.05, 0.35), ink=sometimes(0.25, 0.02, 0.15),
            quality=100 if choice(source, 2) else round(100 - strength * uniform(source, 15, 75)),
        )  # fmt: skip


def turned(points: NDArray[np.float64], degrees: float, height: int, width: int) -> NDArray[np.float64]:
    """Where points (N, 2), x and y, of a picture are after it was turned about its middle, in the enlarged picture."""
    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    tall, wide = turned_size(degrees, height, width)
    x, y = points[:, 0] - width / 2, points[:, 1] - height / 2
    return np.stack([cos * x + sin * y + wide / 2, -sin * x + cos * y + tall / 2], 1)


def turned_size(degrees: float, height: int, width: int) -> tuple[int, int]:
    """Height and width that hold a turned picture."""
    cos, sin = abs(math.cos(math.radians(degrees))), abs(math.sin(math.radians(degrees)))
    return math.ceil(height * cos + width * sin - 1e-9), math.ceil(width * cos + height * sin - 1e-9)


def _rotated(image: NDArray[np.floating[Any]], degrees: float) -> NDArray[np.floating[Any]]:
    height, width = image.shape[:2]
    tall, wide = turned_size(degrees, height, width)
    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    # Output pixel to input pixel, in centres of pixels: the inverse of `turned`.
    matrix = np.array([[cos, sin], [-sin, cos]])  # rows: y, x
    middle_out = np.array([tall / 2 - 0.5, wide / 2 - 0.5])
    middle_in = np.array([height / 2 - 0.5, width / 2 - 0.5])
    shift = middle_in - matrix @ middle_out
    planes = [
        ndimage.affine_transform(image[..., k], matrix, shift, (tall, wide), order=1, mode="nearest") for k in range(3)
    ]
    return np.stack(planes, -1)


def worn(image: Picture, wear: Wear, source: torch.Generator) -> Picture:
    """A page after printing, ageing and scanning. Only ``skew`` moves points: see :func:`turned`."""
    result: NDArray[np.floating[Any]] = image.astype(np.float32)
    height, width = result.shape[:2]
    if wear.ink:
        spots = _smooth(source, height, width, 1.2)
        lost = (spots > np.quantile(spots, 1 - wear.ink))[..., None]
        result = np.where(lost, result + 0.7 * (np.median(result, (0, 1)) - result), result)
    if wear.skew:
        result = _rotated(result, wear.skew)
        height, width = result.shape[:2]
    if wear.texture:
        result = result + wear.texture * _smooth(source, height, width, 2.0 + 0.02 * width)[..., None]
    if wear.light:
        angle = uniform(source, 0, 2 * math.pi)
        y, x = np.mgrid[0:height, 0:width]
        along = math.cos(angle) * (x / width - 0.5) + math.sin(angle) * (y / height - 0.5)
        result = result * (1 - wear.light * (along + 0.7) / 1.4)[..., None]
    if wear.blur:
        result = ndimage.gaussian_filter(result, (wear.blur, wear.blur, 0))
    if wear.noise:
        result = result + wear.noise * torch.randn(height, width, 1, generator=source).numpy()
    done = np.clip(result + 0.5, 0, 255).astype(np.uint8)
    if wear.quality < 100:
        file = io.BytesIO()
        Image.fromarray(done).save(file, "JPEG", quality=wear.quality)
        done = np.asarray(Image.open(file).convert("RGB"))
    return done


def _smooth(source: torch.Generator, height: int, width: int, scale: float) -> NDArray[np.float32]:
    """Noise of unit deviation whose features are ``scale`` pixels wide; coarse noise is made small and enlarged."""
    step = max(int(scale / 2), 1)
    small = torch.randn(height // step + 3, width // step + 3, generator=source).numpy()
    small = ndimage.gaussian_filter(small, scale / step)
    grown = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))
    return (grown - grown.mean()) / max(float(grown.std()), 1e-6)
