"""A network that turns a picture into a unit descriptor, at one scale or several (Radenović et al., 2019).

Feature maps, GeM, length one, a whitening layer, length one. ``resnet101_gem`` is the published retrieval network; any
module that gives a map of features can take its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean
from vergence.nn.efficientnet_lite import LITE_MEAN, LITE_STD, EfficientNetLite
from vergence.nn.gem import GeM
from vergence.nn.resnet import ResNet

SCALES = (1.0, math.sqrt(2), 1 / math.sqrt(2))
LEAST = 32
"""Pixels of the shorter side that a picture is never scaled below."""


class ResNetMap(ResNet):
    """A ResNet that gives its last map."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, C, H / 32, W / 32)."""
        return self.run_stages(self.stem(x))


class DescriptorNetwork(nn.Module):
    """Pictures (B, 3, H, W) to descriptors (B, D) of length one."""

    def __init__(self, backbone: nn.Module, channels: int, whiten: int = 0) -> None:
        """``backbone`` gives maps of so many channels; ``whiten`` is the length of a learned projection (0: none).

        ``mean`` and ``std`` are what to do to pictures in [0, 1] first; ``ready`` says that weights have been loaded.
        """
        super().__init__()
        self.backbone = backbone
        self.pool = GeM()
        self.whiten = nn.Linear(channels, whiten) if whiten else None
        self.dimension = whiten or channels
        self.mean, self.std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
        self.ready = False

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.normalize(self.pool(self.backbone(x)), dim=-1)
        return pooled if self.whiten is None else F.normalize(self.whiten(pooled), dim=-1)

    def set_whitening(self, projection: Tensor, offset: Tensor) -> None:
        """Whiten from now on, with what :func:`pca_whitening` or :func:`learned_whitening` found on descriptors of this
        network without it."""
        kept, channels = projection.shape
        made = nn.Linear(channels, kept, device=projection.device, dtype=projection.dtype)
        made.load_state_dict({"weight": projection, "bias": offset})
        own = self.pool.p
        self.whiten, self.dimension = made.to(own.device, own.dtype), kept


def multi_scale(
    network: Callable[[Tensor], Tensor], pictures: Tensor, scales: Sequence[float] = SCALES, power: float = 1.0
) -> Tensor:
    """Unit descriptors (B, D) of pictures (B, 3, H, W), the generalised mean over scales.

    ``power`` 1 is the plain mean, for whitened networks; those without whitening take GeM's p.
    """
    if not scales or min(scales) <= 0:
        raise VergenceError(f"pictures are described at scales above 0, got {tuple(scales)}")
    total: Tensor | None = None
    for scale in scales:
        # A small picture is not scaled to less than the network can take, however it is asked for.
        share = max(scale, LEAST / min(pictures.shape[-2:]))
        seen = pictures
        if share != 1:
            seen = F.interpolate(pictures, scale_factor=share, mode="bilinear", align_corners=False)
        found = network(seen)
        found = found if power == 1 else found.clamp(min=0).pow(power)
        total = found if total is None else total + found
    assert total is not None
    mean = total / len(scales)
    return F.normalize(mean if power == 1 else mean.pow(1 / power), dim=-1)


def resnet101_gem() -> DescriptorNetwork:
    """ResNet-101, GeM and whitening to 2048 numbers: 46,696,513 parameters."""
    return DescriptorNetwork(ResNetMap(0, (3, 4, 23, 3), "bottleneck"), 2048, whiten=2048)


def _resnet(depths: tuple[int, ...], block: Any) -> DescriptorNetwork:
    network = ResNetMap(0, depths, block)
    return DescriptorNetwork(network, network.outputs)


class LiteMap(nn.Module):
    """EfficientNet-Lite up to its last map of 1280 channels."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network: Any = network
        self.network.fc = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.network.bn0(self.network.conv_stem(x)))
        for block in self.network.blocks:
            x = block(x)
        return F.relu6(self.network.bn1(self.network.conv_head(x)))


def _lite(name: str) -> DescriptorNetwork:
    """EfficientNet-Lite; its classifier is cut off."""
    network = DescriptorNetwork(LiteMap(EfficientNetLite(name)), 1280)
    network.mean, network.std = (LITE_MEAN,) * 3, (LITE_STD,) * 3
    return network


BACKBONES: Mapping[str, Callable[[], DescriptorNetwork]] = {
    "resnet18": lambda: _resnet((2, 2, 2, 2), "basic"),
    "resnet50": lambda: _resnet((3, 4, 6, 3), "bottleneck"),
    "resnet101-gem": resnet101_gem,
    "efficientnet-lite0": lambda: _lite("lite0"),
    "efficientnet-lite1": lambda: _lite("lite1"),
    "efficientnet-lite2": lambda: _lite("lite2"),
}


def descriptor_network(name: str) -> DescriptorNetwork:
    """A network by name, with weights drawn at random."""
    if name not in BACKBONES:
        raise VergenceError(f"no backbone {name!r} for descriptors{did_you_mean(name, BACKBONES)}")
    return BACKBONES[name]().eval()


_CHILDREN = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")
"""The children of a ResNet in the order in which the authors' ``nn.Sequential`` numbers them."""


def published_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of the authors' (``features.4.0.conv1.weight``, ``pool.p``, ``whiten.weight``) under our names; one
    of torchvision's ResNet (``layer1.0.conv1.weight``) too, without its classifier."""
    found = {}
    for name, value in state.items():
        head, _, rest = name.partition(".")
        number, _, inner = rest.partition(".")
        if head == "features" and number.isdigit() and int(number) < len(_CHILDREN):
            found[f"backbone.{_CHILDREN[int(number)]}.{inner}"] = value
        elif head in _CHILDREN:
            found[f"backbone.{name}"] = value
        elif head != "fc":
            found[name] = value
    return found


def load_descriptor_weights(network: DescriptorNetwork, state: Mapping[str, Any], where: str) -> str:
    """Fill a network from a state dict under our names, the authors' or torchvision's; says what stayed as it was.

    All of the backbone must be there and fit; pooling and whitening may be missing (torchvision has none).
    """
    given, own = published_names(state), network.state_dict()
    for name, tensor in own.items():
        value = given.get(name)
        if value is None and (name.endswith("num_batches_tracked") or not name.startswith("backbone.")):
            continue
        if not isinstance(value, Tensor):
            raise VergenceError(f"{where} has no {name!r}: expected the weights of the backbone that was chosen")
        if value.shape != tensor.shape:
            raise VergenceError(f"{where} has {name!r} of shape {tuple(value.shape)}, expected {tuple(tensor.shape)}")
    fitting = {name: value for name, value in given.items() if name in own}
    network.load_state_dict(own | fitting)
    network.ready = True
    new = sorted(set(own) - set(fitting) - {n for n in own if n.endswith("num_batches_tracked")})
    return f"descriptors come from {where}" + (f"; not in it: {', '.join(new)}" if new else "")
