"""Plain forms of fields by group and of deformable convolution: loops over positions, candidates, groups and taps."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def bent(u: Tensor, residual: Tensor, groups: int, window: int, beta: float) -> tuple[Tensor, Tensor]:
    """Eqs. 1 and 2 and the warp, position by position: the bent map (B, K, H, W), and the fields (B, C, 2, H, W), for a
    map (B, K, H, W) and residual logits (B, C, window², H, W)."""
    batch, channels, height, width = u.shape
    each, reach = channels // groups, window // 2
    warped, fields = torch.zeros_like(u), u.new_zeros(batch, groups, 2, height, width)
    for b in range(batch):
        for c in range(groups):
            own = u[b, c * each : (c + 1) * each]
            response = own.amax(0) + own.mean(0)
            for y in range(height):
                for x in range(width):
                    weights, places = [], []
                    for down in range(-reach, reach + 1):
                        for right in range(-reach, reach + 1):
                            if 0 <= y + down < height and 0 <= x + right < width:
                                candidate = (down + reach) * window + right + reach
                                logit = response[y + down, x + right] + residual[b, c, candidate, y, x]
                                weights.append((logit / beta).exp())
                                places.append((right, down))
                    p = torch.stack(weights) / torch.stack(weights).sum()
                    shift = (p[:, None] * u.new_tensor(places)).sum(0)
                    fields[b, c, :, y, x] = shift
                    warped[b, c * each : (c + 1) * each, y, x] = between(own, y + shift[1], x + shift[0])
    return warped, fields


def between(maps: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Values (C,) of maps (C, H, W) at one point, bilinear; zero outside."""
    total = maps.new_zeros(len(maps))
    top, left = math.floor(float(y.detach())), math.floor(float(x.detach()))
    for row, by_row in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, by_column in ((left, 1 - (x - left)), (left + 1, x - left)):
            if 0 <= row < maps.shape[1] and 0 <= column < maps.shape[2]:
                total = total + by_row * by_column * maps[:, row, column]
    return total


def group_by_group(u: Tensor, fields: Tensor) -> Tensor:
    """The warp of each group by a ``grid_sample`` of its own."""
    batch, _, height, width = u.shape
    base = F.affine_grid(torch.eye(2, 3).to(u).expand(batch, 2, 3), [batch, 1, height, width], align_corners=False)
    scale = u.new_tensor([2 / width, 2 / height])
    parts = [
        F.grid_sample(part, base + fields[:, c].permute(0, 2, 3, 1) * scale, "bilinear", "border", align_corners=False)
        for c, part in enumerate(u.chunk(fields.shape[1], 1))
    ]
    return torch.cat(parts, 1)


def deformable_by_pixel(x: Tensor, offset: Tensor, weight: Tensor, padding: int) -> Tensor:
    """A deformable convolution of stride 1 with one set of offsets, in a loop over output pixels: each interpolates its
    taps with one index per corner and takes one product."""
    batch, _, height, width = x.shape
    side = weight.shape[-1]
    tap = torch.arange(side**2)
    picture = torch.arange(batch)[:, None]
    flat = weight.flatten(1)
    rows = []
    for i in range(height):
        for j in range(width):
            moved = offset[:, :, i, j].unflatten(1, (-1, 2))
            y, z = moved[..., 0] + i - padding + tap // side, moved[..., 1] + j - padding + tap % side
            top, left = y.floor(), z.floor()
            total = x.new_zeros(batch, side**2, x.shape[1])
            for row, by_row in ((top, 1 - (y - top)), (top + 1, y - top)):
                for column, by_column in ((left, 1 - (z - left)), (left + 1, z - left)):
                    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                    share = torch.where(inside, by_row * by_column, 0)
                    at = row.clamp(0, height - 1).long(), column.clamp(0, width - 1).long()
                    total = total + share.unsqueeze(-1) * x[picture, :, *at]
            rows.append(total.mT.flatten(1) @ flat.mT)
    return torch.stack(rows, -1).unflatten(-1, (height, width))


def deformable_by_tap(x: Tensor, offset: Tensor, weight: Tensor, padding: int) -> Tensor:
    """The same in a loop over taps: a ``grid_sample`` of the whole map for each, then one product."""
    batch, _, height, width = x.shape
    side = weight.shape[-1]
    y = torch.arange(height, dtype=x.dtype).unsqueeze(1) - padding
    z = torch.arange(width, dtype=x.dtype) - padding
    samples = []
    for tap in range(side**2):
        down, right = y + tap // side + offset[:, 2 * tap], z + tap % side + offset[:, 2 * tap + 1]
        grid = torch.stack([(2 * right + 1) / width - 1, (2 * down + 1) / height - 1], -1)
        samples.append(F.grid_sample(x, grid, "bilinear", "zeros", align_corners=False))
    columns = torch.stack(samples, 2).flatten(3)  # (B, C, taps, HW)
    return (weight.flatten(1) @ columns.flatten(1, 2)).unflatten(2, (height, width)).reshape(batch, -1, height, width)
