"""Cost of the layer beside the network that it ends, of its warp, and of deformable convolution, against loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.nn.descriptor import ResNetMap
from vergence.nn.vtn import VolumetricTransformer
from vergence.ops.deform import deformable_convolution
from vergence.ops.fields import sampled
from vergence.reference import fields as plain

RESNET = "ResNet-50"
PIXELS, TAPS, GROUPS = "loop over output pixels", "loop over taps", "loop over groups"
SIDES = (7, 14, 28)
"""Of a ResNet-50's last map, for pictures of 224, 448 and 896 pixels."""


def contests() -> Iterator[Contest]:
    """The layer on maps of 2,048 channels against a whole ResNet-50; its warp; deformable convolution."""
    for side in SIDES:
        title = f"the layer on 2048 x {side} x {side}, against the forward pass of the network before it"
        yield Contest(f"layer-{side}", title, _layer(side), {RESNET: _resnet(side)})
    for side in (14, 28):
        u, fields = _noise(1, 2048, side, side), 2 * _noise(1, 32, 2, side, side)
        yield Contest(
            f"warp-{side}", f"warp of 32 groups of 64 channels, {side} x {side}, forward and backward",
            _both_ways(sampled, u, fields), {GROUPS: _both_ways(plain.group_by_group, u, fields)},
        )  # fmt: skip
    for side, channels in ((14, 64), (28, 128)):
        parts = _noise(1, channels, side, side), 1.5 * _noise(1, 18, side, side), _noise(channels, channels, 3, 3)
        rivals = {PIXELS: _both_ways(partial(plain.deformable_by_pixel, padding=1), *parts)}
        rivals[TAPS] = _both_ways(partial(plain.deformable_by_tap, padding=1), *parts)
        yield Contest(
            f"deform-{side}", f"deformable 3x3 convolution, {channels} channels, {side} x {side}, both ways",
            _both_ways(partial(deformable_convolution, padding=1), *parts), rivals,
        )  # fmt: skip


def _noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=generator("bench", *shape))


def _both_ways(function: Callable[..., Tensor], *parts: Tensor) -> Callable[[], Any]:
    """Forward and backward with respect to all arguments."""
    leaves = [part.clone().requires_grad_() for part in parts]
    return lambda: torch.autograd.grad(function(*leaves).sum(), leaves)


@cache
def _modules() -> tuple[ResNetMap, VolumetricTransformer]:
    torch.manual_seed(0)
    network = ResNetMap(0, (3, 4, 6, 3), "bottleneck").eval().requires_grad_(False)
    return network, VolumetricTransformer(2048).eval().requires_grad_(False)


def _resnet(side: int) -> Callable[[], Any]:
    """Built on the first run: most processes that list contests run others."""
    return lambda: _modules()[0](_kept(3, 32 * side))


def _layer(side: int) -> Callable[[], Any]:
    return lambda: _modules()[1](_kept(2048, side))


@cache
def _kept(channels: int, side: int) -> Tensor:
    return _noise(1, channels, side, side).relu()
