"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Saccade."""

from saccade.ops.affinity import (
    Affinity,
    CrissCrossAffinity,
    DenseAffinity,
    FactoredAffinity,
    MirroredAffinity,
    SoftmaxAffinity,
    SortedAffinity,
    TiledAffinity,
)
from saccade.ops.graph import Graph, compact, connect
from saccade.ops.graphfilter import cayley, chebyshev, laplacian_squared

__all__ = [
    "Affinity",
    "CrissCrossAffinity",
    "DenseAffinity",
    "FactoredAffinity",
    "Graph",
    "MirroredAffinity",
    "SoftmaxAffinity",
    "SortedAffinity",
    "TiledAffinity",
    "cayley",
    "chebyshev",
    "compact",
    "connect",
    "laplacian_squared",
]
