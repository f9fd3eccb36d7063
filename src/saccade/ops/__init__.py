"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Saccade."""

from saccade.ops.affinity import Affinity, FactoredAffinity, SoftmaxAffinity
from saccade.ops.graphfilter import chebyshev
from saccade.ops.lowrank import LowRank, sampled
from saccade.ops.patches import Patches
from saccade.ops.smooth import gaussian_smooth, surroundings

__all__ = [
    "Affinity",
    "FactoredAffinity",
    "LowRank",
    "Patches",
    "SoftmaxAffinity",
    "chebyshev",
    "gaussian_smooth",
    "sampled",
    "surroundings",
]
