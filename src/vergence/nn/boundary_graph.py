"""A graph of boundaries: starts and ends of spans as nodes, spans as edges that carry vectors (Bai et al. 2020).

Only the valid half of the edges (start before end) exists, as rows (E, ...) in the order of
:func:`vergence.video.annotated.edges`; sums over the edges of a node are products with sparse 0/1 matrices, and nothing
of size T x T x D is made. Edges are (E, B, D) and nodes (T, B, D), so that a row is contiguous.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from vergence.ops.rows import weighted_rows

Update = Literal["edges", "none", "cosine"]
FLOOR = 1e-2
"""Added to the sum that edges are divided by: where all edges of a node all but vanish, their shares are noise."""


class Edges(NamedTuple):
    """The spans of a window: start and end (E,) of each."""

    start: Tensor
    end: Tensor


def summed(rows: Tensor, group: Tensor, count: int) -> Tensor:
    """Sums (count, B, D) of rows (E, B, D) by their ``group`` (E,)."""
    return rows.new_zeros(count, *rows.shape[1:]).index_add(0, group, rows)


class SpanContent(nn.Module):
    """Features of all spans: ``points`` samples of a sequence between start and end, joined, through one linear layer.

    The layer is linear, so it is applied to the sequence first, once for each sample's own slice of its weights, and
    the results are interpolated and added up: N x T products instead of N x E, without the samples in memory.
    """

    def __init__(self, channels: int, out: int, points: int) -> None:
        super().__init__()
        self.points = points
        self.layer = nn.Linear(channels * points, out)

    def forward(self, sequence: Tensor, edges: Edges) -> Tensor:
        """(E, B, out) of a sequence (B, C, T)."""
        batch, channels, length = sequence.shape
        out = self.layer.out_features
        slices = self.layer.weight.view(out, channels, self.points)
        table = torch.einsum("bct,ocn->ntbo", sequence, slices).reshape(self.points * length, batch * out)
        index, weight = span_taps(edges, length, self.points)
        return weighted_rows(table, index, weight).view(-1, batch, out) + self.layer.bias


def span_taps(edges: Edges, length: int, points: int) -> tuple[Tensor, Tensor]:
    """Rows (E, 2 points) of a table (points x length) and their weights: sample n of a span lies at the fraction
    n / (points - 1) between its ends."""
    share = torch.linspace(0, 1, points, device=edges.start.device, dtype=torch.float64)
    place = edges.start.unsqueeze(1) + (edges.end - edges.start).unsqueeze(1) * share  # (E, points)
    low = place.floor().clamp(max=length - 2)
    rest = place - low
    row = low.long() + torch.arange(points, device=place.device) * length
    return torch.cat([row, row + 1], 1), torch.cat([1 - rest, rest], 1)


class GraphReasoning(nn.Module):
    """One block: edges are updated from their ends (Eq. 1), normalised over the out-edges of their head (Eq. 2), and
    pass the heads' features on to the tails (Eq. 3)."""

    def __init__(self, width: int, directed: bool = True, update: Update = "edges") -> None:
        super().__init__()
        self.update, self.directed = update, directed
        if update == "edges":
            self.to_end = nn.Linear(width, width, bias=False)
            self.to_start = nn.Linear(width, width, bias=False) if directed else self.to_end
        self.start = nn.Linear(width, width, bias=False)
        self.end = nn.Linear(width, width, bias=False)

    def forward(
        self, start: Tensor, end: Tensor, forth: Tensor, back: Tensor, edges: Edges
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Nodes (T, B, D) and directed edges (E, B, D), start to end and end to start, after one step."""
        if self.update == "edges":
            both = start[edges.start] * end[edges.end]
            forth, was = torch.relu(self.to_end(forth * both) + forth), back
            back = torch.relu(self.to_start(was * both) + was) if self.directed else forth
        weights = (torch.relu(forth), torch.relu(back))
        if self.update == "cosine":
            alike = torch.cosine_similarity(start[edges.start], end[edges.end], dim=-1).unsqueeze(-1)
            weights = (torch.relu(alike),) * 2
        new_end = self._passed(start, weights[0], edges.start, edges.end)
        new_start = self._passed(end, weights[1], edges.end, edges.start)
        return torch.relu(self.start(new_start) + start), torch.relu(self.end(new_end) + end), forth, back

    @staticmethod
    def _passed(nodes: Tensor, weights: Tensor, head: Tensor, tail: Tensor) -> Tensor:
        """Sums over heads of their features times normalised edges. The heads are divided, not the edges: there are
        fewer of them."""
        scaled = nodes / (summed(weights, head, len(nodes)) + FLOOR)
        return summed(weights * scaled[head], tail, len(nodes))


def normalised(edges: Tensor, head: Tensor, count: int) -> Tensor:
    """Eq. 2: edges (E, B, D) divided, channel by channel, by the sum over the out-edges of their head."""
    return edges / (summed(edges, head, count) + FLOOR)[head]
