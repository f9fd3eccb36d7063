"""Networks of the paper: a backbone, a warp of its last map, and a head; or, for the rival, a deformable last layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.descriptor import LiteMap, ResNetMap
from vergence.nn.efficientnet_lite import EfficientNetLite
from vergence.nn.gem import GeM
from vergence.nn.vgg import VGG19
from vergence.nn.vtn import VolumetricTransformer
from vergence.nn.warping import AffineTransformer, SaliencySampler, Warp, deformed
from vergence.recognition.vtn.settings import STRIDES, ModelConfig

SMALL = (16, 32, 32)
"""Channels of the small backbone; the last are those of ``CHANNELS``."""
LAST = {"small": "6", "resnet50": "layer4.2.conv2", "vgg19": "34", "efficientnet-lite0": ""}
"""The last 3x3 convolution of a backbone, which can become deformable."""


class Network(nn.Module):
    """Pictures (B, 3, H, W) to logits (B, classes), or to descriptors (B, K) of unit length."""

    def __init__(self, backbone: nn.Module, warp: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone, self.warp, self.head = backbone, warp, head

    def forward(self, pictures: Tensor) -> Tensor:
        output: Tensor = self.head(self.warp(self.backbone(pictures)))
        return output

    def look(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The output, the map before the warp and after it, (B, K, h, w), and the fields (B, C, 2, h, w), in pixels of
        the map; None if the network has none."""
        u = self.backbone(pictures)
        v, fields = self.warp.warp(u) if isinstance(self.warp, Warp) else (u, None)
        return self.head(v), u, v, fields


class Descriptor(GeM):
    """The generalised mean of a map, with unit length."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(super().forward(x), dim=-1)


def build(model: ModelConfig, classes: int, size: int) -> Network:
    """A network for ``classes`` classes and pictures of ``size`` pixels, which only a flat head depends on."""
    backbone, head = _backbone(model, classes)
    if model.head == "flatten":
        side = -(-size // STRIDES[model.backbone])
        head = nn.Sequential(nn.Flatten(), nn.Linear(model.channels * side**2, classes))
    elif model.head == "gem":
        head = Descriptor()
    if model.warp == "deform":
        if not LAST[model.backbone]:
            raise VergenceError(
                f"{model.backbone} ends with depthwise convolutions: none of them can become deformable"
            )
        deformed(backbone, LAST[model.backbone])
    return Network(backbone, _warp(model), head)


def _warp(model: ModelConfig) -> nn.Module:
    if model.warp == "vtn":
        return VolumetricTransformer(
            model.channels, model.groups or model.channels, model.window, model.beta, model.widths, model.mixing,
            model.probability,
        )  # fmt: skip
    rivals = {"stn": AffineTransformer, "saliency": SaliencySampler}
    return rivals[model.warp](model.channels) if model.warp in rivals else nn.Identity()


def _backbone(model: ModelConfig, classes: int) -> tuple[nn.Module, nn.Module]:
    """A backbone that ends with its last map, and the rest of the network it comes from."""
    if model.backbone == "vgg19":
        vgg = VGG19(classes)
        *layers, pool = vgg.features
        return nn.Sequential(*layers), nn.Sequential(pool, vgg.avgpool, nn.Flatten(), *vgg.classifier)
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(model.channels, classes))
    if model.backbone == "resnet50":
        return ResNetMap(0, (3, 4, 6, 3), "bottleneck"), pooled
    if model.backbone == "efficientnet-lite0":
        return LiteMap(EfficientNetLite("lite0")), pooled
    layers = []
    for inputs, outputs, stride in zip((3, *SMALL), SMALL, (2, 2, 1), strict=False):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers), pooled


_VGG = {"classifier.0": "head.3", "classifier.3": "head.6"}
"""The layers of VGG's classifier that are kept: the last one is for the classes of ImageNet."""


def load_backbone(network: Network, state: Mapping[str, Any]) -> str:
    """Loads weights of ImageNet with torchvision's names (ResNet, VGG) or those of EfficientNet-Lite into the backbone,
    whose tensors must all be there and fit. Returns one sentence that says what is new."""
    own = network.state_dict()
    weights: dict[str, Any] = {}
    for name, value in state.items():
        first, _, rest = name.partition(".")
        layer, _, leaf = name.rpartition(".")
        if layer in _VGG and isinstance(network.backbone, nn.Sequential):
            weights[f"{_VGG[layer]}.{leaf}"] = value
        elif isinstance(network.backbone, LiteMap):
            weights[f"backbone.network.{name}"] = value
        else:
            weights[f"backbone.{rest if first == 'features' else name}"] = value
    kept = {}
    for name, tensor in own.items():
        value = weights.get(name)
        fits = isinstance(value, Tensor) and value.shape == tensor.shape
        if fits:
            kept[name] = value
        elif name.startswith("backbone.") and ".offset." not in name and not name.endswith("num_batches_tracked"):
            found = f"of shape {tuple(value.shape)}" if isinstance(value, Tensor) else "missing"
            raise VergenceError(
                f"the weights do not fit the backbone: {name.removeprefix('backbone.')!r} is {found}, expected "
                f"{tuple(tensor.shape)} under torchvision's names"
            )
    network.load_state_dict(own | kept)
    return "the backbone starts from ImageNet weights, the rest is new"
