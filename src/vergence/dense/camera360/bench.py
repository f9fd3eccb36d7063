"""Rotation of huge panoramas against ``grid_sample`` and OpenCV, votes against their definition, and batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.dense.camera360.model import build
from vergence.dense.camera360.settings import SETTINGS
from vergence.ops import sphere

HEIGHT, WIDTH = 4096, 8192
UP = (0.3, -0.2, 0.933)


def contests() -> Iterator[Contest]:
    """Rotation with its coordinates, votes, a batch of panoramas, and the networks of both forms."""
    yield _rotation()
    yield _whole()
    yield _votes()
    yield _batch()


def _turn() -> Tensor:
    top = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    return sphere.shortest_arc(top, F.normalize(torch.tensor(UP, dtype=torch.float64), dim=0))


def _picture(height: int, width: int) -> Tensor:
    """A picture of bytes (3, H, W) with detail at every scale."""
    small = torch.rand(1, 3, height // 16, width // 16, generator=generator("bench"))
    return (F.interpolate(small, (height, width), mode="bicubic")[0].clamp(0, 1) * 255).to(torch.uint8)


def _grid(height: int, width: int) -> Tensor:
    directions = sphere.pixel_directions(height, width, torch.zeros(())) @ _turn().float().mT
    x, y = sphere.vector_to_pixel(directions, height, width)
    return torch.stack([(x + 0.5) * (2 / width) - 1, (y + 0.5) * (2 / height) - 1], -1).unsqueeze(0)


def _rotation() -> Contest:
    picture = _picture(HEIGHT, WIDTH)
    ready, grid = picture.float().unsqueeze(0), _grid(HEIGHT, WIDTH)
    rivals: dict[str, Callable[[], Any]] = {
        "grid_sample, grid ready": partial(F.grid_sample, ready, grid, align_corners=False)
    }
    try:
        import cv2
    except ImportError:
        pass
    else:
        own = np.ascontiguousarray(picture.permute(1, 2, 0).numpy())
        across, down = ((grid[0, ..., k] + 1) * (side / 2) - 0.5 for k, side in ((0, WIDTH), (1, HEIGHT)))
        maps = across.numpy(), down.numpy()
        rivals["OpenCV, maps ready"] = partial(cv2.remap, own, *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
    title = f"rotation of {WIDTH} x {HEIGHT} pixels, coordinates included, by tiles"
    return Contest("rotation", title, partial(sphere.rotate_tiles, picture, _turn()), rivals)


def _whole() -> Contest:
    picture = _picture(HEIGHT // 2, WIDTH // 2)
    rivals = {"whole": lambda: sphere.rotate(picture.float().unsqueeze(0), _turn()).round().to(torch.uint8)}
    title = f"rotation of {WIDTH // 2} x {HEIGHT // 2} pixels by tiles"
    return Contest("tiles", title, partial(sphere.rotate_tiles, picture, _turn()), rivals)


def _votes() -> Contest:
    normals = F.normalize(torch.randn(300, 3, generator=generator("normals")), dim=1)
    height, width = 256, 512

    def plain() -> Tensor:
        near = math.sin(math.radians(1.0))
        directions = sphere.pixel_directions(height, width, normals).flatten(0, 1)
        return ((directions @ normals.mT).abs() < near).sum(1).view(height, width)

    ours = partial(sphere.circle_votes, normals, height, width, 1.0)
    return Contest("votes", f"votes of 300 circles, {width} x {height}", ours, {"every pixel": plain})


def _batch() -> Contest:
    """Eight panoramas at once, as test-time tilts are, against one after another."""
    torch.manual_seed(0)
    network = build(SETTINGS.configure("starter").model).eval().requires_grad_(False)
    images = torch.rand(8, 3, 64, 128, generator=generator("images")) * 2 - 1
    votes = torch.rand(8, 1, 64, 128, generator=generator("votes"))

    def single() -> list[Tensor]:
        return [network(image[None], vote[None]) for image, vote in zip(images, votes, strict=True)]

    title = "the starter network on 8 panoramas of 128 x 64"
    return Contest("batch", title, partial(network, images, votes), {"one by one": single})
