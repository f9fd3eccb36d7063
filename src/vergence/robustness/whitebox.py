"""What white-box attacks share: checks of their input, margins, and gradients of a loss by the picture.

A classifier is any callable from pictures (N, C, H, W) to logits (N, classes), with its normalisation inside, such as
an ``nn.Module`` in evaluation mode. ``bounds`` are the least and the largest value of a pixel; None: without limits.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.robustness.attacks import Logits, logits_of

Bounds = tuple[float, float] | None
UNIT: Bounds = (0.0, 1.0)
Loss = Literal["ce", "cw"]
"""Cross-entropy of the label, or the largest other logit minus the label's (the loss of Carlini and Wagner)."""


def name_of(classifier: Logits) -> str:
    return f"the classifier {getattr(classifier, 'name', '') or type(classifier).__name__}"


def check(classifier: Logits, images: Tensor, labels: Tensor, bounds: Bounds = UNIT) -> None:
    """Raises an error for pictures, labels or a classifier that cannot be attacked."""
    if images.ndim < 2 or not images.is_floating_point() or not images.numel():
        raise VergenceError(f"pictures are floats (N, C, H, W), got {images.dtype} {tuple(images.shape)}")
    if not images.isfinite().all():
        raise VergenceError("a picture has values that are not finite numbers")
    if bounds is not None and not (images.min() >= bounds[0] and images.max() <= bounds[1]):
        raise VergenceError(
            f"pictures are from {bounds[0]:g} to {bounds[1]:g}, got values from {images.min():.6g} to "
            f"{images.max():.6g}"
        )
    if labels.shape != images.shape[:1] or labels.dtype != torch.int64:
        raise VergenceError(
            f"{len(images)} pictures need labels of shape ({len(images)},) and type int64, got {tuple(labels.shape)} "
            f"and {labels.dtype}"
        )
    if isinstance(classifier, nn.Module) and classifier.training:
        raise VergenceError(
            f"{name_of(classifier)} is in training mode, where outputs depend on the batch: use .eval()"
        )


def checked_logits(classifier: Logits, images: Tensor, labels: Tensor) -> Tensor:
    """Logits in single precision at least; an error if they are not finite or a label is not among the classes."""
    logits = logits_of(classifier, images)
    if logits.shape[1] < 2:
        raise VergenceError(f"{name_of(classifier)} has {logits.shape[1]} class, an attack needs two or more")
    if not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise VergenceError(
            f"a label is outside 0 to {logits.shape[1] - 1}, the classes of {name_of(classifier)}: they go from "
            f"{int(labels.min())} to {int(labels.max())}"
        )
    if not logits.isfinite().all():
        raise VergenceError(f"{name_of(classifier)} returned logits that are not finite numbers")
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit of each label minus the largest other one, (N,): at most 0 where the prediction is wrong."""
    own = logits.gather(1, labels[:, None])[:, 0]
    return own - logits.scatter(1, labels[:, None], -torch.inf).amax(1)


def wrong(logits: Tensor, labels: Tensor) -> Tensor:
    """Whether another class is predicted, (N,). A tie goes to the class that argmax gives."""
    return logits.argmax(1) != labels


def losses(logits: Tensor, labels: Tensor, loss: Loss) -> Tensor:
    """The loss of each picture, (N,), which an untargeted attack increases."""
    return F.cross_entropy(logits, labels, reduction="none") if loss == "ce" else -margins(logits, labels)


def differentiated(classifier: Logits, total: Tensor, images: Tensor, keep: bool = False) -> Tensor:
    """The gradient of a sum over pictures by them; an error where it does not exist or is not finite."""
    if not total.requires_grad:
        raise VergenceError(f"{name_of(classifier)} has no gradient: its logits do not depend on the pictures")
    (gradient,) = torch.autograd.grad(total, images, retain_graph=keep, allow_unused=True)
    if gradient is None:
        raise VergenceError(f"{name_of(classifier)} has no gradient: its logits do not depend on the pictures")
    if not gradient.sum().isfinite() and not gradient.isfinite().all():  # one pass over the gradient, usually
        bad = int((~gradient.isfinite()).flatten(1).any(1).nonzero()[0])
        raise VergenceError(f"the gradient of {name_of(classifier)} is not finite at picture {bad} of the batch")
    return gradient


def input_gradients(
    classifier: Logits, images: Tensor, labels: Tensor, loss: Loss = "ce", bounds: Bounds = UNIT
) -> Tensor:
    """The gradient of each picture's own loss by that picture, (N, C, H, W)."""
    check(classifier, images, labels, bounds)
    with torch.inference_mode(False), torch.enable_grad():
        seen, labels = images.detach().clone().requires_grad_(), labels.clone()
        # The sum, so that a picture's gradient does not depend on the batch size.
        total = losses(checked_logits(classifier, seen, labels), labels, loss).sum()
        return differentiated(classifier, total, seen)
