"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Vergence."""

from vergence.ops.affinity import (
    Affinity,
    DenseAffinity,
    FactoredAffinity,
    MirroredAffinity,
    SoftmaxAffinity,
    SortedAffinity,
    TiledAffinity,
)
from vergence.ops.alignment import align, dealign
from vergence.ops.assignment import assign, soft_assign
from vergence.ops.compact import compact
from vergence.ops.correlation import cross_correlation, nonparametric_scale_convolution, rescale
from vergence.ops.crisscross import CrissCrossAffinity
from vergence.ops.graph import Graph, connect
from vergence.ops.graphfilter import cayley, chebyshev, laplacian_squared
from vergence.ops.knn import gathered, nearest
from vergence.ops.lowrank import LowRank, sampled
from vergence.ops.patches import Patches
from vergence.ops.scale import hermite_basis, lift, pointwise_scale_convolution, scale_convolution, scale_pool
from vergence.ops.setconv import set_convolution
from vergence.ops.smooth import gaussian_smooth, surroundings
from vergence.ops.support import Blocks
from vergence.ops.transport import barycentres, log_sinkhorn, optimal_plan, sinkhorn

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
