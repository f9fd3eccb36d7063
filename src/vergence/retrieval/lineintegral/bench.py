"""Cost of the transform: the table of chords against other ways to fill it, and descriptors against each other.

``radon`` of scikit-image turns the image once per direction and keeps all offsets, between which the table is then
interpolated. ``map_coordinates`` and ``grid_sample`` read the same samples as ours, one point at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.ops.lines import binding_integrals, directions, line_offsets, supports
from vergence.reference import lines as plain
from vergence.retrieval.lineintegral.model import describe, describe_image, ratios
from vergence.retrieval.lineintegral.settings import Method, ModelConfig
from vergence.retrieval.masks import prepared
from vergence.retrieval.silhouettes import KINDS, silhouette

CONFIG = ModelConfig()
FEW, MANY = 8, 32


def contests() -> Iterator[Contest]:
    """The table of one shape of 256 pixels, its descriptor, and many shapes against few."""
    image = shape()
    rivals: dict[str, Callable[[], Any]] = {
        "scikit-image's radon": partial(by_radon, image),
        "SciPy's map_coordinates": partial(by_coordinates, image),
        "PyTorch's grid_sample": partial(by_grid, image),
    }
    size = f"{CONFIG.rows} x {CONFIG.angles}, a shape of {CONFIG.size} pixels"
    yield Contest("table", f"table of chords, {size}", partial(table, image), rivals)
    few = image[::4, ::4].contiguous()
    yield Contest(
        "plain",
        f"table of chords, {CONFIG.rows} x 20, a shape of {CONFIG.size // 4} pixels",
        lambda: binding_integrals(few[None], ratios(CONFIG), 20),
        {"one line at a time in Python": partial(one_by_one, few)},
    )
    others: dict[str, Method] = {
        "triple features": "trace",
        "multi-scale autoconvolution": "msa",
        "R-transform": "r-transform",
        "affine moment invariants": "ami",
    }
    slower = {name: partial(describe_image, image, ModelConfig(method=method)) for name, method in others.items()}
    yield Contest("describe", f"descriptor of {size}", partial(describe_image, image, CONFIG), slower)
    yield Contest("many", f"{FEW} shapes described", partial(several, FEW), {f"{MANY} shapes": partial(several, MANY)})


@cache
def shape() -> Tensor:
    """A horse, as it is described."""
    return prepared(silhouette("quadruped", "bench") >= 0.5, CONFIG.size)


@cache
def _masks(count: int) -> list[Tensor]:
    kinds = list(KINDS)
    return [silhouette(kinds[n % len(kinds)], f"bench {n // len(kinds)}") >= 0.5 for n in range(count)]


def several(count: int) -> Tensor:
    return torch.stack([describe(mask, CONFIG) for mask in _masks(count)])


def table(image: Tensor) -> Tensor:
    return binding_integrals(image[None], ratios(CONFIG), CONFIG.angles)[0]


def _offsets(image: Tensor) -> tuple[Tensor, Tensor]:
    angles = directions(CONFIG.angles, image)
    return line_offsets(supports(image[None], angles), ratios(CONFIG))[0], angles


def by_radon(image: Tensor) -> Tensor:
    """The table (K, N) from a Radon transform over half a circle, linear between its offsets."""
    radon: Any = import_module("skimage.transform").radon  # it has no types

    offsets, angles = _offsets(image)
    half = CONFIG.angles // 2
    degrees = np.arange(half) * (360 / CONFIG.angles)
    # It turns about its middle, with angles that grow the other way, and pads to the diagonal.
    found = radon(image.flip(0).numpy(), theta=degrees, circle=False)
    height, width = image.shape
    middle = (width // 2) * angles.cos() + (height - 1 - height // 2) * angles.sin()
    side = found.shape[0]
    rows = []
    for number in range(CONFIG.angles):
        column = found[:, number % half] if number < half else found[::-1, number % half]
        extra = 0 if number < half else 1 - side % 2
        places = (offsets[:, number] - middle[number]).numpy() + side // 2 - extra
        rows.append(np.interp(places, np.arange(side), column))
    return torch.from_numpy(np.stack(rows, 1))


def _samples(image: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates x and y (K, N, S) of one sample per pixel along every line."""
    offsets, angles = _offsets(image)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    height, width = image.shape
    along = torch.arange(math.ceil(math.hypot(height, width)), dtype=image.dtype)
    along = along - along.mean()
    # The foot of the perpendicular from the middle of the image, then along the line.
    x0, y0 = (width - 1) / 2, (height - 1) / 2
    away = offsets.unsqueeze(-1) - (x0 * cos + y0 * sin)
    return x0 + away * cos - along * sin, y0 + away * sin + along * cos


def by_coordinates(image: Tensor) -> Tensor:
    from scipy.ndimage import map_coordinates

    x, y = _samples(image)
    return torch.from_numpy(map_coordinates(image.numpy(), [y.numpy(), x.numpy()], order=1).sum(-1))


def by_grid(image: Tensor) -> Tensor:
    x, y = _samples(image)
    height, width = image.shape
    grid = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1).flatten(1, 2)
    sampled = torch.nn.functional.grid_sample(image[None, None], grid[None], align_corners=False)
    return sampled.view(x.shape).sum(-1)


def one_by_one(image: Tensor) -> list[list[float]]:
    angles = directions(20, image)
    offsets = line_offsets(supports(image[None], angles), ratios(CONFIG))[0]
    pixels = image.double().numpy()
    return [
        [plain.image_integral(pixels, float(o), float(a)) for o, a in zip(row, angles, strict=True)] for row in offsets
    ]
