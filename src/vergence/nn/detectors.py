"""Published two-stage detectors by name.

===============  ======================================================================================================
`resnet_fpn`     Faster or Mask R-CNN with a pyramid, as in torchvision and detectron2
`resnet_c4`      Faster R-CNN on the third stage of a ResNet, whose fourth is the head of regions
`vgg16_c5`       Faster R-CNN on VGG16
===============  ======================================================================================================

:mod:`vergence.nn.detector_weights` loads the weights of those projects into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from vergence.nn.fpn import PyramidTrunk
from vergence.nn.frozen import CaffeBottleneck, FrozenResNet
from vergence.nn.rcnn import RCNN, BoxHead, BoxPredictor, MaskHead, MaskPredictor, RoIHeads, StageHead
from vergence.nn.rpn import RPN
from vergence.nn.stages import Stage
from vergence.nn.vgg import WIDTHS

CLASSIC = (128.0, 256.0, 512.0)
"""Anchor sizes of the first detectors, on one map of stride 16."""
FIVE = (32.0, 64.0, 128.0, 256.0, 512.0)
"""Anchor sizes of later ones; with a pyramid, one for each level."""


class OneMap(nn.Module):
    """A trunk whose last map alone is used: ``body``."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.body(x)]


def resnet_fpn(
    classes: int,
    masks: bool = False,
    depths: Sequence[int] = (3, 4, 6, 3),
    family: Literal["torchvision", "detectron2"] = "torchvision",
) -> RCNN:
    """Faster R-CNN, or Mask R-CNN, with the pyramid of a ResNet (50 by default): 41,755,286 or 44,401,393 parameters
    for the 90 classes of torchvision's weights. ``family`` decides on the rounding of anchors and regions, and on the
    place of strides in the ResNet, as the weights of the one or the other expect them."""
    theirs = family == "detectron2"
    trunk = PyramidTrunk(FrozenResNet(depths, "strided-first" if theirs else "bottleneck"))
    rpn = RPN(256, [(size,) for size in FIVE], trunk.strides, style="exact" if theirs else "torchvision")
    mask = (MaskHead(256), MaskPredictor(256, classes)) if masks else None
    heads = RoIHeads(
        BoxHead(256 * 49), BoxPredictor(1024, classes), trunk.strides[:4], mask=mask, samples=0 if theirs else 2,
        aligned=theirs,
    )  # fmt: skip
    return RCNN(trunk, rpn, heads)


def resnet_c4(
    classes: int, depths: Sequence[int] = (3, 4, 23, 3), family: Literal["caffe", "detectron2"] = "caffe"
) -> RCNN:
    """Faster R-CNN on the third stage of a ResNet (101 by default); the fourth stage is the head of regions. ``caffe``
    is the form of the first code, with two scores for each of 9 anchors; ``detectron2`` has one for each of 15."""
    body = FrozenResNet(depths[:3], "caffe" if family == "caffe" else "strided-first")
    blocks = [CaffeBottleneck(2048 if number else 1024, 512, 1 if number else 2) for number in range(depths[3])]
    head, predictor = StageHead(Stage(blocks), 2048), BoxPredictor(2048, classes)
    if family == "caffe":
        return RCNN(OneMap(body), _first_rpn(1024), _first_heads(head, predictor, 128))
    rpn = RPN(1024, [FIVE], [16], style="exact", before=(12_000, 6_000), after=(2_000, 1_000))
    return RCNN(OneMap(body), rpn, RoIHeads(head, predictor, [16], size=14, samples=0, aligned=True))


def vgg16_c5(classes: int) -> RCNN:
    """Faster R-CNN on the last convolutions of VGG16: 137,078,239 parameters for the 20 classes of VOC."""
    layers: list[nn.Module] = []
    inputs = 3
    for stage in WIDTHS:
        for width in stage:
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    head = BoxHead(512 * 49, 4096, dropout=0.5)
    heads = _first_heads(head, BoxPredictor(4096, classes), 256)
    return RCNN(OneMap(nn.Sequential(*layers[:-1])), _first_rpn(512), heads)


def _first_rpn(inputs: int) -> RPN:
    """Proposals as in the first code of Faster R-CNN."""
    return RPN(inputs, [CLASSIC], [16], width=512, scores=2, style="caffe", before=(12_000, 6_000), after=(2_000, 300))


def _first_heads(head: nn.Module, predictor: BoxPredictor, sampled: int) -> RoIHeads:
    return RoIHeads(head, predictor, [16], sampled=sampled, least=0.0, overlap=0.3)
