"""Linear measurements as a small algebra: each operator has its adjoint, its pseudo-inverse and its two projections.

``H.range(x) = H†Hx`` is the part of a picture that the measurement determines, ``H.null(x) = x - H†Hx`` the part that
it does not see. Both are orthogonal projections, exact up to rounding wherever ``H.closed`` is true; elsewhere H† is
computed by conjugate gradients to ``H.tolerance``. Operators act on the last dimensions of a tensor; any dimensions may
stand before them, and autograd works through all methods::

    H = Average((32, 32), 2)
    y = H(x)                      # (..., 32, 32) -> (..., 16, 16)
    H.pinv(y), H.range(x), H.null(x)
    both = Mask(known) @ Blur((64, 64), gaussian(1.5))      # by conjugate gradients
    mine = Function(forward, adjoint, (64, 64), (32, 32))   # the adjoint is tested at construction
"""

from vergence.ops.linear.base import Composed, Function, Identity, Operator, mismatch
from vergence.ops.linear.fourier import Blur, Coils, Fourier, gaussian, pixels_of
from vergence.ops.linear.sampling import Average, Bicubic, Dense, Mask, bicubic, random_projection, resampling
from vergence.ops.linear.solve import least_squares

__all__ = [
    "Average",
    "Bicubic",
    "Blur",
    "Coils",
    "Composed",
    "Dense",
    "Fourier",
    "Function",
    "Identity",
    "Mask",
    "Operator",
    "bicubic",
    "gaussian",
    "least_squares",
    "mismatch",
    "pixels_of",
    "random_projection",
    "resampling",
]
