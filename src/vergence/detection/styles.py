"""Looks of another domain for rendered pictures with known depth: fog, night, and paint.

Fog follows the model of Foggy Cityscapes: light is lost along the way by ``exp(-beta * depth)``, and light of the air
takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Style = Literal["photographic", "foggy", "night", "painted"]
LOST = (0.75, 0.92)
"""foggy: the share of light that is lost at three quarters of the depth of a picture."""


def foggy(image: Tensor, depth: Tensor, source: torch.Generator) -> Tensor:
    """Dense fog. Its density is relative to the depth of the scene, so that table tops have some too."""
    finite = depth[depth.isfinite()]
    reach = float(finite.quantile(0.75)) if len(finite) else 1.0
    lost, air = torch.rand(2, generator=source).tolist()
    beta = -math.log(1 - LOST[0] - (LOST[1] - LOST[0]) * lost) / max(reach, 1e-3)
    passed = torch.exp(-beta * depth)  # 0 where the depth is infinite
    tint = torch.tensor([1.0, 1.0, 1.03]).view(3, 1, 1).to(image)
    return (image * passed + (0.68 + 0.2 * air) * tint * (1 - passed)).clamp(0, 1)


def night(image: Tensor, depth: Tensor, source: torch.Generator) -> Tensor:
    """Little and bluish light, a lamp beside the camera, and a noisy sensor."""
    lamp, level = torch.rand(2, generator=source).tolist()
    finite = depth[depth.isfinite()]
    reach = float(finite.median()) if len(finite) else 1.0
    near = torch.exp(-depth / (max(reach, 1e-3) * (0.5 + 0.5 * lamp)))
    blue = torch.tensor([0.55, 0.7, 1.1]).view(3, 1, 1).to(image)
    warm = torch.tensor([1.1, 0.95, 0.7]).view(3, 1, 1).to(image)
    grey = image.mean(0, keepdim=True)
    dark = (0.5 * image + 0.5 * grey) ** 1.4 * (0.3 + 0.15 * level) * blue + 0.9 * near * image * warm
    grain = torch.randn(image.shape, generator=source).to(image)
    return (dark + 0.035 * grain).clamp(0, 1)


def painted(image: Tensor, depth: Tensor, source: torch.Generator) -> Tensor:
    """Watercolour: flat regions with darker rims, few and turned colours, on rough paper."""
    flat = _regional(image)
    turn, paper, fade = torch.rand(3, generator=source).tolist()
    flat = _turned(flat, (turn - 0.5) * 2.4)
    levels = 7.0
    flat = 0.35 * flat + 0.65 * (flat * levels).round() / levels
    grey = flat.mean(0, keepdim=True)
    padded = F.pad(grey[None], (1, 1, 1, 1), mode="replicate")[0, 0]
    rims = (padded[1:-1, 2:] - padded[1:-1, :-2]).abs() + (padded[2:, 1:-1] - padded[:-2, 1:-1]).abs()
    washed = 1 - (1 - flat) * (0.62 + 0.2 * fade)
    rough = torch.randn(1, 1, *image.shape[-2:], generator=source).to(image)
    rough = F.avg_pool2d(F.pad(rough, (1, 1, 1, 1), mode="replicate"), 3, 1)[0]
    return (washed - 0.6 * rims.clamp(max=0.4) + (0.05 + 0.05 * paper) * rough).clamp(0, 1)


def _regional(image: Tensor) -> Tensor:
    """Kuwahara's filter: of the four windows around a pixel, the mean of the one that varies least."""
    mean = F.avg_pool2d(F.pad(image[None], (2, 2, 2, 2), mode="replicate"), 3, 1)[0]  # (3, H + 2, W + 2)
    square = F.avg_pool2d(F.pad(image[None] ** 2, (2, 2, 2, 2), mode="replicate"), 3, 1)[0]
    spread = (square - mean**2).sum(0)
    height, width = image.shape[-2:]
    corners = [(y, x) for y in (0, 2) for x in (0, 2)]
    means = torch.stack([mean[:, y : y + height, x : x + width] for y, x in corners])
    spreads = torch.stack([spread[y : y + height, x : x + width] for y, x in corners])
    return means.gather(0, spreads.argmin(0)[None, None].expand(1, 3, -1, -1))[0]


def _turned(image: Tensor, angle: float) -> Tensor:
    """Hues turned about the grey axis."""
    cos, sin = math.cos(angle), math.sin(angle) / math.sqrt(3)
    third = (1 - cos) / 3
    rows = [[cos + third, third - sin, third + sin], [third + sin, cos + third, third - sin],
            [third - sin, third + sin, cos + third]]  # fmt: skip
    return torch.einsum("ij,jhw->ihw", torch.tensor(rows).to(image), image).clamp(0, 1)


def _as_it_is(image: Tensor, depth: Tensor, source: torch.Generator) -> Tensor:
    return image


STYLES: dict[str, Callable[[Tensor, Tensor, torch.Generator], Tensor]] = {
    "photographic": _as_it_is, "foggy": foggy, "night": night, "painted": painted,
}  # fmt: skip
