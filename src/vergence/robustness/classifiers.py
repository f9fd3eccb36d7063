"""Classifiers for attacks: pictures in [0, 1] of any size to logits; single networks, ensembles, and zoos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean
from vergence.data import assets
from vergence.data.images import normalised
from vergence.nn.efficientnet_lite import LITE, LITE_MEAN, LITE_STD, EfficientNetLite, public_names
from vergence.reading.weights import load_state
from vergence.robustness.attacks import logits_of

ASSETS = {name.removeprefix("efficientnet-"): asset for name, asset in assets.LITE.items()}
"""Sources of ImageNet weights, by network."""


class Classifier(nn.Module):
    """A network with its preprocessing: takes pictures in [0, 1] and resizes and normalises them itself.

    ``Classifier(torchvision.models.resnet50(...), side=224, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))``
    """

    def __init__(
        self,
        network: nn.Module,
        side: int | None = None,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        channels: int = 3,
        resize: Literal["bilinear", "bicubic"] = "bilinear",
        name: str = "",
    ) -> None:
        super().__init__()
        self.network, self.side, self.channels, self.resize = network, side, channels, resize
        self.mean, self.std = tuple(mean), tuple(std)
        self.name = name or type(network).__name__

    def forward(self, images: Tensor) -> Tensor:
        """Images (N, 1 or 3, H, W) in [0, 1] to logits (N, classes); converts between grey and colour."""
        if images.shape[1] != self.channels:
            if {images.shape[1], self.channels} != {1, 3}:
                raise VergenceError(f"{self.name} takes {self.channels} channels, the pictures have {images.shape[1]}")
            images = images.mean(1, keepdim=True) if self.channels == 1 else images.expand(-1, 3, -1, -1)
        if self.side is not None and images.shape[-2:] != (self.side, self.side):
            images = F.interpolate(images, (self.side, self.side), mode=self.resize, antialias=True)
        return self.network(normalised(images, self.mean, self.std))


class Ensemble(nn.Module):
    """Several classifiers as one: the (weighted) mean of their logits, not of their losses."""

    def __init__(self, classifiers: Sequence[nn.Module], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        if not classifiers:
            raise VergenceError("an ensemble needs a classifier")
        self.weights = tuple(weights or [1 / len(classifiers)] * len(classifiers))
        if len(self.weights) != len(classifiers) or not all(w > 0 for w in self.weights):
            raise VergenceError(f"{len(classifiers)} classifiers need as many weights above 0, got {self.weights}")
        self.members = nn.ModuleList(classifiers)
        self.name = "+".join(getattr(c, "name", type(c).__name__) for c in classifiers)
        self.training = any(c.training for c in classifiers)

    def forward(self, images: Tensor) -> Tensor:
        answers = [logits_of(member, images) for member in self.members]
        if len({a.shape for a in answers}) > 1:
            raise VergenceError(f"{self.name} have different numbers of classes: {[a.shape[1] for a in answers]}")
        return torch.stack([w * a for w, a in zip(self.weights, answers, strict=True)]).sum(0)


class Zoo(nn.ModuleDict):
    """Classifiers by name; called with pictures, it returns the logits of each."""

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        return {name: classifier(images) for name, classifier in self.items()}

    def together(self, names: Sequence[str]) -> nn.Module:
        """The named classifier, or an ensemble if there are several names."""
        for name in names:
            if name not in self:
                raise VergenceError(f"no network {name!r}{did_you_mean(name, self)}")
        return self[names[0]] if len(names) == 1 else Ensemble([self[name] for name in names])


def lite(name: str, classes: int = 1000) -> Classifier:
    """EfficientNet-Lite without weights, for pictures in [0, 1] of any size."""
    network = EfficientNetLite(name, classes)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a tenth faster on a CPU
    return Classifier(network, LITE[name].side, (LITE_MEAN,) * 3, (LITE_STD,) * 3, resize="bicubic", name=name)


def lite_weights(name: str) -> Mapping[str, Tensor]:
    """ImageNet weights of :func:`lite`, from the package installed with the extra ``pretrained``."""
    if name not in ASSETS:
        raise VergenceError(f"no EfficientNet-Lite {name!r}{did_you_mean(name, ASSETS)}")
    weights = public_names(load_state(ASSETS[name].path()))
    return {f"network.{key}": tensor for key, tensor in weights.items()}


def pretrained(name: str) -> Classifier:
    """``pretrained("lite0")``: an ImageNet classifier with weights, in evaluation mode."""
    weights = lite_weights(name)
    classifier = lite(name)
    try:
        classifier.load_state_dict(dict(weights))
    except RuntimeError:
        raise VergenceError(f"the package {ASSETS[name].source} does not hold the weights of {name}") from None
    return classifier.eval()
