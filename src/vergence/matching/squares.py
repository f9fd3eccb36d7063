"""Small squares that move over a background, as features: what a cost volume keeps of them needs no training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.ops.cost_volume import Cost


@dataclass(frozen=True)
class Moved:
    """Features of a background and of small squares that move by whole pixels."""

    first: Tensor
    second: Tensor
    """(1, C, H, W)."""
    truth: Tensor
    """(1, 2, H, W)."""
    objects: Tensor
    """(H, W), pixels of squares in the first frame."""
    seen: Tensor
    """(H, W), pixels that the second frame shows."""


def moved_squares(seed: int, smooth: bool = False, side: int = 64, channels: int = 16) -> Moved:
    """A background that shifts by up to 2 pixels and five squares of 3 to 7 pixels that move by 2 or 3 more. What a
    square shows is nowhere in the background, or every method would find it there."""
    source = generator("squares", seed)

    def drawn(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=source))

    def texture(height: int, width: int) -> Tensor:
        values = torch.randn(1, channels, height + 2, width + 2, generator=source, dtype=torch.float64)
        return F.avg_pool2d(values, 3, 1) * 3 if smooth else values[..., 1:-1, 1:-1]

    shift = [drawn(-2, 2), drawn(-2, 2)]
    wide = texture(side + 8, side + 8)
    first = wide[..., 4 : 4 + side, 4 : 4 + side].clone()
    second = wide[..., 4 - shift[1] : 4 - shift[1] + side, 4 - shift[0] : 4 - shift[0] + side].clone()
    truth = torch.tensor(shift, dtype=torch.float64).view(1, 2, 1, 1).repeat(1, 1, side, side)
    top = torch.zeros(2, side, side, dtype=torch.long)
    for number in range(1, 6):
        size, x, y = drawn(3, 7), drawn(8, side - 16), drawn(8, side - 16)
        own = [shift[axis] + (2 * drawn(0, 1) - 1) * drawn(2, 3) for axis in range(2)]
        patch = texture(size, size)
        first[..., y : y + size, x : x + size] = patch
        second[..., y + own[1] : y + own[1] + size, x + own[0] : x + own[0] + size] = patch
        truth[0, :, y : y + size, x : x + size] = torch.tensor(own, dtype=torch.float64).view(2, 1, 1)
        top[0, y : y + size, x : x + size] = number
        top[1, y + own[1] : y + own[1] + size, x + own[0] : x + own[0] + size] = number
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    right, down = columns + truth[0, 0].long(), rows + truth[0, 1].long()
    within = (right >= 0) & (right < side) & (down >= 0) & (down < side)
    seen = within & (top[1, down.clamp(0, side - 1), right.clamp(0, side - 1)] == top[0])
    return Moved(first, second, truth, top[0] > 0, seen)


def picked(costs: Tensor, metric: Cost, reach: int) -> Tensor:
    """The displacement (1, 2, H, W) of the best cost."""
    best = costs.argmin(1) if metric == "sad" else costs.argmax(1)
    side = 2 * reach + 1
    return torch.stack([best % side - reach, best // side - reach], 1).double()


def found_flow(scene: Moved, volume: Callable[..., Tensor], start: Tensor, metric: Cost) -> Tensor:
    """The flow ``start`` plus the displacement of the best cost within 4 pixels."""
    return start + picked(volume(scene.first, scene.second, start, 4, metric), metric, 4)


def missed(volume: Callable[..., Tensor], metric: Cost, whole: bool, smooth: bool, scenes: int = 6) -> float:
    """Share of the squares' pixels that the best displacement puts off by more than 0.8 pixels, around the true flow
    averaged over 4 x 4 pixels and interpolated; ``whole``: rounded."""
    shares = []
    for seed in range(scenes):
        scene = moved_squares(seed, smooth)
        start = F.interpolate(F.avg_pool2d(scene.truth, 4), scale_factor=4, mode="bilinear", align_corners=False)
        start = start.round() if whole else start
        off = (found_flow(scene, volume, start, metric) - scene.truth).norm(dim=1)[0] > 0.8
        shares.append(float(off[scene.objects & scene.seen].double().mean()))
    return sum(shares) / len(shares)
