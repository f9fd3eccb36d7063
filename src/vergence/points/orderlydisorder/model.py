"""Pattern-Net: a neighbourhood network shared by random clones of a cloud, the patterns that link them, and two heads;
and the networks it is compared with, DGCNN and PointNet."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.edgeconv import SLOPE, EdgeMLP, PointMLP
from vergence.ops.edgeconv import feature_neighbours
from vergence.ops.precision import full_precision, wide
from vergence.points.orderlydisorder.settings import ModelConfig
from vergence.points.shapes import ShapeFacts

LAYERS = 4


def decompose(batch: int, points: int, clones: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Cloning decomposition (Eqs. 3 and 4): for each cloud a random permutation of its points, cut into ``clones``
    sets of equal size, as indices (B, L, N). Up to L - 1 points are left over."""
    size = points // clones
    if not size:
        raise VergenceError(f"a cloud of {points} points cannot be split into {clones} clones")
    order = torch.rand(batch, points, generator=generator, device=device).argsort(1)
    return order[:, : clones * size].view(batch, clones, size)


def mapping_deviation(clones: Tensor, linkage: Tensor, ridge: float = 1e-3) -> Tensor:
    """The linear-mapping loss (Eq. 9) of descriptors Ψ (B, D, L) and φ (B, D), for each cloud (B,): the deviation of
    the coefficients ω that write φ as a mixture of the clones.

    At its optimum the clones are alike and ΨᵀΨ is singular; the ridge, a share of its mean diagonal, keeps value and
    gradient finite there."""
    with full_precision(clones):
        psi, phi = wide(clones), wide(linkage).unsqueeze(2)
        gram = psi.mT @ psi  # (B, L, L)
        weight = ridge * gram.diagonal(dim1=1, dim2=2).mean(1) + torch.finfo(gram.dtype).tiny
        eye = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
        omega = torch.linalg.solve(gram + weight[:, None, None] * eye, psi.mT @ phi).squeeze(2)
        variance = omega.var(1, correction=0)
        # The root has no gradient at zero, which a single clone always reaches.
        some = variance > 1e-20
        return torch.where(some, variance, 1).sqrt().where(some, 0)


