"""Scale-convolution as published: kernels padded to the largest scale's size, drawn at every call, in grouped
convolutions; and the trackers' trunks written with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.polynomial.hermite_e import hermeval
from torch import Tensor

Weights = Mapping[str, Tensor]


def hermite_basis(size: int, scales: Sequence[float], order: int) -> Tensor:
    """(order², S, size, size) in float64: products of Hermite functions, zero beyond a scale's own grid, divided by
    their norm at the smallest scale."""
    made = []
    for scale in scales:
        side = int(size * scale / max(scales) + 1e-9) // 2 * 2 + 1
        place = np.linspace(-(side // 2), side // 2, side)
        bell = np.exp(-(place**2) / (2 * scale**2)) / scale
        functions = [bell * hermeval(place / scale, [0] * n + [1]) for n in range(order)]
        products = np.stack([np.outer(functions[n], functions[m]) for m in range(order) for n in range(order)])
        margin = (size - side) // 2
        made.append(np.pad(products, ((0, 0), (margin, margin), (margin, margin))))
    basis = torch.from_numpy(np.stack(made, 1))
    return basis / basis[:, :1].square().sum((2, 3), keepdim=True).sqrt()


def lift(x: Tensor, weight: Tensor, basis: Tensor, stride: int = 1, padding: int = 0, border: str = "zeros") -> Tensor:
    """``x`` (B, I, H, W), ``weight`` (O, I, F), ``basis`` (F, S, k, k): (B, O, S, H', W')."""
    _, scales, k, _ = basis.shape
    kernel = (weight @ basis.flatten(1)).view(*weight.shape[:2], scales, k, k)
    kernel = kernel.permute(0, 2, 1, 3, 4).contiguous().flatten(0, 1)
    y = F.conv2d(_padded(x, padding, border), kernel, stride=stride)
    return y.view(y.shape[0], -1, scales, *y.shape[2:])


def scale_convolution(
    x: Tensor, weight: Tensor, basis: Tensor, stride: int = 1, padding: int = 0, border: str = "zeros"
) -> Tensor:
    """``x`` (B, I, S, H, W), ``weight`` (O, I, i, F), ``basis`` (F, S, k, k): (B, O, S, H', W'), by one grouped
    convolution for each of the i scales that a kernel reaches."""
    _, scales, k, _ = basis.shape
    outputs, inputs, extent, _ = weight.shape
    kernel = (weight @ basis.flatten(1)).view(outputs, inputs, extent, scales, k, k)
    kernel = kernel.permute(3, 0, 1, 2, 4, 5).contiguous().flatten(0, 1)
    x = F.pad(x, (0, 0, 0, 0, 0, extent - 1))
    total: Tensor | None = None
    for i in range(extent):
        part = x[:, :, i : i + scales].permute(0, 2, 1, 3, 4).contiguous().flatten(1, 2)
        y = F.conv2d(_padded(part, padding, border), kernel[:, :, i], stride=stride, groups=scales)
        total = y if total is None else total + y
    assert total is not None
    return total.view(total.shape[0], scales, outputs, *total.shape[2:]).permute(0, 2, 1, 3, 4).contiguous()


def pointwise(x: Tensor, weight: Tensor) -> Tensor:
    """``x`` (B, I, S, H, W), ``weight`` (O, I, i): a convolution in three dimensions."""
    return F.conv3d(F.pad(x, (0, 0, 0, 0, 0, weight.shape[2] - 1)), weight[..., None, None])


def _padded(x: Tensor, padding: int, border: str) -> Tensor:
    if not padding:
        return x
    return F.pad(x, (padding,) * 4, mode="constant" if border == "zeros" else border)


# Connections ---------------------------------------------------------------------------------------------------------


def correlation(template: Tensor, search: Tensor) -> Tensor:
    """(B, C, h, w) over (B, C, H, W), place by place: (B, H', W')."""
    h, w = template.shape[-2:]
    height, width = (big - small + 1 for big, small in zip(search.shape[-2:], (h, w), strict=True))
    out = search.new_empty(len(search), height, width)
    for i in range(height):
        for j in range(width):
            out[:, i, j] = (search[..., i : i + h, j : j + w] * template).sum((1, 2, 3))
    return out


def rescale(x: Tensor, factor: float, size: Sequence[int]) -> Tensor:
    """``f(t / factor)`` about the centre of maps (B, C, H, W) on a grid of ``size``, zero beyond the border."""
    grids, inside = [], []
    for side, new in zip(x.shape[-2:], size, strict=True):
        place = (torch.arange(new, dtype=torch.float64) - (new - 1) / 2) / factor
        half = (side - 1) / 2
        grids.append((place / half).to(x))
        inside.append((place.abs() <= half + 1e-9).to(x))
    rows, columns = torch.meshgrid(*grids, indexing="ij")
    grid = torch.stack([columns, rows], -1).expand(len(x), -1, -1, -1)
    sampled = F.grid_sample(x, grid, mode="bicubic", padding_mode="border", align_corners=True)
    return sampled * inside[0][:, None] * inside[1]


# The trackers' trunks ------------------------------------------------------------------------------------------------


def shallow(x: Tensor, weights: Weights, basis: Tensor, training: bool, border: str = "zeros") -> Tensor:
    """Table 1's network with the parameters and running statistics of ours, by name: (B, C, S, h, w)."""
    margin = basis.shape[-1] // 2 - 1
    x = lift(x, weights["0.conv.weight"], basis, 2, margin, border)
    x = F.relu(_norm(x, weights, "0.norm", training))
    for i in (1, 2):
        x = scale_convolution(x, weights[f"{i}.conv.weight"], basis, 2, margin, border)
        x = F.relu(_norm(x, weights, f"{i}.norm", training))
    return scale_convolution(x, weights["3.weight"], basis, 1, margin, border)


