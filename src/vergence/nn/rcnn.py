"""Faster R-CNN and Mask R-CNN (Ren et al., 2015; He et al., 2017) in parts that other methods can be built from.

The stages are public: features, proposals, sampled regions, what the head says of regions, losses, detections. Names of
parameters are torchvision's, so that its weights load as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.rpn import RPN, SMOOTH, Target
from vergence.ops.box_targets import balanced, matched
from vergence.ops.boxes import decoded, encoded, nms, pairwise_iou
from vergence.ops.roi import roi_align

CODE_WEIGHTS = (10.0, 10.0, 5.0, 5.0)
"""Factors of the codes of boxes, which makes their errors about as large as those of classes."""


class Regions(NamedTuple):
    """Boxes of several pictures, with targets in training."""

    boxes: Tensor
    """(R, 4)."""
    picture: Tensor
    """(R,): the picture of each."""
    labels: Tensor
    """(R,): 0 for the background; empty without targets."""
    aims: Tensor
    """(R, 4): codes of the boxes they belong to."""
    match: Tensor
    """(R,): the object of its picture that each belongs to, -1 for the background."""


class Detections(NamedTuple):
    """What is found in one picture, best first."""

    boxes: Tensor
    """(D, 4): left, top, right, bottom in pixels."""
    scores: Tensor
    """(D,)."""
    labels: Tensor
    """(D,), from 1."""
    masks: Tensor | None = None
    """(D, M, M): probabilities inside each box."""


def regions_of(boxes: Sequence[Tensor]) -> Regions:
    """Boxes of each picture as regions without targets."""
    picture = torch.cat([torch.full((len(own),), n, device=own.device) for n, own in enumerate(boxes)])
    none = picture.new_zeros(0)
    joined = torch.cat(list(boxes))
    return Regions(joined, picture, none, joined.new_zeros(0, 4), none)


class BoxHead(nn.Module):
    """Regions (R, C, S, S) through two fully connected layers, (R, width), each with dropout."""

    def __init__(self, inputs: int, width: int = 1024, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc6, self.fc7 = nn.Linear(inputs, width), nn.Linear(width, width)
        self.outputs, self.dropout = width, dropout

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.fc6, self.fc7):
            x = F.dropout(F.relu(layer(x.flatten(1))), self.dropout, self.training)
        return x


class StageHead(nn.Module):
    """Regions through the last stage of a ResNet, averaged: the head of a detector without a pyramid (C4)."""

    def __init__(self, stage: nn.Module, outputs: int) -> None:
        super().__init__()
        self.layer4 = stage
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.layer4(x).mean((2, 3))


class BoxPredictor(nn.Module):
    """Logits of classes (R, classes + 1), background first, and codes of a box for each, (R, classes + 1, 4)."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.cls_score = nn.Linear(inputs, classes + 1)
        self.bbox_pred = nn.Linear(inputs, 4 * (classes + 1))
        for layer, deviation in ((self.cls_score, 0.01), (self.bbox_pred, 0.001)):
            nn.init.normal_(layer.weight, std=deviation)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.cls_score(x), self.bbox_pred(x).unflatten(1, (-1, 4))


class MaskHead(nn.Sequential):
    """Four 3x3 convolutions of 256 channels."""

    def __init__(self, inputs: int, width: int = 256, depth: int = 4) -> None:
        layers = []
        for number in range(depth):
            layers.append(nn.Sequential(nn.Conv2d(width if number else inputs, width, 3, padding=1), nn.ReLU()))
        super().__init__(*layers)
        _kaiming(self)


