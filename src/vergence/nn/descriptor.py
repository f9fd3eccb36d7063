"""Networks that turn an image into an L2-normalised descriptor, at one scale or several (Radenović et al., 2019).

Feature maps, GeM, L2 normalisation, a whitening layer, L2 normalisation. ``resnet101_gem`` is the published retrieval
network; any module that outputs a feature map can replace its backbone.
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
"""The least shorter side, in pixels, that images are scaled to."""


class ResNetMap(ResNet):
    """A ResNet that returns its last feature map."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, C, H / 32, W / 32)."""
        return self.run_stages(self.stem(x))


class DescriptorNetwork(nn.Module):
    """Images (B, 3, H, W) to L2-normalised descriptors (B, D)."""

    def __init__(self, backbone: nn.Module, channels: int, whiten: int = 0) -> None:
        """``channels`` is the number of channels of the backbone's maps; ``whiten`` the output size of a learned
        projection (0: none).

        ``mean`` and ``std`` normalise images in [0, 1] for the backbone; ``ready`` is true once weights are loaded.
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
        """Use the result of :func:`pca_whitening` or :func:`learned_whitening` on this network's unwhitened
        descriptors."""
        kept, channels = projection.shape
        layer = nn.Linear(channels, kept, device=projection.device, dtype=projection.dtype)
        layer.load_state_dict({"weight": projection, "bias": offset})
        like = self.pool.p
        self.whiten, self.dimension = layer.to(like.device, like.dtype), kept


def multi_scale(
    network: Callable[[Tensor], Tensor], pictures: Tensor, scales: Sequence[float] = SCALES, power: float = 1.0
) -> Tensor:
    """L2-normalised descriptors (B, D) of images (B, 3, H, W), the generalised mean over scales.

    ``power`` 1 is the plain mean, for whitened networks; without whitening, use GeM's p.
    """
    if not scales or min(scales) <= 0:
        raise VergenceError(f"pictures are described at scales above 0, got {tuple(scales)}")
    total: Tensor | None = None
    for scale in scales:
        # Small images are never scaled below what the network can take.
        share = max(scale, LEAST / min(pictures.shape[-2:]))
        resized = pictures
        if share != 1:
            resized = F.interpolate(pictures, scale_factor=share, mode="bilinear", align_corners=False)
        descriptors = network(resized)
        descriptors = descriptors if power == 1 else descriptors.clamp(min=0).pow(power)
        total = descriptors if total is None else total + descriptors
    assert total is not None
    mean = total / len(scales)
    return F.normalize(mean if power == 1 else mean.pow(1 / power), dim=-1)


def resnet101_gem() -> DescriptorNetwork:
    """ResNet-101, GeM and whitening to 2048 dimensions: 46,696,513 parameters."""
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
    """EfficientNet-Lite without its classifier."""
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
    """A network by name, with random weights."""
    if name not in BACKBONES:
        raise VergenceError(f"no backbone {name!r} for descriptors{did_you_mean(name, BACKBONES)}")
    return BACKBONES[name]().eval()


_CHILDREN = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")
"""The children of a ResNet in the order in which the authors' ``nn.Sequential`` numbers them."""


def published_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of the authors (``features.4.0.conv1.weight``, ``pool.p``, ``whiten.weight``) or of torchvision's
    ResNet (``layer1.0.conv1.weight``, its classifier dropped) under our names."""
    renamed = {}
    for name, value in state.items():
        head, _, rest = name.partition(".")
        number, _, inner = rest.partition(".")
        if head == "features" and number.isdigit() and int(number) < len(_CHILDREN):
            renamed[f"backbone.{_CHILDREN[int(number)]}.{inner}"] = value
        elif head in _CHILDREN:
            renamed[f"backbone.{name}"] = value
        elif head != "fc":
            renamed[name] = value
    return renamed


def load_descriptor_weights(network: DescriptorNetwork, state: Mapping[str, Any], where: str) -> str:
    """Load a state dict under our names, the authors' or torchvision's; returns a sentence on what was not in it.

    The backbone must be complete and fit; pooling and whitening may be missing (torchvision has none).
    """
    weights, own = published_names(state), network.state_dict()
    for name, tensor in own.items():
        value = weights.get(name)
        if value is None and (name.endswith("num_batches_tracked") or not name.startswith("backbone.")):
            continue
        if not isinstance(value, Tensor):
            raise VergenceError(f"{where} has no {name!r}: expected the weights of the chosen backbone")
        if value.shape != tensor.shape:
            raise VergenceError(f"{where} has {name!r} of shape {tuple(value.shape)}, expected {tuple(tensor.shape)}")
    fitting = {name: value for name, value in weights.items() if name in own}
    network.load_state_dict(own | fitting)
    network.ready = True
    new = sorted(set(own) - set(fitting) - {n for n in own if n.endswith("num_batches_tracked")})
    return f"descriptors come from {where}" + (f"; not in it: {', '.join(new)}" if new else "")
