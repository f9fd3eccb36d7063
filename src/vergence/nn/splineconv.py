"""Convolution on graphs whose edges have coordinates, with kernels made of B-splines (Fey et al., 2018), in plain
PyTorch.

A kernel has one matrix for each knot of a grid over the unit square; an edge uses those of the four knots around its
coordinates. Nodes are multiplied with the matrices of all knots at once, and edges sum four rows of the result: as many
multiplications as edge by edge would take on a planar graph, in one large product.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops.rows import weighted_rows


class SplineConv(nn.Module):
    """Open B-splines of degree 1 over two coordinates from 0 to 1.

    ``out_i = reduce_j (x_j sum_s b_s(u) W_s) + x_i W_root + bias`` over edges j -> i with coordinates u; a node without
    edges reduces to zero. It has ``(knots^2 + 1) inputs outputs + outputs`` parameters.
    """

    def __init__(self, inputs: int, outputs: int, knots: int = 5, reduce: Literal["max", "mean"] = "max") -> None:
        super().__init__()
        if knots < 2:
            raise VergenceError(f"a spline has at least 2 knots along a coordinate, got {knots}")
        self.knots, self.reduce = knots, reduce
        bound = 1 / (knots**2 * inputs) ** 0.5
        self.weight = nn.Parameter(torch.empty(knots**2, inputs, outputs).uniform_(-bound, bound))
        self.root = nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, edges: Tensor, coordinates: Tensor) -> Tensor:
        """Features (N, outputs) from (N, inputs), edges (E, 2) from and to, and their coordinates (E, 2)."""
        if edges.shape != coordinates.shape or edges.shape[1:] != (2,):
            raise VergenceError(
                f"a graph has edges (E, 2) and coordinates (E, 2), got {tuple(edges.shape)} and "
                f"{tuple(coordinates.shape)}"
            )
        every, inputs, outputs = self.weight.shape
        table = (x @ self.weight.permute(1, 0, 2).reshape(inputs, -1)).view(-1, outputs)  # a row for each node and knot
        knot, share = basis(coordinates, self.knots)
        messages = weighted_rows(table, edges[:, :1] * every + knot, share)
        return _reduced(messages, edges[:, 1], len(x), self.reduce) + x @ self.root + self.bias


def basis(coordinates: Tensor, knots: int) -> tuple[Tensor, Tensor]:
    """The four knots (E, 4) around coordinates (E, 2) from 0 to 1, numbered along the first one first, and their
    weights, which sum to one."""
    place = coordinates.clamp(0, 1) * (knots - 1)
    low = place.floor().clamp(max=knots - 2)
    share = place - low
    low = low.long()
    index, weight = [], []
    for up in (0, 1):
        for right in (0, 1):
            index.append(low[:, 0] + right + knots * (low[:, 1] + up))
            along = share[:, 0] if right else 1 - share[:, 0]
            weight.append(along * (share[:, 1] if up else 1 - share[:, 1]))
    return torch.stack(index, 1), torch.stack(weight, 1)


def _reduced(messages: Tensor, target: Tensor, count: int, reduce: str) -> Tensor:
    index = target.unsqueeze(1).expand_as(messages)
    empty = messages.new_zeros(count, messages.shape[1])
    kind = "amax" if reduce == "max" else "mean"
    return empty.scatter_reduce(0, index, messages, kind, include_self=False)
