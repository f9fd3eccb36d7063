"""Graph filters: polynomials of an affinity applied to node features."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from saccade.ops.affinity import Affinity


def chebyshev(affinity: Affinity | Tensor, z: Tensor, weights: Sequence[Tensor]) -> Tensor:
    """The Chebyshev filter ``Σ_k T_k(A) z W_k`` by the three-term recurrence. Differentiable.

    ``z`` is (..., N, C), each weight (C, D), the result (..., N, D). One weight is a plain product, two are the first
    order that the spectral nonlocal block uses.
    """
    out = z @ weights[0]
    if len(weights) > 1:
        previous, current = z, affinity @ z
        out = out + current @ weights[1]
        for weight in weights[2:]:
            previous, current = current, 2 * (affinity @ current) - previous
            out = out + current @ weight
    return out
