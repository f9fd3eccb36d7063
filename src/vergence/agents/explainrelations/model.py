"""The predicate classifier on graphs of objects (Eqs. 6-9), and the classifier of pixels that it is compared with."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.agents.explainrelations.settings import Facts, ModelConfig
from vergence.agents.features import SIDE
from vergence.agents.graphs import EDGES
from vergence.nn.resnext import ResNeXt50
from vergence.ops.segments import segment_max


class NodeEncoder(nn.Module):
    """f_n: two 3x3 convolutions on the region, a linear layer on shape and class, and one that joins both."""

    def __init__(self, numbers: int, channels: int, kernels: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, kernels, 3, padding=1)
        self.conv2 = nn.Conv2d(kernels, kernels, 3, padding=1)
        self.linear = nn.Linear(numbers, width)
        self.join = nn.Linear(kernels * SIDE * SIDE + width, width)

    def forward(self, nodes: Tensor, visual: Tensor) -> Tensor:
        seen = F.relu(self.conv2(F.relu(self.conv1(visual)))).flatten(1)
        return F.relu(self.join(torch.cat([seen, F.relu(self.linear(nodes))], 1)))


class RelationNetwork(nn.Module):
    """Graphs of objects to logits of predicates (G, K).

    f_r is linear in (subject, edge, object), so the products with nodes are computed once per node and gathered, not
    once per edge. ``supervised`` reads predicates off every edge, instead of off the maximum over edges.
    """

    def __init__(self, config: ModelConfig, facts: Facts) -> None:
        super().__init__()
        classes, predicates, width = len(facts.classes), len(facts.predicates), config.width
        self.supervised = config.network == "supervised"
        self.node = NodeEncoder(3 + classes, facts.channels, config.kernels or facts.channels, width)
        self.edge = nn.Linear(EDGES[config.edges], width)
        self.of_subject = nn.Linear(width, width)
        self.of_edge = nn.Linear(width, width, bias=False)
        self.of_object = nn.Linear(width, width, bias=False)
        for part in (self.of_subject, self.of_edge, self.of_object):  # as one layer of three times as many inputs
            for parameter in part.parameters():
                nn.init.uniform_(parameter, -((3 * width) ** -0.5), (3 * width) ** -0.5)
        self.predicate = nn.Linear(width, predicates)
        self.register_buffer("prior", torch.full((predicates, classes, classes), 1.0 / classes**2))
        self.prior: Tensor

    def pairs(self, nodes: Tensor, visual: Tensor, edges: Tensor, index: Tensor) -> Tensor:
        """Eqs. 6 to 8: a vector for every edge, (E, width)."""
        own = self.node(nodes, visual)
        towards = self.of_edge(F.relu(self.edge(edges)))
        return F.relu(self.of_subject(own)[index[0]] + towards + self.of_object(own)[index[1]])

    def edge_logits(self, nodes: Tensor, visual: Tensor, edges: Tensor, index: Tensor) -> Tensor:
        """Logits of predicates for every edge, (E, K), as full supervision trains them."""
        return self.predicate(self.pairs(nodes, visual, edges, index))

    def forward(
        self, nodes: Tensor, visual: Tensor, edges: Tensor, index: Tensor, owner: Tensor, counts: Tensor
    ) -> Tensor:
        """Eq. 9, before the sigmoid. A graph without edges has a pooled vector of zeros."""
        pairs = self.pairs(nodes, visual, edges, index)
        if self.supervised:
            logits = self.predicate(pairs)
            none = self.predicate(pairs.new_zeros(1, pairs.shape[1])).to(logits.dtype)
            empty = torch.bincount(owner, minlength=len(counts)) == 0 if logits.device.type != "meta" else None
            best = segment_max(logits, owner, len(counts))
            return best if empty is None else torch.where(empty.unsqueeze(1), none, best)
        return self.predicate(segment_max(pairs, owner, len(counts)))


class SmallNet(nn.Module):
    """Four strided convolutions: images (B, 3, H, W) to maps (B, 64, H / 8, W / 8)."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((3, 16, 2), (16, 32, 2), (32, 64, 2), (64, 64, 1))
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, stride, 1, bias=False) for a, b, stride in sizes)
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for _, b, _ in sizes)
        self.outputs = sizes[-1][1]

    def forward(self, x: Tensor) -> Tensor:
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(x)))
        return x


class PredicateCNN(nn.Module):
    """The baseline of pixels: a convolutional network, the mean of its map, and two layers; explained by Grad-CAM."""

    def __init__(self, body: Literal["small", "resnext50"], facts: Facts) -> None:
        super().__init__()
        self.body = SmallNet() if body == "small" else ResNeXt50()
        hidden = 512 if body == "resnext50" else 64
        self.hidden = nn.Linear(self.body.outputs, hidden)
        self.predicate = nn.Linear(hidden, len(facts.predicates))
        classes = len(facts.classes)
        self.register_buffer("prior", torch.full((len(facts.predicates), classes, classes), 1.0 / classes**2))
        self.prior: Tensor

    def head(self, maps: Tensor) -> Tensor:
        """Maps (B, C, h, w) to logits (B, K)."""
        return self.predicate(F.relu(self.hidden(maps.mean((2, 3)))))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images))

    def heat(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K) and Grad-CAM's map of every predicate, (B, K, h, w)."""
        with torch.no_grad():
            maps = self.body(images)
        with torch.enable_grad():
            maps = maps.detach().requires_grad_()
            logits = self.head(maps)
            # A picture's logits depend on its own map only, so one backward pass serves all pictures.
            slopes = [torch.autograd.grad(column.sum(), maps, retain_graph=True)[0] for column in logits.unbind(1)]
        weights = torch.stack(slopes, 1).mean((3, 4))  # (B, K, C)
        return logits.detach(), torch.einsum("bkc,bchw->bkhw", weights, maps.detach()).clamp(min=0)


Model = RelationNetwork | PredicateCNN


def build(config: ModelConfig, facts: Facts) -> Model:
    """The model of a config."""
    return PredicateCNN(config.body, facts) if config.network == "cnn" else RelationNetwork(config, facts)


def joined_relation(network: RelationNetwork) -> tuple[Tensor, Tensor]:
    """Weight (width, 3 width) and bias of f_r as one layer on (subject, edge, object)."""
    weight = torch.cat([network.of_subject.weight, network.of_edge.weight, network.of_object.weight], 1)
    return weight, network.of_subject.bias
