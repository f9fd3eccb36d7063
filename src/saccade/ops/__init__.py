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
from saccade.ops.align import align, dealign
from saccade.ops.assign import assign, soft_assign
from saccade.ops.graph import Graph, compact, connect
from saccade.ops.graphfilter import cayley, chebyshev, laplacian_squared
from saccade.ops.knn import gathered, nearest
from saccade.ops.lowrank import LowRank, sampled
from saccade.ops.patches import Patches
from saccade.ops.setconv import set_convolution
from saccade.ops.smooth import gaussian_smooth, surroundings
from saccade.ops.support import Blocks
from saccade.ops.transport import barycentres, log_sinkhorn, optimal_plan, sinkhorn

__all__ = [
    "Affinity",
    "Blocks",
    "CrissCrossAffinity",
    "DenseAffinity",
    "FactoredAffinity",
    "Graph",
    "LowRank",
    "MirroredAffinity",
    "Patches",
    "SoftmaxAffinity",
    "SortedAffinity",
    "TiledAffinity",
    "align",
    "assign",
    "barycentres",
    "cayley",
    "chebyshev",
    "compact",
    "connect",
    "dealign",
    "gathered",
    "gaussian_smooth",
    "laplacian_squared",
    "log_sinkhorn",
    "nearest",
    "optimal_plan",
    "sampled",
    "set_convolution",
    "sinkhorn",
    "soft_assign",
    "surroundings",
]