class MaskPredictor(nn.Module):
    """Masks of twice the size, one for each class: (R, classes + 1, 2 S, 2 S)."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.conv5_mask = nn.ConvTranspose2d(inputs, inputs, 2, 2)
        self.mask_fcn_logits = nn.Conv2d(inputs, classes + 1, 1)
        _kaiming(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.mask_fcn_logits(F.relu(self.conv5_mask(x)))


def _kaiming(module: nn.Module) -> None:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


class RoIHeads(nn.Module):
    """Classes, boxes and masks of regions.

    ``strides`` are those of the maps that regions are taken from; with several, large regions come from coarse ones.
    ``share`` of the ``sampled`` regions of a picture are objects, those that overlap one by ``match`` or more.
    """

    def __init__(
        self,
        head: nn.Module,
        predictor: BoxPredictor,
        strides: Sequence[int],
        *,
        size: int = 7,
        samples: int = 2,
        aligned: bool = False,
        match: float = 0.5,
        sampled: int = 512,
        share: float = 0.25,
        least: float = 0.05,
        overlap: float = 0.5,
        most: int = 100,
        mask: tuple[nn.Module, nn.Module] | None = None,
        mask_size: int = 14,
    ) -> None:
        super().__init__()
        self.box_head, self.box_predictor = head, predictor
        self.mask_head: nn.Module | None = mask[0] if mask else None
        self.mask_predictor: nn.Module | None = mask[1] if mask else None
        self.strides, self.size, self.mask_size = tuple(strides), size, mask_size
        self.samples, self.aligned = samples, aligned
        self.match, self.sampled, self.share = match, sampled, share
        self.least, self.overlap, self.most = least, overlap, most

    # Regions ----------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def sample(
        self, proposals: Sequence[Tensor], targets: Sequence[Target], generator: torch.Generator | None = None
    ) -> Regions:
        """Regions to train on: of each picture, randomly chosen proposals and ground-truth boxes."""
        parts = [
            self._sampled(number, proposed, target, generator)
            for number, (proposed, target) in enumerate(zip(proposals, targets, strict=True))
        ]
        return Regions(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _sampled(self, number: int, proposed: Tensor, target: Target, generator: torch.Generator | None) -> Regions:
        truth = target.boxes.to(proposed)
        every = torch.cat([proposed, truth])
        match = matched(pairwise_iou(truth, every), self.match, self.match)
        things, background = balanced(match, self.sampled, self.share, generator)
        chosen = torch.cat([things, background])
        boxes, own = every[chosen], match[things]
        labels, aims = boxes.new_zeros(len(boxes), dtype=torch.long), torch.zeros_like(boxes)
        labels[: len(things)] = target.labels[own]
        aims[: len(things)] = encoded(truth[own], boxes[: len(things)], CODE_WEIGHTS)
        picture = torch.full((len(boxes),), number, device=boxes.device)
        return Regions(boxes, picture, labels, aims, match[chosen])

    def pooled(self, maps: Sequence[Tensor], boxes: Tensor, picture: Tensor, size: int) -> Tensor:
        """Features (R, C, size, size) of boxes, from the map whose stride fits a box's size."""
        if len(self.strides) == 1:
            return self._aligned(maps[0], boxes, picture, size, 0)
        sides = ((boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(1)).sqrt()
        first = round(math.log2(self.strides[0]))
        level = (4 + torch.log2(sides / 224 + 1e-8) + 1e-6).floor().long() - first  # 224 pixels belong to stride 16
        level = level.clamp(0, len(self.strides) - 1)
        result = maps[0].new_zeros(len(boxes), maps[0].shape[1], size, size)
        for number in range(len(self.strides)):
            own = (level == number).nonzero().squeeze(1)
            if len(own):
                result = result.index_copy(0, own, self._aligned(maps[number], boxes[own], picture[own], size, number))
        return result

    def _aligned(self, features: Tensor, boxes: Tensor, picture: Tensor, size: int, number: int) -> Tensor:
        return roi_align(features, boxes, picture, size, 1 / self.strides[number], self.samples, self.aligned)

    def forward(self, maps: Sequence[Tensor], regions: Regions) -> tuple[Tensor, Tensor]:
        """Logits (R, classes + 1) and codes (R, classes + 1, 4) of regions."""
        return self.box_predictor(self.box_head(self.pooled(maps, regions.boxes, regions.picture, self.size)))

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(self, logits: Tensor, codes: Tensor, regions: Regions) -> dict[str, Tensor]:
        """Losses of classes and, for objects, of the box of their class."""
        things = (regions.labels > 0).nonzero().squeeze(1)
        own = codes[things, regions.labels[things]]
        boxes = F.smooth_l1_loss(own, regions.aims[things].to(own), beta=SMOOTH, reduction="sum")
        return {"class": F.cross_entropy(logits, regions.labels), "box": boxes / max(len(regions.labels), 1)}

    def mask_losses(self, maps: Sequence[Tensor], regions: Regions, targets: Sequence[Target]) -> dict[str, Tensor]:
        """The loss of masks of objects, each in its own box."""
        things = (regions.labels > 0).nonzero().squeeze(1)
        if not len(things):
            return {"mask": sum(map_.sum() for map_ in maps) * 0.0}  # type: ignore[dict-item]
        boxes, picture = regions.boxes[things], regions.picture[things]
        logits = self._masks(maps, boxes, picture)[torch.arange(len(things)), regions.labels[things]]
        wanted = torch.zeros_like(logits)
        for number, target in enumerate(targets):
            here = picture == number
            assert target.masks is not None
            if here.any():
                planes = target.masks.to(logits).unsqueeze(1)  # (G, 1, H, W)
                aim = roi_align(planes, boxes[here], regions.match[things][here], logits.shape[-1], 1.0, 2, True)
                wanted[here] = (aim.squeeze(1) >= 0.5).to(logits)
        return {"mask": F.binary_cross_entropy_with_logits(logits, wanted)}

    def _masks(self, maps: Sequence[Tensor], boxes: Tensor, picture: Tensor) -> Tensor:
        assert self.mask_head is not None
        assert self.mask_predictor is not None
        return self.mask_predictor(self.mask_head(self.pooled(maps, boxes, picture, self.mask_size)))

    # Use --------------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def detections(
        self, maps: Sequence[Tensor], logits: Tensor, codes: Tensor, regions: Regions, sizes: Tensor
    ) -> list[Detections]:
        """The objects of each picture: classes above a score, duplicates of a class suppressed."""
        classes = logits.shape[1]
        scores = logits.float().softmax(1)[:, 1:]  # (R, classes)
        region, label = (scores > self.least).nonzero(as_tuple=True)
        score, picture = scores[region, label], regions.picture[region]
        boxes = decoded(codes[region, label + 1].float(), regions.boxes[region].float(), CODE_WEIGHTS)
        limits = sizes.to(boxes).flip(1).repeat(1, 2)[picture]
        boxes = torch.minimum(boxes.clamp(min=0), limits)
        large = ((boxes[:, 2:] - boxes[:, :2]) >= 1e-2).all(1)
        boxes, score, label, picture = boxes[large], score[large], label[large], picture[large]
        kept = nms(boxes, score, self.overlap, picture * classes + label)
        results = []
        for number in range(len(sizes)):
            own = kept[picture[kept] == number][: self.most]
            masks = None
            if self.mask_head is not None:
                chosen = self._masks(maps, boxes[own], picture[own])
                masks = chosen[torch.arange(len(own), device=own.device), label[own] + 1].sigmoid()
            results.append(Detections(boxes[own], score[own], label[own] + 1, masks))
        return results


