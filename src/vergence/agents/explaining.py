"""From a classifier of graphs to ranked triplets: relevances of nodes and edges by gradients, scores, priors.

Relevances are L1 norms of the gradients of a predicate's logit with respect to the raw inputs of a node or an edge. The
gradient of its probability is y (1 - y) times that one, so all ways to score follow from one backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vergence.agents.graphs import Batch, Graphs
from vergence.ops.roi import roi_align
from vergence.ops.segments import segment_rank, segment_sum

Mode = Literal["paper", "normalised", "logit"]
"""Gradients of the probability (Eqs. 11 and 12 as printed), relevances divided by their sum over the pairs of a picture
(what Eq. 13 asks for), or gradients of the logit."""
Rests = Literal["pair", "nodes", "edges", "random"]
"""What ranks pairs: r_i r_ij r_j, r_i r_j, r_ij, or chance."""


class Relevance(NamedTuple):
    """What the N most likely predicates of each graph of a batch rest on, by gradients of their logits."""

    logits: Tensor
    """(G, K)."""
    chosen: Tensor
    """(G, N), predicates by graph, the most likely first."""
    nodes: Tensor
    """(N, M)."""
    edges: Tensor
    """(N, E)."""
    node_parts: Tensor
    """(N, M, 3): shape of the box, class, visual features."""
    edge_parts: Tensor
    """(N, E, 5)."""


Classifier = Callable[..., Tensor]
"""Logits (G, K) of ``*Graphs``."""


def relevance(classify: Classifier, graphs: Graphs, most: int) -> Relevance:
    """Relevances of the ``most`` likely predicates: one forward pass, and one backward pass of the whole batch for each
    predicate's place in the ranking. Gradients may be off outside."""
    with torch.enable_grad():
        leaves = [part.detach().requires_grad_() for part in graphs[:3]]
        logits = classify(*leaves, *graphs[3:])
        count = min(most, logits.shape[1])
        chosen = logits.detach().topk(count, dim=1).indices
        parts: list[tuple[Tensor, Tensor]] = []
        for place in range(count):
            # Graphs do not touch, so the gradient of a sum over graphs is each graph's own.
            one = logits.gather(1, chosen[:, place : place + 1]).sum()
            nodes, visual, edges = torch.autograd.grad(one, leaves, retain_graph=place + 1 < count)
            of_node = torch.stack(
                [nodes[:, :3].abs().sum(1), nodes[:, 3:].abs().sum(1), visual.abs().sum((1, 2, 3))], 1
            )
            parts.append((of_node, edges.abs()))
    node_parts, edge_parts = (torch.stack(side) for side in zip(*parts, strict=True))
    return Relevance(logits.detach(), chosen, node_parts.sum(2), edge_parts.sum(2), node_parts, edge_parts)


@dataclass(frozen=True)
class Reading:
    """How relevances become scores of triplets."""

    mode: Mode = "normalised"
    rests: Rests = "pair"
    prior: bool = False
    """Whether scores are multiplied by how often the predicate relates the two classes."""


class Ranked(NamedTuple):
    """Candidates of a batch: rows of triplets, sorted by graph and score."""

    graph: Tensor
    """(T,)."""
    edge: Tensor
    """(T,), index of the edge."""
    place: Tensor
    """(T,), the predicate's place among the chosen ones of its graph."""
    predicate: Tensor
    """(T,)."""
    score: Tensor
    """(T,)."""


def pair_scores(found: Relevance, graphs: Graphs, reading: Reading, generator: torch.Generator | None = None) -> Tensor:
    """Eq. 13: scores (N, E) of pairs for each chosen predicate, and its probability multiplied in."""
    start, end = graphs.ends
    chance = found.logits.gather(1, found.chosen).sigmoid().mT  # (N, G)
    own = chance[:, graphs.owner]
    if reading.rests == "random":
        drawn = torch.rand(own.shape, generator=generator, device=own.device, dtype=torch.float32)
        return own * drawn.to(own)
    factors = {"pair": (found.nodes[:, start], found.edges, found.nodes[:, end]),
               "nodes": (found.nodes[:, start], found.nodes[:, end]),
               "edges": (found.edges,)}[reading.rests]  # fmt: skip
    score = torch.stack(factors).prod(0)
    if reading.mode == "paper":
        score = score * (own * (1 - own)) ** len(factors)
    elif reading.mode == "normalised":
        total = segment_sum(score.mT, graphs.owner, len(graphs.counts)).mT[:, graphs.owner]
        score = score / total.clamp(min=torch.finfo(score.dtype).tiny)
    return own * score


