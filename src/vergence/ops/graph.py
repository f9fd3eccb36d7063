"""Graphs of positions: a pairwise kernel, optionally symmetrised, with a normalisation and a support.

The kernels, for the embedding ``q`` of the attending position and ``k`` of the attended one:

===============  ==================================================================================
``dot``          ``q·k``
``gaussian``     ``exp(q·k)``; of the features themselves, or (*embedded*) of embeddings
``concatenation``  ``relu(q + k)`` of embeddings one wide: ``w·[θ; φ]`` is the sum of two of them
``sigmoid``      ``1 / (1 + exp(-q·k))``
``relu``         ``relu(q)·relu(k)``
``softmaxes``    ``softmax(q)·softmax(k)``, over the channels of q and over the positions of k
===============  ==================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vergence.ops.affinity import (
    Affinity,
    DenseAffinity,
    FactoredAffinity,
    MirroredAffinity,
    SoftmaxAffinity,
    SortedAffinity,
    TiledAffinity,
    product,
    reciprocal,
)
from vergence.ops.crisscross import CrissCrossAffinity, criss_cross, window
from vergence.ops.precision import full_precision, wide

Kernel = Literal["dot", "gaussian", "concatenation", "sigmoid", "relu", "softmaxes"]
Normalisation = Literal["row", "symmetric", "size", "none"]
Support = Literal["everywhere", "criss-cross"] | int
FACTORED: tuple[Kernel, ...] = ("dot", "relu", "softmaxes")
"""Kernels that are products of thin factors."""

FEW = 256
"""Number of positions up to which call overhead costs more than arithmetic."""


@dataclass(frozen=True)
class Graph:
    """How positions are connected."""

    kernel: Kernel = "gaussian"
    symmetrise: bool = False
    """``½(M + Mᵀ)``, before it is normalised."""
    normalise: Normalisation = "row"
    """Divide by the degree of the row, by the roots of both degrees, by the number of attended positions, or not."""
    support: Support = "everywhere"
    """All positions, those of the same row or column, or a window of this radius in every direction."""


def connect(query: Tensor, key: Tensor, graph: Graph, shape: tuple[int, ...] | None = None) -> Affinity:
    """The affinity of embeddings (..., N, r) and (..., M, r), in its cheapest form. Differentiable.

    ``shape`` is that of the grid of positions, for a support that needs one. Any combination works; those without a
    cheaper form are computed as a matrix.
    """
    square = graph.symmetrise or graph.normalise == "symmetric" or graph.support != "everywhere"
    if square and query.shape[-2] != key.shape[-2]:
        raise ValueError(f"{graph} compares positions with themselves, got {query.shape[-2]} and {key.shape[-2]}")
    if graph.support != "everywhere" and math.prod(shape or ()) != query.shape[-2]:
        raise ValueError(f"the support {graph.support!r} needs the grid of {query.shape[-2]} positions, got {shape}")
    plain = (graph.symmetrise, graph.normalise) == (False, "row")
    if graph.support == "criss-cross" and graph.kernel == "gaussian" and plain and shape and query.shape[-2] > FEW // 4:
        return CrissCrossAffinity(query, key, shape)
    if graph.support != "everywhere":
        return _dense(query, key, graph, shape)
    if graph.kernel == "gaussian" and plain:
        return SoftmaxAffinity(query, key)
    # Few positions are fastest as a matrix; and exporters support neither tiles nor searchsorted.
    small = key.shape[-2] <= FEW or torch.compiler.is_exporting()
    if graph.kernel == "concatenation" and not (small or graph.symmetrise or graph.normalise == "symmetric"):
        affinity = SortedAffinity(query, key, 1 / key.shape[-2] if graph.normalise == "size" else 1.0)
        return affinity.by_degree() if graph.normalise == "row" else affinity
    if graph.kernel in ("sigmoid", "gaussian") and not small and graph.symmetrise and graph.normalise == "symmetric":
        return TiledAffinity.normalised(query, key, graph.kernel)
    if graph.kernel in FACTORED and not denser(query, key, graph):
        return _factored(query, key, graph)
    return _dense(query, key, graph, shape)


def denser(query: Tensor, key: Tensor, graph: Graph) -> bool:
    """Whether the matrix costs less than its factors: forming it and one product with it, in multiply-adds.

    An exported program always uses the factors, so that it is valid for any number of positions.
    """
    if torch.compiler.is_exporting():
        return False
    positions, seen, width = query.shape[-2], key.shape[-2], query.shape[-1]
    rank = 2 * width if graph.symmetrise else width
    return 2 * positions * seen <= rank * (positions + seen)


def kernel(query: Tensor, key: Tensor, kind: Kernel) -> Tensor:
    """The kernel of every pair, (..., N, M), in float32 at least. A ``gaussian`` overflows where scores exceed 88."""
    with full_precision(query):
        query, key = (wide(t) for t in embed(query, key, kind))
        if kind == "concatenation":
            return (query + key.mT).relu()
        scores = product(query, key.mT)
        return scores.exp() if kind == "gaussian" else scores.sigmoid() if kind == "sigmoid" else scores


def embed(query: Tensor, key: Tensor, kind: Kernel) -> tuple[Tensor, Tensor]:
    """The embeddings after the kernel's own transform of each position."""
    if kind == "relu":
        return query.relu(), key.relu()
    if kind == "softmaxes":
        return query.softmax(-1), key.softmax(-2)
    return query, key


