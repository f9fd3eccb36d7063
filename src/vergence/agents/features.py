"""Features of regions of a picture, (n, C, 7, 7): RoIAlign on the maps of a fixed network or of fixed filters.

``channels`` needs no weights: colour and oriented gradients, the channels of Dollár et al. (2014). ``lite0`` is a map
of EfficientNet-Lite0 trained on ImageNet (extra ``pretrained``).
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.data.assets import LITE
from vergence.data.images import fitted
from vergence.nn.efficientnet_lite import LITE_MEAN, LITE_STD, EfficientNetLite, public_names
from vergence.ops.roi import roi_align
from vergence.reading.weights import load_archive

Backbone = Literal["channels", "lite0"]
SIDE = 7
"""Bins along a side of a region."""
ORIENTATIONS = 6
CHANNELS = {"channels": 4 + ORIENTATIONS, "lite0": 112}
LONGEST = {"channels": 128, "lite0": 512}
"""Pixels along the longer side of a picture, before its map is computed."""
_STRIDE16 = 11
"""Blocks of EfficientNet-Lite0 up to the last map of stride 16."""


def gradient_channels(images: Tensor) -> Tensor:
    """Colour (three channels), gradient magnitude, and the magnitude at each of six orientations: (B, 10, H, W) of
    images (B, 3, H, W) from 0 to 1."""
    grey = images.mean(1, keepdim=True)
    colour = torch.cat([grey, images[:, :1] - grey, images[:, 2:] - grey], 1)
    padded = F.pad(grey, (1, 1, 1, 1), "replicate")
    dx = (padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]) / 2
    dy = (padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]) / 2
    size = (dx.square() + dy.square()).sqrt()
    angle = torch.atan2(dy, dx).remainder(math.pi) / math.pi * ORIENTATIONS
    bins = torch.arange(ORIENTATIONS, device=images.device, dtype=images.dtype).view(1, -1, 1, 1)
    away = (angle - bins).abs()
    share = (1 - torch.minimum(away, ORIENTATIONS - away)).clamp(min=0)
    return torch.cat([2 * colour, 4 * size, 8 * size * share], 1)


@cache
def _lite0() -> EfficientNetLite:
    network = EfficientNetLite("lite0")
    network.load_state_dict(public_names(load_archive(LITE["efficientnet-lite0"].path())))
    return network.eval().requires_grad_(False)


def _stride16(images: Tensor) -> Tensor:
    network = _lite0().to(images.device)
    x = F.relu6(network.bn0(network.conv_stem((images - LITE_MEAN) / LITE_STD)))
    for block in network.blocks[:_STRIDE16]:
        x = block(x)
    return x


def region_features(picture: Tensor, boxes: Tensor, backbone: Backbone = "channels") -> Tensor:
    """Features (n, C, 7, 7) of boxes (n, 4), in pixels of a picture (3, H, W) of bytes or of floats from 0 to 1."""
    small = fitted(picture, LONGEST[backbone]).to(boxes.device)
    maps = gradient_channels(small[None]) if backbone == "channels" else _stride16(small[None])
    scale = boxes.new_tensor([maps.shape[-1] / picture.shape[-1], maps.shape[-2] / picture.shape[-2]]).repeat(2)
    own = torch.zeros(len(boxes), dtype=torch.long, device=boxes.device)
    return roi_align(maps, boxes * scale, own, SIDE, aligned=True).to(boxes.dtype)
