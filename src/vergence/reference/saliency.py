"""Saliency metrics written from their definitions, one picture and one threshold at a time in NumPy, and ATSA as its
authors' code computes it. Slow and easy to read; fast forms are compared with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPS = np.finfo(np.float64).eps


def _cut(saliency: Any, threshold: float) -> Any:
    return saliency >= threshold


def f_measure(cut: Any, mask: Any) -> float:
    """F with β² = 0.3 of a binary map."""
    if not mask.any() and not cut.any():
        return 1.0
    hits = float(np.logical_and(cut, mask).sum())
    if hits == 0:
        return 0.0
    precision, recall = hits / cut.sum(), hits / mask.sum()
    return float(1.3 * precision * recall / (0.3 * precision + recall))


def adaptive_threshold(saliency: Any) -> float:
    return float(min(2 * saliency.mean(), 1.0))


def adaptive_f(saliency: Any, mask: Any) -> float:
    return f_measure(_cut(saliency, adaptive_threshold(saliency)), mask)


def f_curve(saliency: Any, mask: Any) -> list[float]:
    """F at each of the 256 values of a byte."""
    levels = np.floor(saliency * 255 + 1e-6)
    return [f_measure(levels >= level, mask) for level in range(256)]


def s_measure(saliency: Any, mask: Any) -> float:
    if not mask.any():
        return float(1 - saliency.mean())
    if mask.all():
        return float(saliency.mean())
    share = mask.mean()
    object_ = share * _object(saliency[mask]) + (1 - share) * _object(1 - saliency[~mask])
    return float(max(0.5 * object_ + 0.5 * _region(saliency, mask.astype(np.float64)), 0.0))


def _object(values: Any) -> float:
    mean = values.mean()
    deviation = values.std(ddof=1) if values.size > 1 else 0.0
    return float(2 * mean / (mean**2 + 1 + deviation + EPS))


def _region(saliency: Any, mask: Any) -> float:
    height, width = mask.shape
    rows, columns = np.nonzero(mask)
    y, x = int(np.round(rows.mean())) + 1, int(np.round(columns.mean())) + 1
    total = 0.0
    for some in (np.s_[:y, :x], np.s_[:y, x:], np.s_[y:, :x], np.s_[y:, x:]):
        if mask[some].size:
            total += mask[some].size / (height * width) * _ssim(saliency[some], mask[some])
    return total


def _ssim(one: Any, other: Any) -> float:
    count = one.size
    x, y = one.mean(), other.mean()
    fewer = max(count - 1, 1)
    var_x, var_y = ((one - x) ** 2).sum() / fewer, ((other - y) ** 2).sum() / fewer
    both = ((one - x) * (other - y)).sum() / fewer
    above, below = 4 * x * y * both, (x * x + y * y) * (var_x + var_y)
    if abs(above) > 1e-13:
        return float(above / (below + EPS))
    return 1.0 if below < 1e-13 else 0.0


def e_measure(cut: Any, mask: Any) -> float:
    """The mean of (ξ + 1)² / 4 over pixels."""
    cut, mask = cut.astype(np.float64), mask.astype(np.float64)
    if not mask.any():
        return float(1 - cut.mean())
    if mask.all():
        return float(cut.mean())
    a, b = cut - cut.mean(), mask - mask.mean()
    alignment = 2 * a * b / (a * a + b * b + EPS)
    return float(((alignment + 1) ** 2 / 4).mean())


def adaptive_e(saliency: Any, mask: Any) -> float:
    return e_measure(_cut(saliency, adaptive_threshold(saliency)), mask)


def e_curve(saliency: Any, mask: Any) -> list[float]:
    levels = np.floor(saliency * 255 + 1e-6)
    return [e_measure(levels >= level, mask) for level in range(256)]


def boundary(mask: Any) -> list[tuple[int, int]]:
    """Pixels of a mask with a neighbour inside the picture that is outside the mask."""
    height, width = mask.shape
    return [
        (y, x) for y in range(height) for x in range(width)
        if mask[y, x] and any(
            0 <= y + dy < height and 0 <= x + dx < width and not mask[y + dy, x + dx]
            for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))
        )
    ]  # fmt: skip


def boundary_f(saliency: Any, mask: Any, reach: int) -> float:
    """F of two boundaries: for each pixel, the distance to the other boundary."""
    ours, theirs = boundary(_cut(saliency, adaptive_threshold(saliency))), boundary(mask)
    if not ours and not theirs:
        return 1.0
    if not ours or not theirs:
        return 0.0

    def near(some: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> float:
        return sum(any((y - v) ** 2 + (x - u) ** 2 <= reach**2 for v, u in others) for y, x in some) / len(some)

    precision, recall = near(ours, theirs), near(theirs, ours)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


# ATSA -----------------------------------------------------------------------------------------------------------------


class _Conv(nn.Module):
    """A convolution and a batch norm, one after the other."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, bias: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=bias)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.conv(x))
        return out


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = _Conv(channels, channels, 3), _Conv(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + x)