def _factored(query: Tensor, key: Tensor, graph: Graph) -> FactoredAffinity:
    query, key = embed(query, key, graph.kernel)
    if graph.symmetrise and graph.normalise != "size":
        return _divided(MirroredAffinity(torch.cat([query, key], -1)), graph.normalise)
    if graph.symmetrise:
        query, key = torch.cat([query, key], -1), torch.cat([key, query], -1) / 2
    return _divided(FactoredAffinity(query, key), graph.normalise)


def _divided(affinity: FactoredAffinity, how: Normalisation) -> FactoredAffinity:
    if how == "size":
        return FactoredAffinity(affinity.left, affinity.right, 1 / affinity.right.shape[-2])
    return affinity.by_rows() if how == "row" else affinity.by_roots() if how == "symmetric" else affinity


def _dense(query: Tensor, key: Tensor, graph: Graph, shape: tuple[int, ...] | None) -> DenseAffinity:
    inside = None if graph.support == "everywhere" else _inside(graph.support, shape or (), query.device)
    with full_precision(query):
        if graph.kernel == "gaussian" and (graph.symmetrise, graph.normalise) == (False, "row"):
            scores = product(wide(query), wide(key).mT)
            return DenseAffinity((scores if inside is None else scores.masked_fill(~inside, -math.inf)).softmax(-1))
        if graph.kernel == "gaussian" and graph.normalise in ("row", "symmetric"):
            matrix = _safe_gaussian(query, key, inside)
        else:
            matrix = kernel(query, key, graph.kernel)
            matrix = matrix if inside is None else matrix * inside
        if graph.symmetrise:
            matrix = (matrix + matrix.mT) / 2
        seen = matrix.shape[-1] if inside is None else inside.sum(-1, keepdim=True)
        return DenseAffinity(_normalised(matrix, graph.normalise, seen))


def _inside(support: Support, shape: tuple[int, ...], device: torch.device) -> Tensor:
    return window(shape, support, device) if isinstance(support, int) else criss_cross(shape, device)


def _safe_gaussian(query: Tensor, key: Tensor, inside: Tensor | None) -> Tensor:
    """``exp(q·k)`` up to a constant factor, which prevents overflow and cancels with the degrees."""
    scores = product(wide(query), wide(key).mT)
    if inside is not None:
        scores = scores.masked_fill(~inside, -math.inf)
    return (scores - scores.detach().amax((-2, -1), keepdim=True)).exp()


def _normalised(matrix: Tensor, how: Normalisation, seen: Tensor | int) -> Tensor:
    if how == "none":
        return matrix
    if how == "size":
        return matrix / seen
    degree = matrix.sum(-1, keepdim=True)
    if how == "row":
        return matrix * reciprocal(degree)
    root = reciprocal(degree, torch.rsqrt)
    return root * matrix * root.mT
