"""Gradient-sign attacks on image classifiers, as one loop of parts that combine freely.

One iteration, in this order: transform the input (DI), compute the gradient of the loss, smooth it (TI), accumulate it
(MI), take its sign, make a step, add a system's correction (such as PI's projection), and clip to the budget::

    attack = SignAttack(eps=16 / 255, momentum=1.0)  # MI-FGSM
    adversarial = attack(classifier, images, labels)

Pictures are in [0, 1]. A classifier is any callable that returns logits for them, with its normalisation inside; see
:class:`vergence.robustness.classifiers.Classifier`. Attacks are untargeted and send no queries to the target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops.smooth import gaussian_smooth
from vergence.robustness.settings import Resize, check_diversity, check_momentum, check_smoothing, check_steps

Logits = Callable[[Tensor], Tensor]
"""Pictures (N, C, H, W) in [0, 1] to logits (N, classes): usually an ``nn.Module``."""


@dataclass(frozen=True)
class Diversity:
    """DI (Eq. 5): with probability ``chance``, the batch is enlarged to a random size and randomly zero-padded."""

    chance: float = 0.7
    grow: float = 330 / 299
    """Side of the padded picture, as a multiple of the original."""
    resize: Resize = "nearest"
    """Interpolation: nearest as in the public TensorFlow code, bilinear as in its PyTorch version."""

    def __post_init__(self) -> None:
        check_diversity(self.chance, self.grow)

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Images (N, C, H, W) unchanged, or (N, C, round(grow H), round(grow W)). One random draw per batch."""
        device = generator.device if generator is not None else None
        chance, size, top, left = torch.rand(4, generator=generator, device=device).tolist()
        if chance >= self.chance:
            return images
        whole = [max(round(self.grow * side), side + 1) for side in images.shape[-2:]]
        sides = [side + int(size * (most - side)) for side, most in zip(images.shape[-2:], whole, strict=True)]
        if self.resize == "nearest":
            larger = F.interpolate(images, sides, mode="nearest")
        else:
            larger = F.interpolate(images, sides, mode="bilinear", align_corners=True)
        rows, columns = (most - side for most, side in zip(whole, sides, strict=True))
        above, before = int(top * rows), int(left * columns)
        return F.pad(larger, (before, columns - before, above, rows - above))


class Reuse(Protocol):
    """A correction that a system adds to each step; ``start`` is called once per attack, its result once per step."""

    def start(self, attack: SignAttack) -> Callable[[Tensor], Tensor]:
        """Returns a function from a step (N, C, H, W) to its correction; both in units of ``eps``."""


