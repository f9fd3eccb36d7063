"""MCAR: a Faster R-CNN, a head for the classes of a picture, and a discriminator of domains that is told them.

In use only the detector runs. In training a source batch has all losses, a target batch those of the discriminator and
of consistency (Eq. 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vergence.detection.adaptation import (
    SOURCE,
    TARGET,
    ConditionalDiscriminator,
    GlobalDiscriminator,
    LocalDiscriminator,
    MultiLabelHead,
    PlaceDiscriminator,
    RegionDiscriminator,
    consistency,
    focal_domain,
    image_chances,
    multi_label,
    place_and_region,
    present_classes,
    squared_domain,
)
from vergence.detection.data import Batch
from vergence.detection.dualmultilabel.settings import ModelConfig, Weights
from vergence.nn.detectors import OneMap, resnet_c4, resnet_fpn, vgg16_c5
from vergence.nn.frozen import FrozenResNet
from vergence.nn.rcnn import RCNN, BoxHead, BoxPredictor, Detections, Regions, RoIHeads, regions_of
from vergence.nn.rpn import RPN
from vergence.ops.reversal import reversed_gradient

SMALL = (32, 64, 96, 96)
"""Channels of the small network; strides are 2, 2, 2 and 1."""
PIXELS: dict[str, tuple[bool, float, tuple[float, ...], tuple[float, ...]]] = {
    "plain": (False, 1.0, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    "caffe": (True, 255.0, (102.9801, 115.9465, 122.7717), (1.0, 1.0, 1.0)),
    "torchvision": (False, 1.0, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "detectron2": (True, 255.0, (103.53, 116.28, 123.675), (1.0, 1.0, 1.0)),
}
"""By family: whether channels are blue, green, red; the value of white; means and deviations in that order."""


class Seen(NamedTuple):
    """What the network says of the pictures of one domain."""

    early: Tensor
    """(B, C', H', W')."""
    features: Tensor
    """(B, C, H, W)."""
    labels: Tensor | None
    """Logits (B, K) of the classes of pictures."""
    vectors: Tensor | None
    """(R, d), of regions."""
    logits: Tensor | None
    """(R, K + 1)."""
    regions: Regions | None


class MCAR(nn.Module):
    """Detector, multi-label head and discriminators; the last two as the config asks for them."""

    def __init__(self, config: ModelConfig, classes: int) -> None:
        super().__init__()
        self.config, self.classes = config, classes
        self.detector = detector_of(config, classes)
        channels, early, width = self._channels(), self._early_channels(), config.width
        self.labels = MultiLabelHead(channels, classes, width, config.separate) if config.multi else None
        told = classes if config.condition != "none" else 0
        heads: dict[str, nn.Module] = {}
        if config.adversary == "conditional":
            heads["image"] = ConditionalDiscriminator(channels, told, width)
        elif config.adversary == "strong-weak":
            heads["image"] = GlobalDiscriminator(channels, (width, max(width // 4, 1), max(width // 4, 1)))
            heads["place"] = LocalDiscriminator(early, (max(width // 2, 1), max(width // 4, 1)))
        elif config.adversary == "da-faster":
            heads["place"] = PlaceDiscriminator(channels, width)
            heads["region"] = RegionDiscriminator(_outputs(self.detector), 2 * width)
        self.adversary = nn.ModuleDict(heads)

    def _channels(self) -> int:
        conv = self.detector.rpn.head.conv[0][0]  # type: ignore[index]
        return int(conv.in_channels)

    def _early_channels(self) -> int:
        if self.config.detector == "small":
            return SMALL[1]
        return 256  # of the third stage of VGG16, of the first of a ResNet, and of a pyramid

    # Features ---------------------------------------------------------------------------------------------------------

    def normalised(self, pictures: Tensor) -> Tensor:
        """Pictures (B, 3, H, W) from 0 to 1 as the detector's family expects them."""
        reverse, white, mean, std = PIXELS[self.config.family]
        pictures = pictures.flip(1) if reverse else pictures
        return (pictures * white - pictures.new_tensor(mean).view(3, 1, 1)) / pictures.new_tensor(std).view(3, 1, 1)

    def prepared(self, pictures: Tensor, sizes: Tensor) -> Tensor:
        """Normalised pictures, zero outside of their sizes (B, 2)."""
        rows, columns = (torch.arange(side, device=pictures.device) for side in pictures.shape[-2:])
        inside = (rows < sizes[:, :1]).unsqueeze(2) & (columns < sizes[:, 1:]).unsqueeze(1)
        return self.normalised(pictures) * inside.unsqueeze(1)

    def features(self, pictures: Tensor) -> tuple[list[Tensor], Tensor]:
        """The maps of the detector, and an earlier one."""
        backbone = self.detector.backbone
        body = getattr(backbone, "body", None)
        if isinstance(backbone, OneMap) and isinstance(body, FrozenResNet):
            maps = body.maps(pictures)
            return [maps[-1]], maps[0]
        if isinstance(backbone, OneMap) and isinstance(body, nn.Sequential):
            cut = 2 if self.config.detector == "small" else 14  # VGG16: after the second convolution of its third stage
            early = body[:cut](pictures)
            return [body[cut:](early)], early
        maps = backbone(pictures)
        return maps, maps[0]

    def forward(self, pictures: Tensor, boxes: Tensor) -> list[Tensor]:
        """The network without choices that depend on its numbers: pictures (B, 3, H, W) from 0 to 1 and boxes
        (B, R, 4) to log odds and codes of anchors, logits and codes of the boxes, and logits of classes of pictures."""
        maps, _ = self.features(self.normalised(pictures))
        scored = self.detector.rpn(maps)
        regions = regions_of(list(boxes.to(maps[0].dtype)))
        results = [scored.logits, scored.codes, *self.detector.roi_heads(maps, regions)]
        return results if self.labels is None else [*results, self.labels(_middle(maps))]

    def detect(self, pictures: Tensor, sizes: Tensor) -> list[Detections]:
        """The objects of pictures (B, 3, H, W) from 0 to 1 with sizes (B, 2)."""
        return self.detector.detect(self.prepared(pictures, sizes), sizes)

    # Training ---------------------------------------------------------------------------------------------------------

    def look(
        self, batch: Batch, weights: Weights, trained: bool, generator: torch.Generator | None
    ) -> tuple[dict[str, Tensor], Seen]:
        """The detector's losses of a batch with boxes (``trained``), and what it says of the pictures. Target pictures
        are run as far as the losses need it."""
        maps, early = self.features(self.prepared(batch.pictures, batch.sizes))
        features, losses = _middle(maps), dict[str, Tensor]()
        labels = self.labels(features) if self.labels is not None else None
        both = weights.consistency > 0 and labels is not None
        told = self.config.adversary == "conditional" and self.config.condition == "p+q"
        if not (trained or both or told or self.config.adversary == "da-faster"):
            return losses, Seen(early, features, labels, None, None, None)
        rpn, heads = self.detector.rpn, self.detector.roi_heads
        scored = rpn(maps)
        if trained:
            losses = rpn.losses(scored, batch.targets, batch.sizes, generator)
            regions = heads.sample(rpn.proposals(scored, batch.sizes), batch.targets, generator)
        else:
            regions = regions_of(rpn.proposals(scored, batch.sizes, self.config.regions))
        vectors = heads.box_head(heads.pooled(maps, regions.boxes, regions.picture, heads.size))
        logits, codes = heads.box_predictor(vectors)
        if trained:
            losses |= heads.losses(logits, codes, regions)
        return losses, Seen(early, features, labels, vectors, logits, regions)

    def losses(
        self, source: Batch, target: Batch | None, weights: Weights, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Eq. 7: the detector's losses of a source batch and, with a target batch, those of adaptation."""
        losses, own = self.look(source, weights, True, generator)
        if self.labels is not None and own.labels is not None and weights.labels:
            wanted = torch.stack([present_classes(each.labels, self.classes) for each in source.targets])
            losses["labels"] = weights.labels * multi_label(own.labels, wanted.to(own.labels))
        if target is None:
            return losses
        _, other = self.look(target, weights, False, generator)
        if self.labels is not None and weights.consistency:
            losses["consistency"] = weights.consistency * (_consistency(own) + _consistency(other))
        if len(self.adversary) and weights.adversary:
            terms = [self._adversary(seen, domain, weights) for seen, domain in ((own, SOURCE), (other, TARGET))]
            losses["adversary"] = weights.adversary * (terms[0] + terms[1]) / 2
        return losses

    def _adversary(self, seen: Seen, domain: int, weights: Weights) -> Tensor:
        """The discriminators' loss of one domain, with gradients reversed at the features."""
        features = reversed_gradient(seen.features, weights.reversal)
        if self.config.adversary == "conditional":
            logits = self.adversary["image"](features, self.condition(seen))
            return focal_domain(logits, domain, weights.gamma)
        if self.config.adversary == "strong-weak":
            places = self.adversary["place"](reversed_gradient(seen.early, weights.reversal))
            image = focal_domain(self.adversary["image"](features), domain, weights.gamma)
            return image + squared_domain(places, domain)
        assert seen.vectors is not None
        assert seen.regions is not None
        regions = self.adversary["region"](reversed_gradient(seen.vectors, weights.reversal))
        return sum(place_and_region(self.adversary["place"](features), regions, seen.regions.picture, domain),
                   features.new_zeros(()))  # fmt: skip

    def condition(self, seen: Seen) -> Tensor | None:
        """What the discriminator is told: p, softmax(p + q) or nothing."""
        if self.config.condition == "none" or seen.labels is None:
            return None
        told = seen.labels.sigmoid()
        if self.config.condition == "p+q":
            told = (told + _chances(seen)).softmax(1)
        return told.detach() if self.config.detach else told


def _chances(seen: Seen) -> Tensor:
    """q: the probabilities (B, K) of the classes of pictures by their regions."""
    assert seen.logits is not None
    assert seen.regions is not None
    return image_chances(seen.logits, seen.regions.picture, len(seen.features))


def _consistency(seen: Seen) -> Tensor:
    assert seen.labels is not None
    return consistency(seen.labels.sigmoid(), _chances(seen))


def _middle(maps: Sequence[Tensor]) -> Tensor:
    """The map that is adapted: the only one, or the one of stride 16 of a pyramid."""
    return maps[len(maps) // 2]


def _outputs(detector: RCNN) -> int:
    return int(detector.roi_heads.box_predictor.cls_score.in_features)


# Detectors ------------------------------------------------------------------------------------------------------------


def detector_of(config: ModelConfig, classes: int) -> RCNN:
    """The detector of a config; early layers are fixed as in the code that the paper follows."""
    if config.detector == "small":
        return small(classes)
    if config.detector == "vgg16":
        model = vgg16_c5(classes)
        _freeze(model.backbone.body[:10])  # type: ignore[index]  # its first two stages
        return model
    build = resnet_fpn if config.detector == "resnet-fpn" else resnet_c4
    plain = "torchvision" if config.detector == "resnet-fpn" else "caffe"
    theirs: Any = "detectron2" if config.family == "detectron2" else plain
    model = build(classes, depths=config.depths, family=theirs)
    _freeze(model.backbone.body.conv1)  # type: ignore[union-attr]
    return model


def _freeze(module: Any) -> None:
    module.requires_grad_(False)


def small(classes: int) -> RCNN:
    """A Faster R-CNN of half a million parameters for pictures of about 64 x 80 pixels."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in zip((3, *SMALL[:-1]), SMALL, (2, 2, 2, 1), strict=True):
        layers.append(
            nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(8, outputs), nn.ReLU())
        )
    rpn = RPN(SMALL[-1], [(14.0, 28.0)], [8], style="exact", before=(120, 120), after=(48, 32), sampled=64)
    head, predictor = BoxHead(SMALL[-1] * 25, 128), BoxPredictor(128, classes)
    heads = RoIHeads(head, predictor, [8], size=5, sampled=32, share=0.5, least=0.01, overlap=0.3)
    return RCNN(OneMap(nn.Sequential(*layers)), rpn, heads)
