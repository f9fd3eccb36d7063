"""Plain forms for learning from temporal transformations: the printed periodic indices, the loss clip by clip, C3D
layer by layer, and retrieval by loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def periodic(turn: int, kappa: int) -> list[int]:
    """The printed indices of a periodic clip, with the smallest offset ρ that keeps them above zero."""
    q = 2**kappa
    up = turn // q
    delta = turn - up * q
    rho = max(0, (15 - 2 * up) * q - delta)
    forth = [rho + k * q for k in range(up + 1)]
    return forth + [rho + k * q + delta for k in range(up - 1, 2 * up - 16, -1)]


def equation_1(motion: Tensor, speed: Tensor, target: Sequence[int], kappa: Sequence[int]) -> Tensor:
    """Eq. 1 of Jenni et al. as means: logits (B, K) and (B, S), answers, and speeds (-1: not asked)."""
    told = [-(row[t] - row.exp().sum().log()) for row, t in zip(motion, target, strict=True)]
    paces = [-(row[s] - row.exp().sum().log()) for row, s in zip(speed, kappa, strict=True) if s >= 0]
    return torch.stack(told).mean() + torch.stack(paces).mean()


def c3d(convs: Any, top: Any, head: Any, clips: Tensor) -> Tensor:
    """Five convolutions and three fully connected layers in evaluation mode, from the modules that hold their
    parameters: clips (B, T, 3, H, W) to (B, outputs)."""
    x = clips.transpose(1, 2)
    for number, (conv, norm, _) in enumerate(convs):
        x = _normalised(F.conv3d(x, conv.weight, padding=1), norm).clamp(min=0)
        window = (1, 2, 2) if number == 0 else (2, 2, 2)
        x = F.max_pool3d(x, window, window, ceil_mode=True)
    x = x.flatten(1)
    for place in (0, 3):
        x = _normalised(x @ top[place].weight.mT, top[place + 1]).clamp(min=0)
    out: Tensor = x @ head.weight.mT + head.bias
    return out


def _normalised(x: Tensor, norm: Any) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    mean, var, weight, bias = (getattr(norm, n).view(shape) for n in ("running_mean", "running_var", "weight", "bias"))
    scaled: Tensor = (x - mean) / (var + norm.eps).sqrt() * weight + bias
    return scaled


def retrieval(
    known: Tensor, known_labels: Sequence[int], asked: Tensor, labels: Sequence[int], ranks: Sequence[int]
) -> list[float]:
    """The share of queries, in percent, with their class among the k nearest by cosine, for each k."""
    mean, spread = known.mean(0), known.std(0, correction=0)
    rows = [[float(v) for v in row] for row in (known - mean) / spread]
    found = []
    for k in ranks:
        hits = 0
        for query, label in zip((asked - mean) / spread, labels, strict=True):
            cosines = [sum(float(a) * b for a, b in zip(query, row, strict=True)) / math.hypot(*row) for row in rows]
            nearest = sorted(range(len(rows)), key=lambda n: -cosines[n])[:k]
            hits += any(known_labels[n] == label for n in nearest)
        found.append(100 * hits / len(labels))
    return found
