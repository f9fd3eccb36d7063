"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Saccade."""

from saccade.ops.affinity import (
    Affinity,
    CrissCrossAffinity,
    DenseAffinity,
    FactoredAffinity,
    SoftmaxAffinity,
    SortedAffinity,
    SymmetrisedAffinity,
)
from saccade.ops.graph import Graph, compact, connect
from saccade.ops.graphfilter import cayley, chebyshev, laplacian_squared

__all__ = [
    "Affinity",
    "CrissCrossAffinity",
    "DenseAffinity",
    "FactoredAffinity",
    "Graph",
    "SoftmaxAffinity",
    "SortedAffinity",
    "SymmetrisedAffinity",
    "cayley",
    "chebyshev",
    "compact",
    "connect",
    "laplacian_squared",
]
