"""Gradient leaking: the diagnosis of any classifier, the transform of training pictures (Alg. 1), and the networks.

::

    from vergence.ops.pca import principal
    from vergence.robustness.gradleak.model import diagnose

    basis = principal(training_images.flatten(1).split(500), rank=300)
    leak = diagnose(network.eval(), images, basis)      # any nn.Module: pictures in [0, 1] to logits
    leak.mean_curve[299], leak.sizes.median()           # ᾱ_300 of the gradients (Eq. 3), L2 norms of perturbations
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.densenet import DenseNet
from vergence.nn.mahalanobis import MahalanobisHead
from vergence.nn.preresnet import PreResNet
from vergence.nn.wide_resnet import WideResNet
from vergence.ops.pca import Basis, shares
from vergence.robustness.attacks import Logits
from vergence.robustness.classifiers import Classifier
from vergence.robustness.gradleak.settings import Config, Mode, ModelConfig
from vergence.robustness.minimal import Attack, DeepFool
from vergence.robustness.whitebox import UNIT, Bounds, check, checked_logits, input_gradients, name_of

# The transform --------------------------------------------------------------------------------------------------------


def projected(images: Tensor, basis: Basis, kept: int) -> Tensor:
    """Pictures (N, ...) in the affine space of the mean and the first ``kept`` components (Sect. 4.1)."""
    return _onto(images, basis.mean.to(images), basis.vectors[:, :kept].to(images))


def _onto(images: Tensor, mean: Tensor, vectors: Tensor) -> Tensor:
    inside = (images.flatten(1) - mean) @ vectors
    return (inside @ vectors.mT + mean).view_as(images)


def transformed(
    images: Tensor, basis: Basis, mode: Mode, kept: int, noisy: int, scale: float, generator: torch.Generator
) -> Tensor:
    """Training pictures (N, ...) as Algorithm 1 changes them, with fresh noise; test pictures stay as they are.

    ``pca`` is the projection alone. ``noise`` adds noise in the next ``noisy`` components, ``scale`` times the standard
    deviation that the data has there (lines 3 to 5). ``isotropic`` is the control: noise of the same energy in all
    directions, without projection. Nothing is clipped, which would leave the subspace.
    """
    if mode == "ord":
        return images
    variances = scale**2 * basis.variances[kept : kept + noisy].to(images)
    if mode == "isotropic":
        return images + (variances.sum() / basis.dimensions).sqrt() * _normal(images.shape, images, generator)
    flat = projected(images, basis, kept)
    if mode == "pca":
        return flat
    vectors = basis.vectors[:, kept : kept + noisy].to(images)
    drawn = _normal((len(images), len(variances)), images, generator)
    return flat + ((variances.sqrt() * drawn) @ vectors.mT).view_as(images)


def _normal(shape: torch.Size | tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device, dtype=like.dtype).to(like.device)


# The diagnosis --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leak:
    """How much of a classifier's gradients leaves the data, and how small the perturbations are that fool it."""

    gradients: Tensor
    """Of the loss of each label by its picture, (N, C, H, W)."""
    changes: Tensor
    """Perturbations that change the answer, (N, C, H, W); zero where there is none."""
    sizes: Tensor
    """Their L2 norms, (N,): 0 where the answer is wrong already, infinite if none was found, NaN without an attack."""
    curves: Tensor
    """α_d of each gradient (Eq. 2) for d = 1, ..., rank, (N, rank); NaN where the gradient is zero."""
    change_curves: Tensor
    """α_d of each perturbation; NaN where there is none."""
    right: Tensor
    """Whether the classifier's answer is the label, (N,)."""

    @cached_property
    def norms(self) -> Tensor:
        """The L2 norm of each gradient, (N,)."""
        return self.gradients.flatten(1).norm(dim=1)

    @property
    def mean_curve(self) -> Tensor:
        """ᾱ_d (Eq. 3), (rank,): the mean over pictures whose gradient is not zero."""
        return self.curves.nanmean(0)

    @property
    def mean_change_curve(self) -> Tensor:
        """The same for perturbations."""
        return self.change_curves.nanmean(0)

    @property
    def fooled(self) -> Tensor:
        """The sizes of perturbations of pictures that were classified correctly, as far as any were found."""
        return self.sizes[self.right & self.sizes.isfinite()]


def diagnose(
    classifier: Logits,
    images: Tensor,
    basis: Basis,
    labels: Tensor | None = None,
    attack: Attack | None = DeepFool(),
    batch: int = 64,
    bounds: Bounds = UNIT,
) -> Leak:
    """Diagnose any classifier on pictures (N, C, H, W); without labels, its own answers are the labels."""
    refuse_other_size(images, basis)
    parts: list[tuple[Tensor, ...]] = []
    known = torch.zeros(len(images), dtype=torch.int64, device=images.device) if labels is None else labels
    for part, truth in zip(images.split(batch), known.split(batch), strict=True):
        check(classifier, part, truth, bounds)
        answers = _answers(classifier, part, truth)
        truth = answers if labels is None else truth
        gradients = input_gradients(classifier, part, truth, bounds=bounds)
        if attack is None:
            changes, sizes = torch.zeros_like(part), torch.full_like(part[:, 0, 0, 0], torch.nan)
        else:
            found = attack(classifier, part, truth)
            changes, sizes = found.adversarial - part, found.sizes
        parts.append((gradients, changes, sizes, answers == truth))
    gradients, changes, sizes, right = (torch.cat(column) for column in zip(*parts, strict=True))
    vectors = basis.vectors.to(images)
    curves, change_curves = (shares(each.flatten(1), vectors) for each in (gradients, changes))
    return Leak(gradients, changes, sizes, curves, change_curves, right)


