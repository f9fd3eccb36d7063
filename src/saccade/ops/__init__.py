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
from saccade.ops.alignment import align, dealign
from saccade.ops.assignment import assign, soft_assign
from saccade.ops.correlation import cross_correlation, nonparametric_scale_convolution, rescale
from saccade.ops.graph import Graph, compact, connect
from saccade.ops.graphfilter import cayley, chebyshev, laplacian_squared
from saccade.ops.knn import gathered, nearest
from saccade.ops.lowrank import LowRank, sampled
from saccade.ops.patches import Patches
from saccade.ops.scale import hermite_basis, lift, pointwise_scale_convolution, scale_convolution, scale_pool
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
    "cross_correlation",
    "dealign",
    "gathered",
    "gaussian_smooth",
    "hermite_basis",
    "laplacian_squared",
    "lift",
    "log_sinkhorn",
    "nearest",
    "nonparametric_scale_convolution",
    "optimal_plan",
    "pointwise_scale_convolution",
    "rescale",
    "sampled",
    "scale_convolution",
    "scale_pool",
    "set_convolution",
    "sinkhorn",
    "soft_assign",
    "surroundings",
]
