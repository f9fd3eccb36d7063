"""BB-GM: features of keypoints, costs of matching them and their edges, and the cheapest matchings.

A batch has B sets of V pictures (B, V, 3, S, S) with keypoints (B, V, N, 2) in pixels and directed edges (B, V, E, 2);
rows that are only there to fill a set have edges of -1 and belong to no edge.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.matching.bbgm.settings import ModelConfig
from vergence.nn.splineconv import SplineConv
from vergence.ops.assignment import assign
from vergence.ops.graph_matching import Matching, Problem, edge_matches, match_graphs
from vergence.ops.multi_matching import MultiMatching, match_many
from vergence.ops.rows import bilinear_rows, weighted_rows

FORCED = 1e3
"""What a match is rewarded with where as many as possible are wanted; costs are of the order of 1."""


class Encoded(NamedTuple):
    """Features of keypoints (B, V, N, C), of edges (B, V, E, C), and of whole pictures (B, V, G)."""

    nodes: Tensor
    edges: Tensor
    whole: Tensor


class Costs(NamedTuple):
    """Costs of pairs of keypoints (B, N, N) and of pairs of edges (B, E, E) of two views."""

    nodes: Tensor
    edges: Tensor


class Trunk(nn.Module):
    """VGG's convolutions with batch norm, under the names of torchvision's ``features``: maps after two of them, and
    the greatest values of the last (B, channels)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs, self.taps = 3, list[int]()
        count = 0
        for width, convs in zip(model.widths, model.convs, strict=True):
            for _ in range(convs):
                layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                inputs, count = width, count + 1
                if count in model.taps:
                    self.taps.append(len(layers))
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        channels = [width for width, convs in zip(model.widths, model.convs, strict=True) for _ in range(convs)]
        self.width, self.whole = sum(channels[tap - 1] for tap in model.taps), model.widths[-1]

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Channels last: pooling and convolutions of few channels take two thirds of the time on CPUs.
        low = self.features[: self.taps[0]](pictures.contiguous(memory_format=torch.channels_last))
        high = self.features[self.taps[0] : self.taps[1]](low)
        return low, high, self.features[self.taps[1] :](high).amax((-2, -1))