class Head(nn.Module):
    """Three layers with dropout after all but the last."""

    def __init__(
        self, widths: tuple[int, int, int], outputs: int, dropout: float, bias: bool = True, slope: float = SLOPE
    ) -> None:
        super().__init__()
        first, second, third = widths
        self.layers = nn.ModuleList([PointMLP(first, second, bias, slope), PointMLP(second, third, slope=slope)])
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(third, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.dropout(layer(x))
        logits: Tensor = self.last(x)
        return logits


class PartHead(nn.Module):
    """Logits of every point from its own features, the object's descriptor and its category."""

    def __init__(self, features: int, descriptor: int, width: int, facts: ShapeFacts, model: ModelConfig) -> None:
        super().__init__()
        self.classes = facts.classes if model.category else 0
        self.head = Head((features + descriptor + self.classes, width, width), sum(facts.parts), model.dropout)

    def forward(self, features: Tensor, descriptor: Tensor, category: Tensor) -> Tensor:
        """(B, M, S) from features (B, M, C), descriptors (B, D) and categories (B,)."""
        given = [descriptor]
        if self.classes:
            given.append(nn.functional.one_hot(category, self.classes).to(descriptor.dtype))
        shared = torch.cat(given, 1).unsqueeze(1).expand(-1, features.shape[1], -1)
        logits: Tensor = self.head(torch.cat([features, shared], 2))
        return logits


class PatternNet(nn.Module):
    """Class or part logits of clouds and their decompositions."""

    def __init__(self, model: ModelConfig, facts: ShapeFacts) -> None:
        super().__init__()
        self.settings = model
        width = model.width
        descriptor = LAYERS * width
        self.edges = nn.ModuleList(EdgeMLP(width if layer else 3, width) for layer in range(LAYERS))
        self.clone = PointMLP(descriptor, descriptor)
        self.linkage = PointMLP(descriptor, descriptor)
        if facts.parts:
            self.points = nn.ModuleList(PointMLP(width if layer else 3, width) for layer in range(LAYERS))
            self.parts = PartHead(LAYERS * width, 2 * descriptor, 4 * width, facts, model)
        else:
            self.head = Head((2 * descriptor, 4 * width, 4 * width), facts.classes, model.dropout)

    def forward(self, points: Tensor, split: Tensor, category: Tensor | None = None) -> dict[str, Tensor]:
        """``logits`` (B, C) or, for parts, (B, M, S) of clouds (B, M, 3) whose clones have the indices ``split``
        (B, L, N); the descriptors of the ``clones`` Ψ (B, D, L) and of the ``linkage`` φ (B, D)."""
        _refuse_others(points)
        batch, clones, size = split.shape
        with full_precision(points):
            flat = split.reshape(batch, -1, 1).expand(-1, -1, 3)
            x = wide(points).gather(1, flat).view(batch * clones, size, 3)
            features = self.encode(x)
            psi = self.clone(features).amax(1).view(batch, clones, -1)
            phi = self.linkage(features).amax(1).view(batch, clones, -1).amax(1)
            described = torch.cat([psi.amax(1), phi], 1)
        out = {"clones": psi.mT, "linkage": phi}
        if hasattr(self, "head"):
            return {"logits": self.head(described), **out}
        x, own = points, []
        for layer in self.points:
            x = layer(x)
            own.append(x)
        assert category is not None
        return {"logits": self.parts(torch.cat(own, 2), described, category), **out}

    def encode(self, x: Tensor) -> Tensor:
        """Features (G, N, 4 w) of clones (G, N, 3): neighbours are found anew in each layer."""
        features = []
        for number, layer in enumerate(self.edges):
            euclidean = number == 0 and self.settings.first == "euclidean"
            distance = "euclidean" if euclidean else self.settings.distance
            x = layer(x, feature_neighbours(x, self.settings.neighbours, distance))
            features.append(x)
        return torch.cat(features, 2)


class DGCNN(nn.Module):
    """DGCNN as published (four edge convolutions, one layer on all of their features, maximum and mean)."""

    def __init__(self, model: ModelConfig, facts: ShapeFacts) -> None:
        super().__init__()
        self.settings = model
        w = model.width
        ends = (3, w, w, 2 * w, 4 * w)
        self.edges = nn.ModuleList(EdgeMLP(a, b, bias=False) for a, b in pairwise(ends))
        self.wide = PointMLP(8 * w, 16 * w, bias=False)
        if facts.parts:
            self.parts = PartHead(8 * w, 32 * w, 4 * w, facts, model)
        else:
            self.head = Head((32 * w, 8 * w, 4 * w), facts.classes, model.dropout, bias=False)

    def forward(self, points: Tensor, split: Tensor | None = None, category: Tensor | None = None) -> dict[str, Tensor]:
        """``logits`` of clouds (B, M, 3); the decomposition is not used."""
        _refuse_others(points)
        with full_precision(points):
            x, features = wide(points), []
            for layer in self.edges:
                x = layer(x, feature_neighbours(x, self.settings.neighbours))
                features.append(x)
            own = torch.cat(features, 2)
            deep = self.wide(own)
            described = torch.cat([deep.amax(1), deep.mean(1)], 1)
        if hasattr(self, "head"):
            return {"logits": self.head(described)}
        assert category is not None
        return {"logits": self.parts(own, described, category)}


class Transform(nn.Module):
    """PointNet's T-net: a matrix (B, n, n) that depends on the cloud, at first nearly the identity."""

    def __init__(self, channels: int, w: int) -> None:
        super().__init__()
        self.channels = channels
        ends = (channels, w, 2 * w, 16 * w)
        self.layers = nn.Sequential(*(PointMLP(a, b, slope=0) for a, b in pairwise(ends)))
        self.pooled = nn.Sequential(PointMLP(16 * w, 8 * w, slope=0), PointMLP(8 * w, 4 * w, slope=0))
        self.last = nn.Linear(4 * w, channels * channels)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        matrix = self.last(self.pooled(self.layers(x).amax(1))).unflatten(1, (self.channels, self.channels))
        return matrix + torch.eye(self.channels, dtype=matrix.dtype, device=matrix.device)


class PointNet(nn.Module):
    """PointNet as published: no neighbourhoods, so noise moves a point's features only a little."""

    def __init__(self, model: ModelConfig, facts: ShapeFacts) -> None:
        super().__init__()
        self.settings = model
        w = model.width
        self.turn, self.mix = Transform(3, w), Transform(w, w)
        self.low = nn.Sequential(PointMLP(3, w, slope=0), PointMLP(w, w, slope=0))
        self.high = nn.Sequential(PointMLP(w, w, slope=0), PointMLP(w, 2 * w, slope=0))
        self.wide = PointMLP(2 * w, 16 * w, slope=0)
        if facts.parts:
            self.parts = PartHead(4 * w, 16 * w, 4 * w, facts, model)
        else:
            self.head = Head((16 * w, 8 * w, 4 * w), facts.classes, model.dropout, slope=0)

    def forward(self, points: Tensor, split: Tensor | None = None, category: Tensor | None = None) -> dict[str, Tensor]:
        """``logits`` of clouds (B, M, 3), and the ``transform`` (B, w, w) of their features; the decomposition is not
        used."""
        _refuse_others(points)
        low = self.low(points @ self.turn(points))
        matrix = self.mix(low)
        mixed = low @ matrix
        high = self.high(mixed)
        described = self.wide(high).amax(1)
        if hasattr(self, "head"):
            return {"logits": self.head(described), "transform": matrix}
        assert category is not None
        own = torch.cat([low, mixed, high], 2)
        return {"logits": self.parts(own, described, category), "transform": matrix}


Network = PatternNet | DGCNN | PointNet


def build(model: ModelConfig, facts: ShapeFacts) -> Network:
    if model.network == "pattern":
        return PatternNet(model, facts)
    return DGCNN(model, facts) if model.network == "dgcnn" else PointNet(model, facts)


def _refuse_others(points: Tensor) -> None:
    if points.dim() != 3 or points.shape[2] != 3 or not points.shape[1] or not points.is_floating_point():
        raise VergenceError(f"a cloud is (B, M, 3) of floats, M >= 1; got {tuple(points.shape)} of {points.dtype}")
