"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Saccade."""

from saccade.ops.affinity import Affinity, FactoredAffinity, SoftmaxAffinity
from saccade.ops.graphfilter import chebyshev
from saccade.ops.knn import gathered, nearest
from saccade.ops.lowrank import LowRank, sampled
from saccade.ops.patches import Patches
from saccade.ops.setconv import set_convolution
from saccade.ops.support import Blocks
from saccade.ops.transport import barycentres, log_sinkhorn, optimal_plan, sinkhorn

__all__ = [
    "Affinity",
    "Blocks",
    "FactoredAffinity",
    "LowRank",
    "Patches",
    "SoftmaxAffinity",
    "barycentres",
    "chebyshev",
    "gathered",
    "log_sinkhorn",
    "nearest",
    "optimal_plan",
    "sampled",
    "set_convolution",
    "sinkhorn",
]
