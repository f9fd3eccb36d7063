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
from vergence.ops.category_structure import (
    class_centres,
    inter_distance,
    inter_structure,
    intra_distance,
    intra_structure,
)
from vergence.ops.compact import compact
from vergence.ops.correlation import cross_correlation, nonparametric_scale_convolution, rescale
from vergence.ops.crisscross import CrissCrossAffinity
from vergence.ops.graph import Graph, connect
from vergence.ops.graphfilter import cayley, chebyshev, laplacian_squared
from vergence.ops.invariants import (
    affine_moment_invariants,
    multiscale_autoconvolution,
    r_transform,
    triple_features,
)
from vergence.ops.knn import gathered, nearest
from vergence.ops.lines import (
    binding_integrals,
    fourier_invariants,
    line_offsets,
    normalise_rows,
    polar_moments,
    square_root,
    supports,
    trace_transform,
)
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
    "affine_moment_invariants",
    "align",
    "assign",
    "barycentres",
    "binding_integrals",
    "cayley",
    "chebyshev",
    "class_centres",
    "compact",
    "connect",
    "cross_correlation",
    "dealign",
    "fourier_invariants",
    "gathered",
    "gaussian_smooth",
    "hermite_basis",
    "inter_distance",
    "inter_structure",
    "intra_distance",
    "intra_structure",
    "laplacian_squared",
    "lift",
    "line_offsets",
    "log_sinkhorn",
    "multiscale_autoconvolution",
    "nearest",
    "nonparametric_scale_convolution",
    "normalise_rows",
    "optimal_plan",
    "pointwise_scale_convolution",
    "polar_moments",
    "r_transform",
    "rescale",
    "sampled",
    "scale_convolution",
    "scale_pool",
    "set_convolution",
    "sinkhorn",
    "soft_assign",
    "square_root",
    "supports",
    "surroundings",
    "trace_transform",
    "triple_features",
]