class Attention(nn.Module):
    """Inner products whose channels are weighed by what is in both pictures (Eq. 8); with ``whole`` 0, plain ones."""

    def __init__(self, whole: int, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(whole, width) if whole else None

    def forward(self, x: Tensor, y: Tensor, whole: Tensor) -> Tensor:
        """Similarities (B, N, M) of features (B, N, C) and (B, M, C), greater than -0.5."""
        if self.gate is not None:
            x = x * self.gate(whole).tanh().unsqueeze(1)
        return F.softplus(x @ y.mT) - 0.5


class BBGM(nn.Module):
    """The costs of matching two pictures."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.settings = model
        self.trunk = Trunk(model)
        width = self.trunk.width
        self.splines = nn.ModuleList(SplineConv(width, width, model.knots) for _ in range(2 if model.spline else 0))
        whole = 2 * self.trunk.whole if model.attention else 0
        self.node_affinity = Attention(whole, width)
        self.edge_affinity = Attention(whole, width) if model.quadratic else None

    def forward(self, images: Tensor, points: Tensor, edges: Tensor) -> dict[str, Tensor]:
        """Costs of the first two views of each set."""
        return self.costs(self.encode(images, points, edges), 0, 1)._asdict()

    def encode(self, images: Tensor, points: Tensor, edges: Tensor) -> Encoded:
        sets, views = images.shape[:2]
        if self.training:  # views are normalised apart, as they are in the authors' code
            parts = [self.trunk(images[:, view]) for view in range(views)]
            low, high, whole = (torch.stack(own, 1).flatten(0, 1) for own in zip(*parts, strict=True))
        else:
            low, high, whole = self.trunk(images.flatten(0, 1))
        flat, side = points.flatten(0, 1), images.shape[-1]
        nodes = torch.cat([_read(F.normalize(own, dim=1), flat, side) for own in (low, high)], -1)
        nodes = nodes + self.settings.share * self._refined(nodes, flat, edges.flatten(0, 1), side)
        nodes = nodes.unflatten(0, (sets, views))
        ends = edges.clamp(min=0)
        start, stop = (_rows(nodes, ends[..., end]) for end in (0, 1))
        return Encoded(nodes, start - stop, whole.unflatten(0, (sets, views)))

    def _refined(self, nodes: Tensor, points: Tensor, edges: Tensor, side: int) -> Tensor:
        """What the graph adds to features (P, N, C) of P pictures."""
        if not self.splines:
            return torch.zeros_like(nodes)
        pictures, count, width = nodes.shape
        # All graphs are one; edges that are none join a node of their own, the last.
        last = pictures * count
        first = torch.arange(pictures, device=edges.device).mul(count).view(-1, 1, 1)
        joined = torch.where(edges < 0, last, edges + first).reshape(-1, 2)
        places = torch.cat([points.reshape(-1, 2), points.new_zeros(1, 2)])
        coordinates = 0.5 + 0.5 * (places[joined[:, 0]] - places[joined[:, 1]]) / side
        x = torch.cat([nodes.reshape(-1, width), nodes.new_zeros(1, width)])
        x = self.splines[1](F.relu(self.splines[0](x, joined, coordinates)), joined, coordinates)
        return x[:last].view_as(nodes)

    def costs(self, encoded: Encoded, first: int, second: int) -> Costs:
        """Costs between two views: similarities, negated; an edge counts half, since its reverse is there too."""
        whole = F.normalize(torch.cat([encoded.whole[:, first], encoded.whole[:, second]], -1), dim=-1)
        nodes = -self.node_affinity(encoded.nodes[:, first], encoded.nodes[:, second], whole)
        one, other = encoded.edges[:, first], encoded.edges[:, second]
        if self.edge_affinity is None:
            return Costs(nodes, nodes.new_zeros(len(nodes), one.shape[1], other.shape[1]))
        return Costs(nodes, -0.5 * self.edge_affinity(one, other, whole))


def _read(maps: Tensor, points: Tensor, side: int) -> Tensor:
    """Features (P, N, C) of maps (P, C, H, W) between the centres of their cells, at points (P, N, 2) in pixels."""
    pictures, channels, height, width = maps.shape
    place = points * (points.new_tensor([width, height]) / side) - 0.5
    row, share = bilinear_rows(place[..., 1].flatten(), place[..., 0].flatten(), height, width, border=True)
    first = torch.arange(pictures, device=maps.device).repeat_interleave(points.shape[1]).mul(height * width)
    table = maps.permute(0, 2, 3, 1).reshape(-1, channels)
    return weighted_rows(table, row + first.unsqueeze(1), share).view(pictures, -1, channels)


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """Rows (..., E, C) of tables (..., N, C)."""
    return table.gather(-2, index.unsqueeze(-1).expand(*index.shape, table.shape[-1]))


# Matchings ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Graphs:
    """Edges and sizes of a batch, on the CPU, for the solver."""

    edges: Tensor
    counts: Tensor
    settings: ModelConfig

    @classmethod
    def of(cls, edges: Tensor, counts: Tensor, settings: ModelConfig) -> Graphs:
        return cls(edges.cpu(), counts.cpu(), settings)

    def own(self, row: int, view: int) -> Tensor:
        """The edges of a picture, without those that are none."""
        edges = self.edges[row, view]
        return edges[edges[:, 0] >= 0]

    def problem(self, row: int, first: int, second: int, nodes: Tensor, edges: Tensor) -> Problem:
        """The problem of one set, from costs of a batch on the CPU."""
        n, m = self.counts[row, first], self.counts[row, second]
        left, right = self.own(row, first), self.own(row, second)
        own = nodes[row, :n, :m].double() - (FORCED if self.settings.maximum else 0.0)
        inner = edges[row, : len(left), : len(right)].double()
        if not self.settings.quadratic:
            left, right, inner = left[:0], right[:0], inner[:0, :0]
        try:
            return Problem(own, left, right, inner)
        except ValueError as error:
            raise VergenceError(f"the costs of a matching cannot be used: {error}") from None

    def matchings(self, costs: Costs, first: int = 0, second: int = 1) -> list[Matching]:
        """The cheapest matching of each set; costs are told without the reward of forced matches."""
        nodes, edges = costs.nodes.detach().cpu(), costs.edges.detach().cpu()
        problems = [self.problem(row, first, second, nodes, edges) for row in range(len(nodes))]
        own = self.settings
        if own.quadratic:
            found = match_graphs(problems, own.solver, own.seconds, own.rounds)
        else:
            found = [_assigned(problem) for problem in problems]
        if not own.maximum:
            return found
        rewards = [FORCED * min(problem.nodes.shape) for problem in problems]
        return [replace(one, cost=one.cost + r, bound=one.bound + r) for one, r in zip(found, rewards, strict=True)]

    def solve(self, nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Matchings as zeros and ones of the costs' own shapes: what the gradient goes through."""
        found, both = torch.zeros(nodes.shape), torch.zeros(edges.shape)
        for row, matching in enumerate(self.matchings(Costs(nodes, edges))):
            n, m = self.counts[row, :2]
            found[row, :n, :m] = matching.matrix(int(m)).float()
            if self.settings.quadratic:
                left, right = self.own(row, 0), self.own(row, 1)
                both[row, : len(left), : len(right)] = edge_matches(found[row], left, right)
        return found.to(nodes), both.to(edges)

    def together(self, row: int, costs: Sequence[Costs]) -> MultiMatching:
        """Consistent matchings of all views of a set, from costs of all pairs in order."""
        views = self.counts.shape[1]
        pairs = itertools.combinations(range(views), 2)
        problems = {
            pair: self.problem(row, *pair, own.nodes.detach().cpu(), own.edges.detach().cpu())
            for pair, own in zip(pairs, costs, strict=True)
        }
        own = self.settings
        return match_many(self.counts[row].tolist(), problems, own.solver, own.seconds, own.rounds)


def _assigned(problem: Problem) -> Matching:
    """Linear assignment with a place for every keypoint to stay alone."""
    n, m = problem.nodes.shape
    column = assign(torch.cat([-problem.nodes, problem.nodes.new_zeros(n, n)], 1)) if n else torch.zeros(0).long()
    partner = torch.where(column < m, column, -1)
    kept = partner >= 0
    cost = float(problem.nodes[kept, partner[kept]].sum())
    return Matching(partner, cost, cost)


def build(model: ModelConfig) -> BBGM:
    return BBGM(model)
