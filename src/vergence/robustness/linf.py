"""L-infinity PGD, and training against it: adversarial training (Madry et al., 2018), TRADES (Zhang et al., 2019)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.robustness.attacks import Logits
from vergence.robustness.whitebox import UNIT, Bounds, Loss, check, checked_logits, differentiated, losses, wrong

Objective = Callable[[Tensor], Tensor]
"""From logits (N, classes) to what is increased, (N,)."""


@dataclass(frozen=True)
class PGD:
    """Projected gradient ascent by the sign of the gradient, no pixel farther than ``eps`` from its own."""

    eps: float
    steps: int = 10
    step: float = 2 / 255
    loss: Loss = "cw"
    targeted: bool = False
    """Towards a random other class, instead of away from the right one."""
    start: bool = True
    """From a random place within the budget."""
    bounds: Bounds = UNIT

    def __post_init__(self) -> None:
        if not (self.eps > 0 and self.step > 0) or self.steps < 1:
            raise VergenceError(
                f"PGD has a budget and a step above 0 and 1 or more steps, got {self.eps:g}, {self.step:g} and "
                f"{self.steps}"
            )

    def __call__(
        self, classifier: Logits, images: Tensor, labels: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Pictures (N, C, H, W) as near to being misclassified as the steps reached."""
        check(classifier, images, labels, self.bounds)
        with torch.inference_mode(False), torch.no_grad():
            images, labels = images.clone(), labels.clone()
            aims, sign = labels, 1.0
            if self.targeted:
                classes = checked_logits(classifier, images[:1], labels[:1]).shape[1]
                aims, sign = other_classes(labels, classes, generator), -1.0
            place = _noise(images, generator).mul_(self.eps) if self.start else torch.zeros_like(images)
            return ascend(
                lambda seen: sign * losses(checked_logits(classifier, seen, labels), aims, self.loss),
                classifier, images, place, self.eps, self.step, self.steps, self.bounds,
            )  # fmt: skip

    def accuracy(
        self, classifier: Logits, images: Tensor, labels: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Whether each picture is still classified as its label after the attack, (N,)."""
        attacked = self(classifier, images, labels, generator)
        return ~wrong(checked_logits(classifier, attacked, labels), labels)


def ascend(
    objective: Objective,
    classifier: Logits,
    images: Tensor,
    change: Tensor,
    eps: float,
    step: float,
    steps: int,
    bounds: Bounds = UNIT,
) -> Tensor:
    """Sign steps that increase ``objective(pictures)``, (N,), from ``images + change`` on."""
    reached = _kept(images, images + change, eps, bounds)
    for _ in range(steps):
        with torch.enable_grad():
            seen = reached.detach().requires_grad_()
            slope = differentiated(classifier, objective(seen).sum(), seen)
        reached = _kept(images, reached + step * slope.sign(), eps, bounds)
    return reached.detach()


def other_classes(labels: Tensor, classes: int, generator: torch.Generator | None = None) -> Tensor:
    """A random class for each picture that is not its own."""
    device = generator.device if generator is not None else labels.device
    shift = torch.randint(1, classes, labels.shape, generator=generator, device=device)
    return (labels + shift.to(labels.device)) % classes


def _noise(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform from -1 to 1."""
    device = generator.device if generator is not None else images.device
    drawn = torch.rand(images.shape, generator=generator, device=device, dtype=images.dtype)
    return drawn.to(images.device).mul_(2).sub_(1)


def _kept(images: Tensor, reached: Tensor, eps: float, bounds: Bounds) -> Tensor:
    near = torch.clamp(reached, images - eps, images + eps)
    return near if bounds is None else near.clamp(*bounds)


# Training -------------------------------------------------------------------------------------------------------------


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode while an attack runs, so that it does not move the statistics of normalisation layers."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@dataclass(frozen=True)
class Defence:
    """Adversarial pictures for a training step."""

    eps: float = 8 / 255
    steps: int = 10
    step: float = 2 / 255

    def attacked(
        self, model: nn.Module, images: Tensor, labels: Tensor, generator: torch.Generator, targeted: bool = False
    ) -> Tensor:
        """Adversarial training: PGD with cross-entropy, untargeted or towards random classes."""
        pgd = PGD(self.eps, self.steps, self.step, "ce", targeted)
        with evaluating(model):
            return pgd(model, images, labels, generator)

    def trades(self, model: nn.Module, images: Tensor, generator: torch.Generator) -> Tensor:
        """TRADES: pictures whose predictions differ most from those of the clean ones."""
        with evaluating(model), torch.no_grad():
            clean = model(images).softmax(1)
            device = generator.device
            near = torch.randn(images.shape, generator=generator, device=device, dtype=images.dtype).to(images.device)
            return ascend(
                lambda seen: divergence(model(seen), clean),
                model,
                images,
                0.001 * near,
                self.eps,
                self.step,
                self.steps,
            )


def divergence(logits: Tensor, clean: Tensor) -> Tensor:
    """The Kullback-Leibler divergence of predictions from clean probabilities, (N,)."""
    return F.kl_div(logits.log_softmax(1), clean, reduction="none").sum(1)
