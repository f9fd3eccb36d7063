"""Layers on point clouds with a neighbour graph."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.ops.precision import full_precision
from vergence.ops.setconv import set_convolution


class SetConv(nn.Module):
    """PointNet++-like convolution on a graph: neighbours' features and edge vectors, three layers, max pooling.

    Each layer is linear without bias, with an instance norm over all edges of a cloud and a leaky ReLU. A vector added
    to all features or all points changes nothing: the first norm removes it.
    """

    def __init__(self, inputs: int, outputs: int, layers: int = 3, slope: float = 0.1) -> None:
        super().__init__()
        self.slope = slope
        widths = [inputs + 3] + [outputs] * layers
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.scales = nn.ParameterList(torch.ones(outputs) for _ in range(layers))
        self.shifts = nn.ParameterList(torch.zeros(outputs) for _ in range(layers))

    def forward(self, features: Tensor, points: Tensor, neighbours: Tensor) -> Tensor:
        """Features (B, N, C) at points (B, N, 3) with neighbours (B, N, k), indices: (B, N, outputs)."""
        first, *rest = [cast(nn.Linear, layer).weight for layer in self.layers]
        with full_precision(features):
            kind = torch.promote_types(first.dtype, torch.float32)
            weights, scales, shifts = ([p.to(kind) for p in ps] for ps in (rest, self.scales, self.shifts))
            of_features, of_edges = first.to(kind).split([first.shape[1] - 3, 3], 1)
            centre = F.linear(points.to(kind), of_edges)
            near = F.linear(features.to(kind), of_features) + centre
            pooled = set_convolution(near, centre, neighbours, weights, scales, shifts, self.slope)
            return pooled.to(features.dtype)
