"""Losses of labels under CTC and what is added to them, as sums over steps and means over a batch."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from vergence.ops.ctc import needed_steps, negative_log_likelihood, paths
from vergence.ops.ctc_spacing import spaced_paths


def bernoulli_kl(posterior: Tensor, prior: Tensor) -> Tensor:
    """KL(q || p) of two chances given by their log odds, of any shape; finite for odds of any size."""
    q = posterior.sigmoid()
    emitted = F.logsigmoid(-posterior) - F.logsigmoid(-prior)
    return q * (F.logsigmoid(posterior) - F.logsigmoid(prior)) + (1 - q) * emitted


def likelihood(
    log_probs: Tensor, targets: Tensor, lengths: Tensor, *, entropy: float = 0.0, spacing: float = 0.0,
    smoothing: float = 0.0,
) -> dict[str, Tensor]:  # fmt: skip
    """The loss of labels (B, L), padded with -1, of ``lengths`` (B,), from log probabilities (T, B, K): ``likelihood``;
    with ``entropy`` that of EnCTC, with ``spacing`` over paths of EsCTC alone, with ``smoothing`` towards uniform
    symbols. Labels that need more steps than there are count as zero."""
    steps, batch, symbols = log_probs.shape
    targets = targets.clamp(min=0)
    fits = needed_steps(targets, lengths) <= steps
    all_steps = lengths.new_full((int(fits.sum()),), steps)
    own = log_probs[:, fits], targets[fits], all_steps, lengths[fits]
    if not len(all_steps):
        return {"likelihood": log_probs.sum() * 0.0}
    if spacing:
        spaced = spaced_paths(*own, rate=spacing)
        loss, disorder = -spaced.log_likelihood[spaced.log_likelihood.isfinite()], spaced.entropy
    else:
        loss = negative_log_likelihood(*own)
        disorder = paths(*own).entropy if entropy else loss
    found = {"likelihood": (1 - smoothing) * loss.sum() / batch}
    if smoothing:
        uniform = -log_probs.mean(-1) - math.log(symbols)  # KL(uniform || p)
        found["smoothing"] = smoothing * uniform.sum(0).mean()
    if entropy:
        found["entropy"] = -entropy * disorder.sum() / batch
    return found