def ranked(scores: Tensor, chosen: Tensor, batch: Batch, keep: int, prior: Tensor | None = None) -> Ranked:
    """The ``keep`` best triplets of every graph, from scores (N, E) of pairs: times both detections' scores, and times
    the prior (K, C, C) where there is one."""
    graphs = batch.graphs
    start, end = graphs.ends
    predicate = chosen.mT[:, graphs.owner]  # (N, E)
    scores = scores * (batch.scores[start] * batch.scores[end]).to(scores)
    if prior is not None:
        scores = scores * prior.to(scores)[predicate, batch.labels[start], batch.labels[end]]
    owner = graphs.owner.expand_as(predicate).reshape(-1)
    order, rank = segment_rank(scores.reshape(-1), owner)
    order = order[rank < keep]
    edges = max(len(graphs.owner), 1)
    return Ranked(owner[order], order % edges, torch.div(order, edges, rounding_mode="floor"),
                  predicate.reshape(-1)[order], scores.reshape(-1)[order])  # fmt: skip


def supervised_scores(classify: Classifier, graphs: Graphs, logits: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Probabilities (N, E) of the chosen predicates (G, N) on every edge, by a network that was trained on edges."""
    chosen = logits.topk(min(most, logits.shape[1]), dim=1).indices
    chances = classify(*graphs[:4]).sigmoid()
    return chances.gather(1, chosen[graphs.owner]).mT, chosen


def heat_scores(heat: Tensor, logits: Tensor, batch: Batch, most: int) -> tuple[Tensor, Tensor]:
    """Scores (N, E) of pairs from maps of pixels (G, K, h, w): the product of the mean heat in both boxes, divided by
    its sum over pairs; and the chosen predicates (G, N). A pair has no direction here."""
    graphs = batch.graphs
    picture = torch.repeat_interleave(torch.arange(len(graphs.counts), device=heat.device), graphs.counts)
    scale = torch.tensor(heat.shape[-2:], device=heat.device) / batch.sizes[picture].to(heat)  # height, width
    boxes = batch.boxes.to(heat) * scale.flip(1).repeat(1, 2)
    inside = roi_align(heat, boxes, picture, 1, samples=6, aligned=True)[:, :, 0, 0]  # (M, K)
    chosen = logits.topk(min(most, logits.shape[1]), dim=1).indices
    pairs = (inside[graphs.ends[0]] * inside[graphs.ends[1]]).gather(1, chosen[graphs.owner])
    total = segment_sum(pairs, graphs.owner, len(graphs.counts))[graphs.owner]
    chance = logits.gather(1, chosen).sigmoid()[graphs.owner]
    return (chance * pairs / total.clamp(min=torch.finfo(pairs.dtype).tiny)).mT, chosen


def frequencies(triplets: Sequence[Tensor], predicates: int, classes: int) -> Tensor:
    """How often each predicate relates each pair of classes, (K, C, C), each predicate's sum is 1: counts of triplets
    (t, 3) of classes, and one more spread over all pairs, so that a predicate that was never seen is uniform."""
    table = torch.full((predicates, classes, classes), 1.0 / classes**2, dtype=torch.float64)
    every = torch.cat([*triplets, torch.zeros(0, 3, dtype=torch.long)])
    one = torch.ones(len(every), dtype=table.dtype)
    table.index_put_((every[:, 1], every[:, 0], every[:, 2]), one, accumulate=True)
    return (table / table.sum((1, 2), keepdim=True)).float()
