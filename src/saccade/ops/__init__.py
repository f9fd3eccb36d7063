"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Saccade."""

from saccade.ops.affinity import Affinity, FactoredAffinity, SoftmaxAffinity
from saccade.ops.graphfilter import chebyshev
from saccade.ops.knn import gathered, nearest
from saccade.ops.setconv import set_convolution
from saccade.ops.support import Blocks
from saccade.ops.transport import barycentres, log_sinkhorn, optimal_plan, sinkhorn

__all__ = [
    "Affinity",
    "Blocks",
    "FactoredAffinity",
    "SoftmaxAffinity",
    "barycentres",
    "chebyshev",
    "gathered",
    "log_sinkhorn",
    "nearest",
    "optimal_plan",
    "set_convolution",
    "sinkhorn",
]
