"""The networks that attack and are attacked: four small ones of different shapes, and EfficientNet-Lite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.efficientnet_lite import LITE
from vergence.robustness.classifiers import Classifier, Zoo, lite, lite_weights


def _conv(channels: int, side: int, classes: int) -> nn.Module:
    """Two 3x3 convolutions, each pooled."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, classes),
    )  # fmt: skip


def _strided(channels: int, side: int, classes: int) -> nn.Module:
    """Two 5x5 convolutions that take every second pixel."""
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
Name = Literal["conv", "strided", "dense", "wide", "lite0", "lite1", "lite2", "lite3", "lite4"]


@dataclass(frozen=True)
class Model:
    """Which networks there are."""

    networks: tuple[Name, ...] = ("lite0", "lite1", "lite2")
    """Each is a substitute in turn, and a target of the others."""
    weights: Literal["trained", "pretrained"] = "pretrained"
    """Trained here, or from the packages of the extra `pretrained`."""

    def __post_init__(self) -> None:
        if len(set(self.networks)) != len(self.networks) or len(self.networks) < 2:
            raise VergenceError(f"transfer needs two or more different networks, got {self.networks}")
        small = [name for name in self.networks if name in SMALL]
        if self.weights == "pretrained" and small:
            raise VergenceError(f"there are no pretrained weights of {small[0]!r}: train it (model.weights trained)")


def build(model: Model, channels: int, side: int, classes: int) -> Zoo:
    """The networks for pictures (channels, side, side)."""
    made: dict[str, nn.Module] = {}
    for name in model.networks:
        if name in LITE:
            made[name] = lite(name, classes)
        else:
            network = SMALL[name](channels, side, classes)
            made[name] = Classifier(network, side, (0.5,) * channels, (0.5,) * channels, channels, name=name)
    return Zoo(made)


def fill(zoo: Zoo) -> None:
    """Put the packages' weights in."""
    for name, classifier in zoo.items():
        weights: Mapping[str, Tensor] = lite_weights(name)
        if weights["network.fc.bias"].shape != classifier.state_dict()["network.fc.bias"].shape:
            raise VergenceError(f"the pretrained {name} knows {len(weights['network.fc.bias'])} classes, the data not")
        classifier.load_state_dict(dict(weights))