class RCNN(nn.Module):
    """A two-stage detector: ``backbone`` (pictures to a list of maps), ``rpn`` and ``roi_heads``."""

    def __init__(self, backbone: nn.Module, rpn: RPN, roi_heads: RoIHeads) -> None:
        super().__init__()
        self.backbone, self.rpn, self.roi_heads = backbone, rpn, roi_heads

    def losses(
        self, pictures: Tensor, sizes: Tensor, targets: Sequence[Target], generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Losses of padded pictures (B, 3, H, W) whose heights and widths are ``sizes`` (B, 2)."""
        maps = self.backbone(pictures)
        scored = self.rpn(maps)
        losses = self.rpn.losses(scored, targets, sizes, generator)
        regions = self.roi_heads.sample(self.rpn.proposals(scored, sizes), targets, generator)
        logits, codes = self.roi_heads(maps, regions)
        losses |= self.roi_heads.losses(logits, codes, regions)
        if self.roi_heads.mask_head is not None:
            losses |= self.roi_heads.mask_losses(maps, regions, targets)
        return losses

    def detect(self, pictures: Tensor, sizes: Tensor) -> list[Detections]:
        """The objects of each picture."""
        maps = self.backbone(pictures)
        regions = regions_of(self.rpn.proposals(self.rpn(maps), sizes))
        logits, codes = self.roi_heads(maps, regions)
        return self.roi_heads.detections(maps, logits, codes, regions, sizes)

    def forward(self, pictures: Tensor) -> list[Detections]:
        """The objects of pictures (B, 3, H, W) of one size."""
        sizes = torch.tensor(pictures.shape[-2:], device=pictures.device).expand(len(pictures), 2)
        return self.detect(pictures, sizes)


def batched(pictures: Sequence[Tensor], multiple: int = 32) -> tuple[Tensor, Tensor]:
    """Pictures (3, H_i, W_i) of any sizes as one batch (B, 3, H, W), padded with zeros to multiples of ``multiple``,
    and their sizes (B, 2)."""
    sizes = torch.tensor([picture.shape[-2:] for picture in pictures])
    height, width = ((int(side) + multiple - 1) // multiple * multiple for side in sizes.max(0).values)
    batch = pictures[0].new_zeros(len(pictures), pictures[0].shape[0], height, width)
    for own, picture in zip(batch, pictures, strict=True):
        own[:, : picture.shape[1], : picture.shape[2]] = picture
    return batch, sizes.to(batch.device)


def pasted(masks: Tensor, boxes: Tensor, height: int, width: int, threshold: float = 0.5) -> Tensor:
    """Masks (D, M, M) of boxes (D, 4) put into a picture: (D, height, width), true inside an object."""
    result = torch.zeros(len(masks), height, width, dtype=torch.bool, device=masks.device)
    for number, (mask, box) in enumerate(zip(masks, boxes.tolist(), strict=True)):
        left, top = max(math.floor(box[0]), 0), max(math.floor(box[1]), 0)
        right, bottom = min(math.ceil(box[2]), width), min(math.ceil(box[3]), height)
        if right <= left or bottom <= top:
            continue
        y = (torch.arange(top, bottom, device=masks.device) + 0.5 - box[1]) / max(box[3] - box[1], 1e-6) * 2 - 1
        x = (torch.arange(left, right, device=masks.device) + 0.5 - box[0]) / max(box[2] - box[0], 1e-6) * 2 - 1
        grid = torch.stack(torch.meshgrid(y, x, indexing="ij"), -1).flip(-1).to(masks)
        inside = F.grid_sample(mask[None, None], grid[None], padding_mode="border", align_corners=False)[0, 0]
        result[number, top:bottom, left:right] = inside >= threshold
    return result