def _answers(classifier: Logits, images: Tensor, labels: Tensor) -> Tensor:
    """The predicted classes; an error that names the pictures' size if the classifier takes another one."""
    try:
        with torch.no_grad():
            return checked_logits(classifier, images, labels).argmax(1)
    except RuntimeError as error:
        shape = " x ".join(map(str, images.shape[1:]))
        reason = str(error).strip().splitlines()[0]
        raise VergenceError(f"{name_of(classifier)} cannot take pictures of {shape}: {reason}") from error


def refuse_other_size(images: Tensor, basis: Basis) -> None:
    """Raise an error for pictures that are not of the size that a basis was made from."""
    if not len(images):
        raise VergenceError("there are no pictures to diagnose a classifier on")
    if images[0].numel() != basis.dimensions:
        shape = " x ".join(map(str, images.shape[1:]))
        raise VergenceError(
            f"the basis has {basis.dimensions:,} dimensions, but pictures of {shape} have {images[0].numel():,}: it is "
            "made from pictures of the classifier's own size"
        )


def determination(x: Tensor, y: Tensor) -> float:
    """R² of a straight line through (x, y), as in Table 1; NaN if x or y does not vary."""
    x, y = x.double() - x.double().mean(), y.double() - y.double().mean()
    spread = float(x.square().sum() * y.square().sum())
    return float(x @ y) ** 2 / spread if spread > 0 else float("nan")


# The networks ---------------------------------------------------------------------------------------------------------


class SmallNet(nn.Sequential):
    """Four convolutions, two of them with stride 2, and a global average: pictures to features."""

    def __init__(self, channels: int, width: int) -> None:
        sizes = ((channels, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2), (4 * width, 4 * width, 1))
        layers = [layer for size in sizes for layer in _layer(*size)]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.outputs = 4 * width
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a quarter faster on a CPU


def _layer(inputs: int, outputs: int, stride: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


class MLP(nn.Sequential):
    """Two hidden layers, the last of which are the features."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.outputs = width


def backbone(config: ModelConfig, shape: tuple[int, int, int]) -> nn.Module:
    """A network from pictures to features, with the number of these in ``outputs``."""
    channels = shape[0]
    if config.network == "densenet":
        return DenseNet(0, channels=channels)
    if config.network == "wrn":
        return WideResNet(0, channels=channels)
    if config.network == "small":
        return SmallNet(channels, config.width)
    if config.network == "mlp":
        return MLP(shape[0] * shape[1] * shape[2], config.width)
    network = PreResNet(1, (5, 5, 5), head="plain")
    if channels != 3:
        raise VergenceError(f"resnet32 takes colour pictures, got {channels} channels")
    network.outputs, network.fc = network.fc.in_features, nn.Identity()  # type: ignore[assignment]
    return network


class Stored(nn.Module):
    """A basis among the weights, so that a weights file alone can be diagnosed; empty until it is filled."""

    mean: Tensor
    vectors: Tensor
    variances: Tensor
    total: Tensor
    count: Tensor

    def __init__(self, dimensions: int, rank: int) -> None:
        super().__init__()
        sizes = {"mean": (dimensions,), "vectors": (dimensions, rank), "variances": (rank,), "total": ()}
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def fill(self, basis: Basis) -> None:
        self.mean.copy_(basis.mean)
        self.vectors.copy_(basis.vectors)
        self.variances.copy_(basis.variances)
        self.total.fill_(basis.total)
        self.count.fill_(basis.count)

    def basis(self) -> Basis:
        return Basis(self.mean, self.vectors, self.variances, float(self.total), int(self.count))


class Network(Classifier):
    """A classifier of pictures in [0, 1], with the principal components of its training pictures.

    Calling it classifies pictures as they are; ``kept`` above 0 projects them first, the control that defends at test
    time.
    """

    def __init__(self, config: Config, classes: int) -> None:
        model, shape = config.model, config.data.shape
        features = backbone(model, shape)
        outputs: int = features.outputs  # type: ignore[assignment]
        head: nn.Module = nn.Linear(outputs, classes)
        if model.head == "mahalanobis":
            head = MahalanobisHead(outputs, classes, model.features, model.length)
        super().__init__(
            nn.Sequential(features, head),
            config.data.side if config.data.pictures else None,
            (config.data.mean,), (config.data.std,), shape[0], name=model.network,
        )  # fmt: skip
        dimensions, rank = shape[0] * shape[1] * shape[2], config.transform.rank
        if rank > dimensions:
            raise VergenceError(
                f"{config.transform.wide} + {config.transform.noisy} components are more than the {dimensions:,} "
                "numbers of a picture"
            )
        self.stored = Stored(dimensions, rank)
        self.kept = config.transform.kept if config.transform.test else 0

    def forward(self, images: Tensor) -> Tensor:
        """Images (N, C, H, W) to logits (N, classes)."""
        if self.kept:
            if images[0].numel() != len(self.stored.mean):
                raise VergenceError(
                    f"the components are of {len(self.stored.mean):,} numbers, a picture has {images[0].numel():,}"
                )
            images = _onto(images, self.stored.mean.to(images), self.stored.vectors[:, : self.kept].to(images))
        return super().forward(images)


def build(config: Config, classes: int) -> Network:
    return Network(config, classes)
