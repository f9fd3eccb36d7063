"""Layers on point clouds whose neighbours are found anew in each layer: DGCNN's edge convolution and its parts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.ops.edgeconv import edge_convolution

SLOPE = 0.2


class EdgeMLP(nn.Module):
    """One shared layer on ``[x_i, x_j - x_i]`` for every neighbour j of i, a batch norm over all edges, a leaky ReLU,
    and the maximum over the neighbours. Computed by :func:`vergence.ops.edgeconv.edge_convolution`."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, slope: float = SLOPE) -> None:
        super().__init__()
        self.slope = slope
        self.linear = nn.Linear(2 * inputs, outputs, bias=bias)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        """Features (G, N, outputs) of points (G, N, inputs) with neighbours (G, N, k)."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        kept = None if self.training else (norm.running_mean, norm.running_var)
        out, mean, variance = edge_convolution(
            x, neighbours, self.linear.weight, self.linear.bias, norm.weight, norm.bias, kept, self.slope, norm.eps
        )
        if self.training:
            with torch.no_grad():
                edges = neighbours.numel()
                assert norm.momentum is not None
                assert norm.num_batches_tracked is not None
                norm.running_mean.lerp_(mean, norm.momentum)
                norm.running_var.lerp_(variance * (edges / max(edges - 1, 1)), norm.momentum)
                norm.num_batches_tracked += 1
        return out


class PointMLP(nn.Module):
    """One shared layer on every point: linear, batch norm over all points, leaky ReLU (slope 0: ReLU)."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True, slope: float = SLOPE) -> None:
        super().__init__()
        self.slope = slope
        self.linear = nn.Linear(inputs, outputs, bias=bias)
        self.norm = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        y = self.linear(x)
        normal: Tensor = self.norm(y.flatten(0, -2))
        return F.leaky_relu(normal, self.slope).view_as(y)