class Transcribed(nn.Module):
    """The published network layer by layer: depth repeated to three channels, every norm by itself, maps enlarged
    before the convolutions that follow, and the two side heads computed too, as in the public code."""

    def __init__(
        self, trunk: Sequence[int] = (64, 128, 256, 512, 512), depths: Sequence[int] = (2, 2, 4, 4, 4),
        branches: Sequence[int] = (32, 64, 128, 256), blocks: int = 4, stem: Sequence[int] = (64, 128),
    ) -> None:  # fmt: skip
        super().__init__()
        self.vgg = nn.ModuleList()
        below = 3
        for width, depth in zip(trunk, depths, strict=True):
            self.vgg.append(nn.ModuleList(_Conv(below if n == 0 else width, width, 3, bias=True) for n in range(depth)))
            below = width
        c = branches[0]

        def row(channels: int) -> nn.Sequential:
            return nn.Sequential(*(_Block(channels) for _ in range(blocks)))

        one, two = stem
        self.stem = nn.ModuleList(_Conv(*ends, 3, bias=True) for ends in ((3, one), (one, one), (one, two), (two, two)))
        self.transition1, self.transition2 = _Conv(two, c, 3), _Conv(c, 4 * c, 3)
        self.depth_stages = nn.ModuleList([row(c), row(c), row(4 * c)])
        self.trans = nn.ModuleList(_Conv(*ends, 3) for ends in zip(trunk[1:], branches, strict=True))
        self.branches, self.fuse = nn.ModuleList(), nn.ModuleList()
        for layer in range(3):
            own = branches[: layer + 2]
            self.branches.append(nn.ModuleList(row(width) for width in own))
            rows = nn.ModuleList()
            for i in range(1 if layer == 2 else len(own)):
                parts = nn.ModuleList()
                for j, width in enumerate(own):
                    if j > i:
                        parts.append(nn.Sequential(_Conv(width, own[i], 1), nn.Upsample(scale_factor=2 ** (j - i))))
                    elif j == i:
                        parts.append(nn.Identity())
                    else:
                        steps: list[nn.Module] = []
                        for k in range(i - j):
                            last = k == i - j - 1
                            steps += [_Conv(width, own[i] if last else width, 3, 2), *([] if last else [nn.ReLU()])]
                        parts.append(nn.Sequential(*steps))
                rows.append(parts)
            self.fuse.append(rows)
        self.gates = nn.ModuleList(
            nn.ModuleDict({
                "key": nn.Conv2d(n, 1, 1, bias=False), "squeeze": nn.Conv2d(n, n, 1, bias=False),
                "norm": nn.LayerNorm([n, 1, 1]), "excite": nn.Conv2d(n, n, 1, bias=False),
            })
            for n in (c, c, 4 * c)
        )  # fmt: skip
        self.side = nn.ModuleList(_head(n * c, (2 * c, 2 * c), (2 * c,)) for n in (2, 3))
        self.decoder = _head(4 * c, (4 * c, 4 * c, 2 * c), (2 * c, 2 * c))

    def forward(self, picture: Tensor, depth: Tensor) -> Tensor:
        h, features = picture, []
        for stage in self.vgg:
            for conv in stage:  # type: ignore[attr-defined]
                h = F.relu(conv(h))
            h = F.max_pool2d(h, 2, ceil_mode=True)
            features.append(h)
        d = depth.repeat(1, 3, 1, 1)
        for n, conv in enumerate(self.stem):
            d = F.relu(conv(d))
            if n % 2:
                d = F.max_pool2d(d, 2, ceil_mode=True)
        d2 = self.depth_stages[0](F.relu(self.transition1(d)))
        d3 = self.depth_stages[1](d2)
        d4 = self.depth_stages[2](F.relu(self.transition2(d3)))
        entering = [F.relu(t(h)) for t, h in zip(self.trans, features[1:], strict=True)]
        x, joined = [entering[0]], []
        for layer, guide in enumerate((d2, d3, d4)):
            branches: Any = self.branches[layer]
            fuse: Any = self.fuse[layer]
            x = [*(own(b) for own, b in zip(branches, x, strict=False)), entering[layer + 1]]
            rows = [[part(b) for part, b in zip(row, x, strict=True)] for row in fuse]
            joined.append(torch.cat(rows[0], 1))
            x = [F.relu(joined[-1])] if layer == 2 else [F.relu(torch.stack(row).sum(0)) for row in rows]
            x[0] = self._gated(layer, x[0], guide)
        for head, some in zip(self.side, joined, strict=False):
            _decoded(head, some)
        return _decoded(self.decoder, x[0])

    def _gated(self, layer: int, colour: Tensor, depth: Tensor) -> Tensor:
        gate: Any = self.gates[layer]
        batch, channels, height, width = depth.shape
        weights = F.softmax(gate["key"](depth).view(batch, 1, height * width), 2).unsqueeze(3)
        context = torch.matmul(depth.view(batch, 1, channels, height * width), weights).view(batch, channels, 1, 1)
        scale = torch.sigmoid(gate["excite"](F.relu(gate["norm"](gate["squeeze"](context)))))
        return torch.sigmoid(colour * torch.sigmoid(depth * scale))


def _head(inputs: int, first: Sequence[int], second: Sequence[int]) -> nn.ModuleList:
    parts, below = [], inputs
    for widths in (first, second):
        row: list[nn.Module] = []
        for width in widths:
            row += [_Conv(below, width, 1, bias=True), nn.ReLU()]
            below = width
        parts.append(nn.Sequential(*row))
    return nn.ModuleList([*parts, nn.Conv2d(below, 2, 1)])


def _decoded(head: Any, x: Tensor) -> Tensor:
    for part in list(head)[:2]:
        x = part(F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True))
    out: Tensor = head[2](x)
    return out
