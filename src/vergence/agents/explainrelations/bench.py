"""Training and explaining at the published size, against the algorithm of the public code.

``public`` is that algorithm with its own vectorisation: one concatenated vector per edge, and a backward pass with
``backward()`` for each predicate, which also computes the gradients of all weights. ``one by one`` is the plain form:
the same for one picture after another.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.agents.explaining import relevance
from vergence.agents.explainrelations.model import RelationNetwork, joined_relation
from vergence.agents.explainrelations.settings import SETTINGS, Facts, ModelConfig
from vergence.agents.graphs import Graphs, Objects, Wiring, joined
from vergence.contract.benchmark import Contest
from vergence.contract.config import from_json
from vergence.core.seeding import generator
from vergence.ops.segments import segment_max

PICTURES, OBJECTS, MOST = 4, 12, 4
"""Pictures of a batch, their objects, and the predicates that are explained."""


def contests() -> Iterator[Contest]:
    """A training step, the relevances of a batch, and the relations of a crowded picture."""
    facts = from_json(Facts, dict(SETTINGS.published["paper"].facts))
    network = RelationNetwork(ModelConfig(), facts)
    parts = [_graph(OBJECTS, facts, f"bench {n}") for n in range(PICTURES)]
    graphs = joined(parts)
    yield Contest(
        "training", f"forward and backward, {PICTURES} pictures of {OBJECTS} objects",
        lambda: network(*graphs).sum().backward(), {"public": lambda: public(network, graphs).sum().backward()},
    )  # fmt: skip
    yield Contest(
        "explaining", f"relevances of {MOST} predicates, {PICTURES} pictures of {OBJECTS} objects",
        lambda: relevance(network, graphs, MOST),
        {"public": lambda: public_relevance(network, graphs, MOST),
         "one by one": lambda: [public_relevance(network, part, MOST) for part in parts]},
    )  # fmt: skip
    crowd = _graph(40, facts, "crowd")
    own = network.node(crowd.nodes, crowd.visual).detach()
    yield Contest(
        "crowded", "vectors of the 1,560 pairs of 40 objects",
        lambda: _pairs(network, own, crowd), {"public": lambda: _public_pairs(network, own, crowd)},
    )  # fmt: skip


def _graph(count: int, facts: Facts, seed: str) -> Graphs:
    source = generator(seed)
    low = torch.rand(count, 2, generator=source) * 400
    boxes = torch.cat([low, low + 20 + 150 * torch.rand(count, 2, generator=source)], 1)
    chances = torch.rand(count, len(facts.classes), generator=source).softmax(1)
    visual = torch.rand(count, facts.channels, 7, 7, generator=source)
    return Wiring().graph(Objects(boxes, chances.argmax(1), chances.amax(1), chances, visual, 480, 640))


def _pairs(network: RelationNetwork, own: Tensor, graphs: Graphs) -> Tensor:
    towards = network.of_edge(F.relu(network.edge(graphs.edges)))
    return F.relu(network.of_subject(own)[graphs.ends[0]] + towards + network.of_object(own)[graphs.ends[1]])


def _public_pairs(network: RelationNetwork, own: Tensor, graphs: Graphs) -> Tensor:
    rows = torch.cat([own[graphs.ends[0]], F.relu(network.edge(graphs.edges)), own[graphs.ends[1]]], 1)
    return F.relu(F.linear(rows, *joined_relation(network)))


def public(network: RelationNetwork, graphs: Graphs) -> Tensor:
    """Logits (G, K) by one concatenated vector per edge."""
    pairs = _public_pairs(network, network.node(graphs.nodes, graphs.visual), graphs)
    return network.predicate(segment_max(pairs, graphs.owner, len(graphs.counts)))


def public_relevance(network: RelationNetwork, graphs: Graphs, most: int) -> tuple[Tensor, Tensor]:
    """Relevances (N, M) of nodes and (N, E) of edges, of probabilities, as the public code computes them."""
    leaves = [part.detach().requires_grad_() for part in graphs[:3]]
    best = public(network, Graphs(leaves[0], leaves[1], leaves[2], *graphs[3:])).sigmoid().topk(most, dim=1).values
    nodes, edges = [], []
    for place, column in enumerate(best.unbind(1)):
        for leaf in leaves:
            leaf.grad = None
        column.sum().backward(retain_graph=place + 1 < most)
        slopes = [leaf.grad for leaf in leaves]
        assert slopes[0] is not None
        assert slopes[1] is not None
        assert slopes[2] is not None
        nodes.append(slopes[0].norm(p=1, dim=1) + slopes[1].flatten(1).norm(p=1, dim=1))
        edges.append(slopes[2].norm(p=1, dim=1))
    return torch.stack(nodes), torch.stack(edges)
