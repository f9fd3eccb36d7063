"""The triplet loss with the hardest examples of a batch (Hermans et al., 2017)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.precision import full_precision, wide


def batch_hard(features: Tensor, identities: Tensor, margin: float, squared: bool = False) -> Tensor:
    """Mean over a batch (B, D) of ``relu(farthest of the same identity - nearest of another + margin)``.

    Distances are Euclidean, or squared. A sample without another of its identity is its own positive; a batch of a
    single identity has loss zero. Differentiable, also where two samples are equal.
    """
    with full_precision(features):
        x = wide(features)
        lengths = x.square().sum(1)
        far = lengths[:, None] + lengths - 2 * x @ x.mT
        if not squared:
            far = far.clamp(min=1e-12).sqrt()  # the gradient of a root at zero is infinite
    same = identities[:, None] == identities
    positive = far.masked_fill(~same, -torch.inf).amax(1)
    negative = far.masked_fill(same, torch.inf).amin(1)
    alone = negative.isinf()
    return F.relu(positive - negative.masked_fill(alone, 0) + margin).masked_fill(alone, 0).mean()
