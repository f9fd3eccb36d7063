"""A graph network on the cells of a table (TIES and TabStruct-Net): features along lines through cells, edge
convolutions between cells that are near in feature space, and a classifier of pairs of cells.

Cells of several tables come in one tensor, table by table; nothing is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.ops.edgeconv import feature_neighbours
from vergence.ops.table_regions import centre_lines

PAIRS = 4096
"""Pairs that are classified at a time: what they need stays in a processor's cache."""


class VisualLSTM(nn.Module):
    """What a map says along the horizontal and the vertical line through the centre of a cell: the last states of two
    LSTMs, (N, 2 hidden)."""

    def __init__(self, channels: int, hidden: int, points: int, scale: float, whole: bool = False) -> None:
        super().__init__()
        self.points, self.scale, self.whole, self.outputs = points, scale, whole, 2 * hidden
        self.across = nn.LSTM(channels, hidden, batch_first=True)
        self.down = nn.LSTM(channels, hidden, batch_first=True)

    def forward(self, features: Tensor, boxes: Tensor, picture: Tensor) -> Tensor:
        lines = centre_lines(features, boxes, picture, self.points, self.scale, self.whole)
        states = [lstm(line)[0][:, -1] for lstm, line in zip((self.across, self.down), lines, strict=True)]
        return torch.cat(states, 1)


class CentreFeatures(nn.Module):
    """What a map says at the centre of a cell."""

    def __init__(self, channels: int, scale: float) -> None:
        super().__init__()
        self.scale, self.outputs = scale, channels

    def forward(self, features: Tensor, boxes: Tensor, picture: Tensor) -> Tensor:
        return centre_lines(features, boxes, picture, 1, self.scale)[0][:, 0]


class Normal(nn.BatchNorm1d):
    """A batch norm that uses what it knows where a batch has a single row."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and len(x) < 2:
            return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        return super().forward(x)

    def terms(self) -> tuple[Tensor, Tensor]:
        """Factors and shifts in evaluation."""
        assert self.running_mean is not None
        assert self.running_var is not None
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        return scale, self.bias - self.running_mean * scale


class GraphBranch(nn.Module):
    """DGCNN with an exchange over all cells after each edge convolution but the last: (N, inputs) to (N, outputs)."""

    def __init__(
        self, inputs: int, width: int = 128, dense: int = 64, outputs: int = 256, convolutions: int = 4,
        neighbours: int = 40,
    ) -> None:  # fmt: skip
        super().__init__()
        count = convolutions
        self.neighbours, self.outputs = neighbours, outputs
        self.norm = Normal(inputs)
        self.first = nn.Linear(inputs, width)
        widths = [width, *[dense] * (count - 1)]
        self.convolve = nn.ModuleList(DeepEdgeConv(own, (width, width, width)) for own in widths)
        self.exchange = nn.ModuleList(nn.Linear(2 * width, dense) for _ in range(count - 1))
        self.last = nn.ModuleList(
            (nn.Linear(count * width + (count - 1) * dense, outputs), nn.Linear(outputs, outputs))
        )

    def forward(self, vertices: Tensor, tables: Sequence[int]) -> Tensor:
        """``tables`` are the numbers of cells of each table, which are neighbours only of each other."""
        x = self.first(self.norm(vertices))
        parts = [self._table(own) for own in x.split(list(tables)) if len(own)]
        x = torch.cat(parts) if parts else x.new_zeros(0, self.last[0].in_features)
        for layer in self.last:
            x = F.relu(layer(x))
        return x

    def _table(self, x: Tensor) -> Tensor:
        parts = []
        for number, convolve in enumerate(self.convolve):
            x = convolve(x, feature_neighbours(x.unsqueeze(0), self.neighbours)[0])
            parts.append(x)
            if number < len(self.exchange):
                x = F.relu(self.exchange[number](torch.cat([x, x.mean(0, keepdim=True).expand_as(x)], 1)))
                parts.append(x)
        return torch.cat(parts, 1)


class PairClassifier(nn.Module):
    """Whether two cells belong together: from the features of both and the difference of their boxes.

    The first layer is linear, so in evaluation it is applied to cells instead of pairs.
    """

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.norm = Normal(2 * inputs + 4)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((2 * inputs + 4, *widths, 2)))

    def forward(self, features: Tensor, boxes: Tensor, cell: Tensor, partner: Tensor) -> Tensor:
        """Logits (P, 2) of pairs, for training."""
        pairs = torch.cat([features[cell], features[partner], boxes[cell] - boxes[partner]], 1)
        x = self.norm(pairs)
        for layer in list(self.layers)[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)

    def every(self, features: Tensor, boxes: Tensor) -> Tensor:
        """Logits (N, N, 2) of all ordered pairs, in evaluation."""
        scale, shift = self.norm.terms()
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        weight = first.weight * scale
        of_cell, of_partner, of_boxes = weight.split([features.shape[1], features.shape[1], 4], 1)
        moved = F.linear(boxes, of_boxes)
        cell = F.linear(features, of_cell, first.bias + first.weight @ shift) + moved
        partner = F.linear(features, of_partner) - moved
        rows = max(PAIRS // max(len(features), 1), 1)
        parts = [self._rest(own.unsqueeze(1) + partner) for own in cell.split(rows)]
        return torch.cat(parts) if parts else cell.new_zeros(0, 0, 2)

    def _rest(self, x: Tensor) -> Tensor:
        """What follows the first layer."""
        for layer in list(self.layers)[1:]:
            x = layer(F.relu(x))
        return x


class DeepEdgeConv(nn.Module):
    """Several shared layers with ReLU on ``[x_i, x_i - x_j]`` for every neighbour j of i, and the maximum over the
    neighbours. The first layer is applied to points, not to edges: of edge (i, j) it is ``(A + B) x_i - B x_j``."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((2 * inputs, *widths)))

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        """Features (N, widths[-1]) of points (N, inputs) with neighbours (N, k)."""
        first = self.layers[0]
        assert isinstance(first, nn.Linear)
        centre, edge = first.weight.split(x.shape[1], 1)
        edges = F.linear(x, centre + edge, first.bias).unsqueeze(1) - F.linear(x, edge)[neighbours]
        for layer in list(self.layers)[1:]:
            edges = layer(F.relu(edges))
        return F.relu(edges).amax(1)
