"""The patch-wise attack, which projects noise beyond the budget to neighbouring pixels (Eqs. 10-12), and the networks
that serve as substitutes and targets: four small ones, and EfficientNet-Lite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.efficientnet_lite import LITE
from vergence.ops.smooth import surroundings
from vergence.robustness.attacks import Diversity, SignAttack
from vergence.robustness.classifiers import Classifier, Zoo, lite, lite_weights
from vergence.robustness.patchwise.settings import Attack, ModelConfig, Remember, check_projection


@dataclass(frozen=True)
class Projection:
    """PI: noise beyond a pixel's budget moves its neighbours instead."""

    kernel: int = 3
    """Side of the neighbourhood k_w: 3 against usual networks, 7 against adversarially trained ensembles, 21 against
    denoising ones."""
    gamma: float | None = None
    """How far the neighbours move, in the units of the budget, [0, 1]; none: one step size."""
    remember: Remember = "all"
    """Whether the cumulative noise includes steps and projections, or steps alone."""

    def __post_init__(self) -> None:
        check_projection(self.kernel, self.gamma)

    def start(self, attack: SignAttack) -> Callable[[Tensor], Tensor]:
        """Starts an attack with zero cumulative noise."""
        stride = attack.beta / attack.steps
        reach = stride if self.gamma is None else self.gamma / attack.eps
        total: Tensor | None = None

        def project(step: Tensor) -> Tensor:
            # In units of eps, the noise of the paper's settings consists of integers, halves and eighths: sums are
            # exact, and what cancels is zero. For other settings, possible rounding errors are thresholded away, since
            # the sign would turn any residue into a whole step.
            nonlocal total
            dust = torch.finfo(step.dtype).eps * attack.steps**2 * (stride + reach)
            total = step if total is None else total + step
            over = F.threshold(total.abs() - 1, dust, 0)  # beyond the budget
            cut = over * total.sign()  # Eq. 10
            around = surroundings(cut, self.kernel)  # Eq. 12 without its factor, which does not change the sign
            projected = reach * F.hardshrink(around, self.kernel * dust).sign()
            if self.remember == "all":
                total = total + projected
            return projected

        return project


def project_kernel(size: int) -> Tensor:
    """Eq. 12: (size, size), zero in the centre, constant elsewhere, with sum 1; float64."""
    kernel = torch.full((size, size), 1 / (size**2 - 1), dtype=torch.float64)
    kernel[size // 2, size // 2] = 0
    return kernel


def pi_fgsm(
    eps: float,
    steps: int = 10,
    beta: float = 10.0,
    projection: Projection = Projection(),
    *,
    diversity: Diversity | None = None,
    smoothing: int = 0,
    momentum: float | None = None,
) -> SignAttack:
    """PI-FGSM (Alg. 1) and its combinations: with ``momentum=1.0`` MPI, with ``diversity=Diversity()`` DPI, with
    ``smoothing=15`` TPI, and so on."""
    return SignAttack(eps, steps, beta, diversity, smoothing, momentum, projection)


def attack_of(settings: Attack) -> SignAttack:
    """Builds the attack described by the settings."""
    return SignAttack(
        settings.eps / 255,
        settings.steps,
        settings.beta,
        Diversity(settings.chance, settings.grow, settings.resize) if "di" in settings.parts else None,
        settings.smoothing if "ti" in settings.parts else 0,
        settings.momentum if "mi" in settings.parts else None,
        Projection(settings.kernel, settings.projected, settings.remember) if "pi" in settings.parts else None,
    )


def patch_map(noise: Tensor, eps: float, full: Literal["black", "white"] = "black") -> Tensor:
    """Eq. 7 as bytes: ``|noise| * 256 / eps``. At the whole budget that is 256, which overflows to 0: black in the
    paper's figures; ``white`` clips it to 255."""
    values = (noise.detach().abs().float() * 256 / eps + 1e-2).to(torch.int64)
    return (values.remainder(256) if full == "black" else values.clamp(max=255)).to(torch.uint8)


# The networks ---------------------------------------------------------------------------------------------------------


def _conv(channels: int, side: int, classes: int) -> nn.Module:
    """Two 3x3 convolutions, each pooled."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, classes),
    )  # fmt: skip


def _strided(channels: int, side: int, classes: int) -> nn.Module:
    """Two 5x5 convolutions of stride 2."""
    last = (side + 3) // 4
    return nn.Sequential(
        nn.Conv2d(channels, 24, 5, 2, 2), nn.ReLU(),
        nn.Conv2d(24, 48, 5, 2, 2), nn.ReLU(),
        nn.Flatten(), nn.Linear(48 * last**2, classes),
    )  # fmt: skip


def _dense(channels: int, side: int, classes: int) -> nn.Module:
    """One hidden layer, no convolution."""
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * side**2, 256), nn.ReLU(), nn.Linear(256, classes))


def _wide(channels: int, side: int, classes: int) -> nn.Module:
    """One 7x7 and two 3x3 convolutions, averaged over the picture's quarters."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 7, padding=3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, classes),
    )  # fmt: skip


SMALL: Mapping[str, Callable[[int, int, int], nn.Module]] = {
    "conv": _conv,
    "strided": _strided,
    "dense": _dense,
    "wide": _wide,
}


def build(model: ModelConfig, channels: int, side: int, classes: int) -> Zoo:
    """Builds the networks for pictures (channels, side, side)."""
    networks: dict[str, nn.Module] = {}
    for name in model.networks:
        if name in LITE:
            networks[name] = lite(name, classes)
        else:
            network = SMALL[name](channels, side, classes)
            networks[name] = Classifier(network, side, (0.5,) * channels, (0.5,) * channels, channels, name=name)
    return Zoo(networks)


def fill(zoo: Zoo) -> None:
    """Loads the ImageNet weights."""
    for name, classifier in zoo.items():
        weights: Mapping[str, Tensor] = lite_weights(name)
        if weights["network.fc.bias"].shape != classifier.state_dict()["network.fc.bias"].shape:
            raise VergenceError(
                f"the pretrained {name} has {len(weights['network.fc.bias'])} classes, the data does not"
            )
        classifier.load_state_dict(dict(weights))
