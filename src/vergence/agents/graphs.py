"""Objects of pictures as graphs: nodes are objects, edges ordered pairs of them; batches are disjoint unions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vergence.ops.box_pairs import all_pairs, box_shapes, pair_features

EdgeKind = Literal["paper", "log", "code"]
EDGES = {"paper": 5, "log": 5, "code": 10}
"""Numbers per edge."""
EDGE_NAMES = ("distance", "direction", "direction", "overlap", "size ratio")
"""What the five numbers of an edge are about."""


class Objects(NamedTuple):
    """Detected or annotated objects of one picture."""

    boxes: Tensor
    """(n, 4): left, top, right, bottom, in pixels."""
    labels: Tensor
    """(n,), classes."""
    scores: Tensor
    """(n,), the detector's confidence."""
    chances: Tensor
    """(n, C), the detector's probability of every class."""
    features: Tensor
    """(n, F, 7, 7), of the regions."""
    height: int
    width: int


class Truth(NamedTuple):
    """Annotated objects and relations of one picture."""

    boxes: Tensor
    """(m, 4)."""
    labels: Tensor
    """(m,)."""
    triplets: Tensor
    """(t, 3): subject, predicate, object; the first and the last number the boxes."""


class Sample(NamedTuple):
    """A picture for training or test."""

    objects: Objects
    truth: Truth
    predicates: Tensor
    """(K,) of 0 and 1: what is known of the picture in training."""
    pairs: Tensor
    """(e, 3), relations between ``objects`` themselves, for full supervision; empty if they are detections."""
    image: Tensor
    """(3, h, w) of bytes, all of one size; empty where no network looks at pictures."""


class Graphs(NamedTuple):
    """A batch of graphs."""

    nodes: Tensor
    """(M, 3 + C): shape of the box, and class probabilities."""
    visual: Tensor
    """(M, F, 7, 7)."""
    edges: Tensor
    """(E, 5)."""
    ends: Tensor
    """(2, E), nodes from which and to which edges go."""
    owner: Tensor
    """(E,), the graph of each edge."""
    counts: Tensor
    """(G,), nodes of each graph."""


class Batch(NamedTuple):
    """A batch of pictures."""

    graphs: Graphs
    predicates: Tensor
    """(G, K)."""
    relations: Tensor
    """(E, K): 1 where a predicate relates the two objects of an edge."""
    boxes: Tensor
    """(M, 4)."""
    labels: Tensor
    """(M,)."""
    scores: Tensor
    """(M,)."""
    images: Tensor
    """(G, 3, h, w), or empty."""
    sizes: Tensor
    """(G, 2): height and width of the pictures that boxes are given in."""
    truths: list[Truth]


@dataclass(frozen=True)
class Wiring:
    """How objects become a graph."""

    edges: EdgeKind = "paper"
    """Eq. 16, the same with the logarithm of the ratio of areas, or the ten numbers of the authors' code."""
    person: int = -1
    """The class that every edge must come from (the human-object graph); -1 for all pairs."""

    def graph(self, objects: Objects) -> Graphs:
        """The graph of one picture."""
        index = all_pairs(len(objects.boxes), objects.boxes.device)
        if self.person >= 0:
            index = index[:, objects.labels[index[0]] == self.person]
        pairs = pair_features(objects.boxes, index, objects.height, objects.width)
        nodes = torch.cat([box_shapes(objects.boxes, objects.height, objects.width), objects.chances], 1)
        owner = torch.zeros(index.shape[1], dtype=torch.long, device=index.device)
        counts = torch.tensor([len(objects.boxes)], device=index.device)
        edges = {"paper": _itself, "log": with_logarithm, "code": as_in_code}[self.edges](pairs)
        return Graphs(nodes, objects.features.to(nodes.dtype), edges, index, owner, counts)


def _itself(pairs: Tensor) -> Tensor:
    return pairs


def with_logarithm(pairs: Tensor) -> Tensor:
    """Eq. 16 with the logarithm of the ratio of areas, so that it has the same size in both directions."""
    ratio = pairs[:, 4:].clamp(min=torch.finfo(pairs.dtype).tiny)
    return torch.cat([pairs[:, :4], ratio.log()], 1)


def as_in_code(pairs: Tensor) -> Tensor:
    """The ten numbers of the authors' code (E, 10): distance, sine, cosine, four quadrants, overlap, and the ratio of
    areas both ways. Both halves of a quadrant are told by the sine there, so that only two of the four ever occur."""
    distance, sine, cosine, overlap, ratio = pairs.unbind(1)
    upper = right = sine > 0
    corners = [upper & right, upper & ~right, ~upper & ~right, ~upper & right]
    inverse = 1 / ratio.clamp(min=torch.finfo(ratio.dtype).tiny)
    return torch.stack([distance, sine, cosine, *(c.to(ratio) for c in corners), overlap, ratio, inverse], 1)


def joined(graphs: Sequence[Graphs]) -> Graphs:
    """The disjoint union of batches of graphs."""
    nodes = torch.tensor([0, *(len(g.nodes) for g in graphs)]).cumsum(0).tolist()
    before = torch.tensor([0, *(len(g.counts) for g in graphs)]).cumsum(0).tolist()
    return Graphs(
        torch.cat([g.nodes for g in graphs]),
        torch.cat([g.visual for g in graphs]),
        torch.cat([g.edges for g in graphs]),
        torch.cat([g.ends + shift for g, shift in zip(graphs, nodes, strict=False)], 1),
        torch.cat([g.owner + shift for g, shift in zip(graphs, before, strict=False)]),
        torch.cat([g.counts for g in graphs]),
    )


def collated(samples: Sequence[Sample], wiring: Wiring) -> Batch:
    """A batch of pictures."""
    parts = [wiring.graph(sample.objects) for sample in samples]
    relations = [_relations(part, sample) for part, sample in zip(parts, samples, strict=True)]
    objects = [sample.objects for sample in samples]
    return Batch(
        joined(parts),
        torch.stack([sample.predicates for sample in samples]),
        torch.cat(relations),
        torch.cat([o.boxes for o in objects]),
        torch.cat([o.labels for o in objects]),
        torch.cat([o.scores for o in objects]),
        torch.stack([sample.image for sample in samples]),
        torch.tensor([[o.height, o.width] for o in objects]),
        [sample.truth for sample in samples],
    )


def _relations(graph: Graphs, sample: Sample) -> Tensor:
    """Labels (E, K) of the edges of one picture."""
    count = len(sample.objects.boxes)
    table = sample.predicates.new_zeros(count, count, len(sample.predicates))
    subject, predicate, other = sample.pairs.unbind(1)
    table[subject, other, predicate] = 1
    return table[graph.ends[0], graph.ends[1]]
