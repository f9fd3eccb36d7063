"""Functions of tensors, batched, with shapes in every docstring. Imports nothing of Saccade."""

from saccade.ops.affinity import Affinity, FactoredAffinity, SoftmaxAffinity
from saccade.ops.graphfilter import chebyshev

__all__ = ["Affinity", "FactoredAffinity", "SoftmaxAffinity", "chebyshev"]
