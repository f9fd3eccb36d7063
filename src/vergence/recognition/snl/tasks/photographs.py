"""Photographs without trained weights: a Gaussian nonlocal block without parameters on features of a network trained on
ImageNet."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Point
from vergence.core.errors import VergenceError
from vergence.data.assets import LITE
from vergence.data.images import normalised, resized, scaled
from vergence.nn.efficientnet_lite import LITE_MEAN, LITE_STD, EfficientNetLite, InvertedBottleneck, public_names
from vergence.nn.probe import caught, cells
from vergence.ops.affinity import SoftmaxAffinity
from vergence.reading.weights import load_state
from vergence.recognition.snl.predict import Shares

PLACE = "gaussian"
"""Name of the block's place among attention maps."""
LONGEST = 640
"""Longer side of the network input in pixels; the whole picture is seen."""
SIDE = 224
"""Side of the input that the classifier was trained with."""
STRIDE, CHANNELS = 16, 112
"""Of the stage whose features are compared, the last at this resolution."""
SHARPNESS = 6.0
"""Factor of the cosine in the exponent: at 6, a cosine lower by 0.4 has a tenth of the weight."""


def ready_network() -> EfficientNetLite:
    """EfficientNet-Lite0 with the weights of the extra ``pretrained``."""
    network = EfficientNetLite("lite0")
    network.load_state_dict(public_names(load_state(LITE["efficientnet-lite0"].path())))
    return network.eval()


def shown_heat(heat: Tensor) -> Tensor:
    """A map (h, w) to draw: cut at its 99th percentile, since a point attends to itself far more than to others."""
    return heat.clamp(max=float(heat.quantile(0.99)))


def looked(network: EfficientNetLite, picture: Tensor, shares: Shares) -> tuple[Tensor, Tensor]:
    """Logits (1000,) of a picture (3, H, W), and the attention (P, h, w) of points at a sixteenth of the resolution:
    rows of ``softmax(s · cos(x_i, x_j))`` over features of the whole picture, whose mean is removed."""
    device = next(network.parameters()).device
    longest = max(picture.shape[-2:])
    sides = [max(round(side * LONGEST / longest / STRIDE), 1) * STRIDE for side in picture.shape[-2:]]
    blocks = [block for block in network.blocks if isinstance(block, InvertedBottleneck)]
    last = [block for block in blocks if block.project_conv.out_channels == CHANNELS][-1]
    _, seen = caught({PLACE: last}, lambda: network(_input(picture, *sides).to(device)))
    x = seen[PLACE]
    tokens = x.flatten(2).mT
    tokens = SHARPNESS**0.5 * F.normalize(tokens - tokens.mean(1, keepdim=True), dim=-1)
    maps = SoftmaxAffinity(tokens, tokens).rows(cells(x, shares))[0].unflatten(1, x.shape[2:])
    return network(_input(picture, SIDE, SIDE).to(device))[0].float().cpu(), maps.float().cpu()


def _input(picture: Tensor, height: int, width: int) -> Tensor:
    return normalised(resized(scaled(picture), height, width), (LITE_MEAN,) * 3, (LITE_STD,) * 3)[None]


def whole_shares(picture: Tensor, points: Sequence[Point]) -> Shares:
    """Points of a picture (3, H, W), given in its pixels, as fractions of its width and height; by default three."""
    height, width = picture.shape[-2:]
    for point in points:
        if not (0 <= point.x < width and 0 <= point.y < height):
            raise VergenceError(
                f"the point {point.x:g},{point.y:g} is outside the picture of {width} x {height} pixels"
            )
    return [(p.x / width, p.y / height) for p in points] or [(0.25, 0.5), (0.5, 0.5), (0.75, 0.5)]
