"""Distances between what a student and a teacher say about a batch: answers, and relations between samples."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.precision import full_precision, wide


def soft_targets(student: Tensor, teacher: Tensor, temperature: float = 4.0) -> Tensor:
    """Hinton's distillation: the divergence of logits (N, K), softened by a temperature, times its square, so that
    gradients keep their size at every temperature."""
    with full_precision(student):
        answers = F.log_softmax(wide(student) / temperature, 1)
        targets = F.log_softmax(wide(teacher) / temperature, 1)
        return temperature**2 * F.kl_div(answers, targets, reduction="batchmean", log_target=True)


def correlation_congruence(student: Tensor, teacher: Tensor, gamma: float = 0.4) -> Tensor:
    """CCKD (Peng et al., 2019): the mean squared difference of all similarities between samples of a batch.

    Features are (N, ...) and may differ in shape. The similarity is a Gaussian kernel of unit vectors,
    ``exp(-gamma |x - y|^2)``, which for unit vectors is ``exp(2 gamma (cos - 1))``.
    """
    with full_precision(student):
        kernels = []
        for features in (student, teacher):
            units = F.normalize(wide(features).flatten(1), dim=1)
            kernels.append(torch.exp(2 * gamma * (units @ units.mT - 1)))
        return (kernels[0] - kernels[1]).square().mean()


def relational_distance(student: Tensor, teacher: Tensor) -> Tensor:
    """RKD's distance (Park et al., 2019): Huber loss of all distances between samples, each network's divided by their
    mean. Features are (N, ...) and may differ in shape."""
    with full_precision(student):
        far = []
        for features in (student, teacher):
            distances = _squared_distances(_gram(features)).clamp(min=1e-12).sqrt()
            away = ~torch.eye(len(distances), dtype=torch.bool, device=distances.device)
            distances = distances.masked_fill(~away, 0)
            far.append(distances / (distances.sum() / away.sum().clamp(min=1)).clamp(min=1e-12))
        return F.smooth_l1_loss(far[0], far[1])


def relational_angle(student: Tensor, teacher: Tensor) -> Tensor:
    """RKD's angle: Huber loss of the cosines of all angles between three samples, at each of them.

    Computed from inner products, (N, N, N) in all; the differences of samples (N, N, D) are never formed. An angle
    between samples of which two are equal counts as a right one.
    """
    with full_precision(student):
        return F.smooth_l1_loss(_angles(_gram(student)), _angles(_gram(teacher)))


def _gram(features: Tensor) -> Tensor:
    """Inner products (N, N) of features, centred for accuracy: distances and angles do not change."""
    flat = wide(features).flatten(1)
    flat = flat - flat.mean(0)
    return flat @ flat.mT


def _squared_distances(gram: Tensor) -> Tensor:
    lengths = gram.diagonal()
    return lengths.unsqueeze(1) + lengths - 2 * gram


def _angles(gram: Tensor) -> Tensor:
    """Cosines (N, N, N) at the first sample between the directions to the second and to the third."""
    squares = _squared_distances(gram)
    same = squares <= 1e-6 * gram.diagonal().mean().detach()  # rounding: these are one point
    inverse = squares.masked_fill(same, 1).rsqrt().masked_fill(same, 0)
    lengths = gram.diagonal()
    inner = gram.unsqueeze(0) - gram.unsqueeze(2) - gram.unsqueeze(1) + lengths[:, None, None]
    return inner * inverse.unsqueeze(2) * inverse.unsqueeze(1)