@dataclass(frozen=True)
class SignAttack:
    """A gradient-sign attack within ``eps`` of each pixel. The defaults are I-FGSM (Eq. 3)."""

    eps: float
    """The budget: no pixel changes by more (16 / 255 in the paper)."""
    steps: int = 10
    """Iterations T; one is FGSM."""
    beta: float = 1.0
    """Step size, as a multiple of ``eps / steps``."""
    diversity: Diversity | None = None
    """DI: input diversity."""
    smoothing: int = 0
    """TI (Eq. 6): side of the Gaussian kernel that smooths the gradient (0: none)."""
    momentum: float | None = None
    """MI (Eq. 4): decay of earlier gradients."""
    reuse: Reuse | None = None
    """Correction added to each step."""

    def __post_init__(self) -> None:
        check_steps(self.eps, self.steps, self.beta)
        if self.smoothing:
            check_smoothing(self.smoothing)
        if self.momentum is not None:
            check_momentum(self.momentum)

    def __call__(
        self, classifier: Logits, images: Tensor, labels: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Adversarial versions of images (N, C, H, W) in [0, 1] with labels (N,), of the same dtype."""
        _check(classifier, images, labels)
        with torch.inference_mode(False), torch.no_grad():
            images, labels = images.clone(), labels.clone()
            lower, upper = bounds(images, self.eps)
            # Steps are too small to add to a pixel in half precision.
            wide = torch.promote_types(images.dtype, torch.float32)
            adversarial, least, most = images.to(wide), lower.to(wide), upper.to(wide)
            add = self.reuse.start(self) if self.reuse is not None else None
            memory: Tensor | None = None
            for _ in range(self.steps):
                gradient = self._gradient(classifier, adversarial.to(images.dtype), labels, generator).to(wide)
                if self.smoothing:
                    gradient = gaussian_smooth(gradient, self.smoothing)
                if self.momentum is not None:
                    memory = gradient = remembered(gradient, memory, self.momentum)
                step = gradient.sign().mul_(self.beta / self.steps)
                if add is not None:
                    step = step + add(step)
                adversarial = torch.clamp(adversarial + self.eps * step, least, most)
            return adversarial.to(images.dtype)

    def _gradient(
        self, classifier: Logits, images: Tensor, labels: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        with torch.enable_grad():
            seen = images.detach().requires_grad_()
            inputs = seen if self.diversity is None else self.diversity(seen, generator)
            logits = logits_of(classifier, inputs)
            if not logits.requires_grad:
                raise VergenceError(f"{_name(classifier)} has no gradient: its logits do not depend on the pictures")
            if not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
                raise VergenceError(
                    f"a label is outside 0 to {logits.shape[1] - 1}, the classes of {_name(classifier)}: "
                    f"they go from {int(labels.min())} to {int(labels.max())}"
                )
            # The sum, so that a picture's gradient does not depend on the batch size.
            loss = F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, seen)
        if not gradient.isfinite().all():
            bad = int((~gradient.isfinite()).flatten(1).any(1).nonzero()[0])
            raise VergenceError(f"the gradient of {_name(classifier)} is not finite at picture {bad} of the batch")
        return gradient


def fgsm(eps: float) -> SignAttack:
    """FGSM (Eq. 2): one step of the whole budget."""
    return SignAttack(eps, steps=1)


def i_fgsm(eps: float, steps: int = 10, beta: float = 1.0) -> SignAttack:
    """I-FGSM (Eq. 3); with ``beta`` above 1, the control with PI's larger steps but without its projection."""
    return SignAttack(eps, steps, beta)


def mi_fgsm(eps: float, steps: int = 10, momentum: float = 1.0) -> SignAttack:
    """MI-FGSM (Eq. 4)."""
    return SignAttack(eps, steps, momentum=momentum)


def di_fgsm(eps: float, steps: int = 10, diversity: Diversity = Diversity()) -> SignAttack:
    """DI-FGSM (Eq. 5)."""
    return SignAttack(eps, steps, diversity=diversity)


def ti_fgsm(eps: float, smoothing: int = 15) -> SignAttack:
    """TI-FGSM (Eq. 6): one step."""
    return SignAttack(eps, steps=1, smoothing=smoothing)


def ti_bim(eps: float, steps: int = 10, smoothing: int = 15) -> SignAttack:
    """TI-BIM: TI-FGSM iterated."""
    return SignAttack(eps, steps, smoothing=smoothing)


def remembered(gradient: Tensor, memory: Tensor | None, momentum: float) -> Tensor:
    """Eq. 4: each picture's gradient over its L1 norm, added to ``momentum`` times the accumulated gradient."""
    norm = gradient.abs().sum((1, 2, 3), keepdim=True)
    share = gradient / norm.clamp(min=torch.finfo(gradient.dtype).tiny)
    return share if memory is None else momentum * memory + share


def bounds(images: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The smallest and the largest value that each pixel of ``images`` may take, inside [0, 1].

    Rounded inwards: in any float type, no value between them is farther than ``eps`` from the pixel.
    """
    exact = images.detach().to("cpu" if images.device.type == "mps" else images.device, torch.float64)
    least, most = ((exact + sign * eps).clamp(0, 1).to(images.dtype) for sign in (-1, 1))
    # Non-negative floats have the order of the integers with the same bits.
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[images.element_size()]
    least = (least.view(bits) + (exact - least.double() > eps)).view(images.dtype)
    most = (most.view(bits) - (most.double() - exact > eps).to(bits)).view(images.dtype)
    return least.to(images.device), most.to(images.device)


def quantised(adversarial: Tensor, images: Tensor, eps: float) -> Tensor:
    """Adversarial pictures as bytes whose distance from ``images`` (bytes) is still within ``eps``.

    Rounding alone may exceed the budget if ``255 eps`` is not an integer.
    """
    if images.dtype != torch.uint8:
        raise VergenceError(f"adversarial pictures are compared with uint8 pictures, got {images.dtype}")
    most = int(255 * eps + 1e-6)
    clean = images.to(torch.int16)
    near = (255 * adversarial.detach().float()).round().to(torch.int16)
    return torch.clamp(near, clean - most, clean + most).clamp(0, 255).to(torch.uint8)


def logits_of(classifier: Logits, images: Tensor) -> Tensor:
    """The output of a classifier; an error if it is not logits (N, classes)."""
    logits = classifier(images)
    if not isinstance(logits, Tensor):
        raise VergenceError(
            f"{_name(classifier)} returned a {type(logits).__name__}, expected logits (N, classes): wrap it so that it "
            "returns one tensor"
        )
    if logits.ndim != 2 or len(logits) != len(images):
        raise VergenceError(
            f"{_name(classifier)} returned a tensor of shape {tuple(logits.shape)} for {len(images)} pictures, "
            "expected (N, classes)"
        )
    return logits


def _check(classifier: Logits, images: Tensor, labels: Tensor) -> None:
    if images.ndim != 4 or not images.is_floating_point() or not images.numel():
        raise VergenceError(f"pictures are floats (N, C, H, W), got {images.dtype} {tuple(images.shape)}")
    if not (images.min() >= 0 and images.max() <= 1):
        raise VergenceError(f"pictures are in [0, 1], got values from {images.min():.9g} to {images.max():.9g}")
    if labels.shape != images.shape[:1] or labels.dtype != torch.int64:
        raise VergenceError(
            f"{len(images)} pictures need labels of shape ({len(images)},) and type int64, got {tuple(labels.shape)} "
            f"and {labels.dtype}"
        )
    if isinstance(classifier, nn.Module) and classifier.training:
        raise VergenceError(f"{_name(classifier)} is in training mode, where outputs depend on the batch: call .eval()")


def _name(classifier: Logits) -> str:
    return f"the classifier {getattr(classifier, 'name', '') or type(classifier).__name__}"