def residual(x: Tensor, weights: Weights, stem: Tensor, basis: Tensor, training: bool, border: str = "zeros") -> Tensor:
    """Table 2's network: ``stem`` and ``basis`` are the bases of its first layer and of the others."""
    x = lift(x, weights["stem.conv.weight"], stem, 2, stem.shape[-1] // 2, border)
    x = F.relu(_norm(x, weights, "stem.norm", training))[..., 2:-2, 2:-2]
    x = F.max_pool3d(x, (1, 2, 2))
    for i in range(3):
        x = _unit(x, weights, f"stage2.{i}", basis, training, border)
    x = _unit(x, weights, "stage3.0", basis, training, border)
    x = F.max_pool3d(x, (1, 2, 2))
    for i in (2, 3, 4):
        x = _unit(x, weights, f"stage3.{i}", basis, training, border, rectified=i < 4)
    return x


def _unit(
    x: Tensor, weights: Weights, name: str, basis: Tensor, training: bool, border: str, rectified: bool = True
) -> Tensor:
    """A bottleneck, cropped after the sum. A plain first kernel says that scales are pooled before it."""
    first, middle, last = (weights[f"{name}.{part}.conv.weight"] for part in ("reduce", "conv", "expand"))
    margin = basis.shape[-1] // 2
    if first.dim() == 4:
        y = F.relu(_norm(F.conv2d(x.amax(2), first), weights, f"{name}.reduce.norm", training))
        y = lift(y, middle, basis, 1, margin, border)
    else:
        y = F.relu(_norm(pointwise(x, first), weights, f"{name}.reduce.norm", training))
        y = scale_convolution(y, middle, basis, 1, margin, border)
    y = F.relu(_norm(y, weights, f"{name}.conv.norm", training))
    y = _norm(pointwise(y, last), weights, f"{name}.expand.norm", training)
    if f"{name}.shortcut.conv.weight" in weights:
        side = pointwise(x, weights[f"{name}.shortcut.conv.weight"])
        x = _norm(side, weights, f"{name}.shortcut.norm", training)
    y = y + x
    return (F.relu(y) if rectified else y)[..., 1:-1, 1:-1]


def _norm(x: Tensor, weights: Weights, name: str, training: bool) -> Tensor:
    mean, variance = (None, None) if training else (weights[f"{name}.running_{kind}"] for kind in ("mean", "var"))
    return F.batch_norm(x, mean, variance, weights[f"{name}.weight"], weights[f"{name}.bias"], training)
