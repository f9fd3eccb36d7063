"""Losses of CTC, Mml-CTC, Var-CTC, EnCTC, EnEs-CTC and smoothed CTC, as sums over steps and means over a batch.

Var-CTC puts the posterior's chance of a blank into the likelihood of a label, which sums over what is blank: that is
``log Σ q(b) p(Y | b)``, and by Jensen's inequality at least the expectation ``Σ q(b) log p(Y | b)`` of Eq. 5. It is
what the paper computes, and not a lower bound of the likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor

from vergence.documents.varctc.model import HierarchicalHead, Recogniser
from vergence.documents.varctc.settings import LossConfig
from vergence.ops.ctc import needed_steps, negative_log_likelihood, paths
from vergence.ops.ctc_spacing import spaced_paths
from vergence.ops.precision import full_precision


def bernoulli_kl(posterior: Tensor, prior: Tensor) -> Tensor:
    """KL(q || p) of two chances given by their log odds, of any shape; finite for odds of any size."""
    q = posterior.sigmoid()
    emitted = F.logsigmoid(-posterior) - F.logsigmoid(-prior)
    return q * (F.logsigmoid(posterior) - F.logsigmoid(prior)) + (1 - q) * emitted


def losses(
    model: Recogniser, images: Tensor, targets: Tensor, lengths: Tensor, config: LossConfig
) -> Mapping[str, Tensor]:
    """Named losses of pictures (B, 1, 32, W) with labels (B, L), padded with -1, of ``lengths`` (B,). Labels that need
    more steps than there are count as zero."""
    features = model.features(images)
    with full_precision(features):
        if model.posterior is not None:
            assert isinstance(model.head, HierarchicalHead)
            odds = model.posterior(features, targets, lengths)
            found = likelihood(model.head(features, odds), targets, lengths, config)
            divergence = bernoulli_kl(odds, model.head.odds(features)).sum(0).mean()
            return {**found, "divergence": config.kl * divergence}
        log_probs = model.head(features)
        if model.temperature is not None:
            log_probs = model.temperature(log_probs)
        return likelihood(log_probs, targets, lengths, config)


def likelihood(log_probs: Tensor, targets: Tensor, lengths: Tensor, config: LossConfig) -> dict[str, Tensor]:
    """The negative log likelihood of labels, and its companions that the config asks for."""
    steps, batch, symbols = log_probs.shape
    targets = targets.clamp(min=0)
    fits = needed_steps(targets, lengths) <= steps
    all_steps = lengths.new_full((int(fits.sum()),), steps)
    own = log_probs[:, fits], targets[fits], all_steps, lengths[fits]
    if not len(all_steps):
        return {"likelihood": log_probs.sum() * 0.0}
    if config.spacing:
        spaced = spaced_paths(*own, rate=config.spacing)
        loss, entropy = -spaced.log_likelihood[spaced.log_likelihood.isfinite()], spaced.entropy
    else:
        loss = negative_log_likelihood(*own)
        entropy = paths(*own).entropy if config.entropy else loss
    found = {"likelihood": (1 - config.smoothing) * loss.sum() / batch}
    if config.smoothing:
        uniform = -log_probs.mean(-1) - math.log(symbols)  # KL(uniform || p)
        found["smoothing"] = config.smoothing * uniform.sum(0).mean()
    if config.entropy:
        found["entropy"] = -config.entropy * entropy.sum() / batch
    return found
