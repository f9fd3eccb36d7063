"""TabStruct-Net: a detector of cells with a two-way pyramid, and a graph network that says which cells share a row, and
which a column.

The structure network sees the cells of one table at a time, so that nothing is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.documents.tables import TableBatch
from vergence.documents.tabstruct.settings import LossConfig, ModelConfig
from vergence.nn.cell_graph import CentreFeatures, GraphBranch, PairClassifier, VisualLSTM
from vergence.nn.convnorm import ConvNorm
from vergence.nn.fpn import FeaturePyramid
from vergence.nn.frozen import FrozenResNet
from vergence.nn.rcnn import (
    CODE_WEIGHTS,
    RCNN,
    BoxHead,
    BoxPredictor,
    Detections,
    MaskHead,
    MaskPredictor,
    Regions,
    RoIHeads,
    regions_of,
)
from vergence.nn.rpn import RPN, Target
from vergence.nn.two_way_pyramid import TwoWayPyramid
from vergence.ops.boxes import decoded, nms, pairwise_iou
from vergence.ops.precision import full_precision, wide
from vergence.ops.roi import roi_align
from vergence.ops.table_regions import box_masks
from vergence.ops.table_relations import alignment_loss, related, sampled_pairs

STRIDES = (4, 8, 16, 32, 64)
AXES = ("rows", "columns")


# Trunk ----------------------------------------------------------------------------------------------------------------


class SmallBody(nn.Module):
    """A small residual network: maps at strides 4, 8, 16 and 32."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.channels = tuple(widths)
        half = max(widths[0] // 2, 4)
        self.stem = ConvNorm(inputs, half, 3, 2)
        ends = (half, *widths)
        self.reduce = nn.ModuleList(ConvNorm(a, b, 3, 2) for a, b in pairwise(ends))
        self.refine = nn.ModuleList(ConvNorm(width, width, 3) for width in widths)

    def maps(self, x: Tensor) -> list[Tensor]:
        """Pictures (B, inputs, H, W) to four maps."""
        x, maps = self.stem(x), []
        for reduce, refine in zip(self.reduce, self.refine, strict=True):
            x = reduce(x)
            x = x + refine(x)
            maps.append(x)
        return maps


class Trunk(nn.Module):
    """A network and a pyramid on its four maps: ``body`` and ``fpn``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        inputs = 1 if config.pixels == "ink" else 3
        self.body: SmallBody | FrozenResNet = (
            SmallBody(inputs, config.widths) if config.body == "small" else FrozenResNet(config.depths)
        )
        self.fpn: nn.Module = (
            TwoWayPyramid(self.body.channels, config.channels, config.smoothing, config.far)
            if config.pyramid == "two-way"
            else FeaturePyramid(self.body.channels, config.channels)
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """Pictures (B, channels, H, W) to levels at strides 4 to 64."""
        levels: list[Tensor] = self.fpn(self.body.maps(x.contiguous(memory_format=torch.channels_last)))
        return levels


def detector_of(config: ModelConfig) -> RCNN:
    """Mask R-CNN for one class, the cells."""
    rpn = RPN(
        config.channels, [(size,) for size in config.anchors], STRIDES, config.ratios, width=config.proposing,
        style="exact", before=config.before, after=config.after, sampled=config.sampled[0], overlap=config.thinned,
    )  # fmt: skip
    if config.dilated:
        conv = nn.Conv2d(config.channels, config.proposing, 3, padding=2, dilation=2)
        nn.init.normal_(conv.weight, std=0.01)
        assert conv.bias is not None
        nn.init.zeros_(conv.bias)
        rpn.head.conv = nn.Sequential(nn.Sequential(conv, nn.ReLU()))
    mask = (MaskHead(config.channels, config.channels), MaskPredictor(config.channels, 1)) if config.masks else None
    heads = RoIHeads(
        BoxHead(config.channels * config.bins[0] ** 2, config.head), BoxPredictor(config.head, 1), STRIDES[:4],
        size=config.bins[0], samples=config.bins[1], aligned=True,
        sampled=config.sampled[1], share=config.share, least=0.05, overlap=config.overlap, most=config.most, mask=mask,
    )  # fmt: skip
    return RCNN(Trunk(config), rpn, heads)


# Structure ------------------------------------------------------------------------------------------------------------


class OwnFeatures(nn.Sequential):
    """Convolutions apart from the detector's, to a map of stride 4: what TIES has instead of the pyramid's P2."""

    def __init__(self, inputs: int, channels: int) -> None:
        half = max(channels // 2, 4)
        super().__init__(ConvNorm(inputs, half, 3, 2), ConvNorm(half, channels, 3, 2), ConvNorm(channels, channels, 3))


class Structure(nn.Module):
    """Features of cells, and whether pairs of them share a row, and a column."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        inputs, channels = 4, config.channels
        self.own, self.visual = None, None
        if config.structure == "graph":
            if config.source == "own":
                self.own = OwnFeatures(1 if config.pixels == "ink" else 3, channels)
            whole = config.extent == "picture"
            self.visual = (
                VisualLSTM(channels, config.hidden, config.points, 1 / STRIDES[0], whole)
                if config.visual == "lstm"
                else CentreFeatures(channels, 1 / STRIDES[0])
            )
            seen = self.visual.outputs // 2 if config.split and config.visual == "lstm" else self.visual.outputs
            inputs += seen
        branches: dict[str, nn.Module] = {}
        if config.structure == "graph":
            sizes = (config.edges, config.dense, config.outputs, config.convolutions, config.neighbours)
            branches = {axis: GraphBranch(inputs, *sizes) for axis in AXES}
        self.branches = nn.ModuleDict(branches)
        width = config.outputs if config.structure == "graph" else 4
        self.pairs = nn.ModuleDict({axis: PairClassifier(width, config.classifier) for axis in AXES})

    def described(
        self, pictures: Tensor, maps: Sequence[Tensor], boxes: Tensor, picture: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Features (N, C) of cells for rows and for columns, and their boxes in pixels of P2."""
        with full_precision(boxes):
            places = wide(boxes) / STRIDES[0]
            if self.visual is None:
                return dict.fromkeys(AXES, places), places
            features = wide(maps[0] if self.own is None else self.own(wide(pictures)))
            seen = self.visual(features, wide(boxes), picture)
            counts = picture.bincount(minlength=len(pictures)).tolist() if not picture.is_meta else [len(boxes)]
            result = {}
            for number, axis in enumerate(AXES):
                own = seen.chunk(2, 1)[number] if self.config.split and self.config.visual == "lstm" else seen
                result[axis] = self.branches[axis](torch.cat([own, places], 1), counts)
            return result, places

    def chances(self, features: dict[str, Tensor], places: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities (N, N) that the cells of one table share a row, and a column: of both orders, the larger."""
        found = []
        for axis in AXES:
            pairs = self.pairs[axis]
            assert isinstance(pairs, PairClassifier)
            chance = pairs.every(features[axis], places).softmax(-1)[..., 1]
            found.append(torch.maximum(chance, chance.mT))
        return found[0], found[1]


class Vertices(NamedTuple):
    """Cells of several tables that the structure network is trained on."""

    boxes: Tensor
    """(V, 4)."""
    picture: Tensor
    """(V,), in rising order."""
    spans: Tensor
    """(V, 4)."""


class Recognised(NamedTuple):
    """What the network says of one table."""

    boxes: Tensor
    """(N, 4)."""
    scores: Tensor
    """(N,)."""
    rows: Tensor
    """(N, N): the probability that two cells share a row."""
    columns: Tensor
    """(N, N)."""


class TabStructNet(nn.Module):
    """The detector and the structure network; either may be missing."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.detector = detector_of(config) if config.detector else None
        self.trunk = (
            Trunk(config) if not config.detector and config.structure == "graph" and config.source == "p2" else None
        )
        self.structure = Structure(config) if config.structure != "none" else None

    def maps(self, pictures: Tensor) -> list[Tensor]:
        """The levels of the pyramid; none if nothing needs them."""
        trunk = self.detector.backbone if self.detector is not None else self.trunk
        levels: list[Tensor] = trunk(pictures) if trunk is not None else []
        return levels

    def forward(self, pictures: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        """The network without choices that depend on its numbers: pictures (B, channels, H, W) and boxes (B, R, 4) to
        scores and codes of anchors, logits and codes of the boxes, and chances (B, R, R) that boxes share a row, and a
        column."""
        maps, result = self.maps(pictures), dict[str, Tensor]()
        regions = regions_of(list(boxes.to(pictures.dtype)))
        if self.detector is not None:
            scored = self.detector.rpn(maps)
            heads = self.detector.roi_heads
            logits, codes = heads.box_predictor(heads.box_head(_pooled(heads, maps, regions)))
            result = {"anchors": scored.logits, "shifts": scored.codes, "logits": logits, "codes": codes}
        if self.structure is not None:
            parts = []
            for number in range(len(pictures)):
                one = slice(number, number + 1)
                levels, none = [level[one] for level in maps], torch.zeros_like(regions.picture[: boxes.shape[1]])
                parts.append(
                    self.structure.chances(*self.structure.described(pictures[one], levels, boxes[number], none))
                )
            result |= {axis: torch.stack(part) for axis, part in zip(AXES, zip(*parts, strict=True), strict=True)}
        return result

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(
        self, batch: TableBatch, loss: LossConfig, given: str, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """Eq. 2. ``given`` names boxes that stand in for detections: cells, content, or nothing."""
        maps, losses = self.maps(batch.pictures), dict[str, Tensor]()
        vertices = None
        if self.detector is not None:
            losses, vertices = self._detect(maps, batch, loss, generator)
        if self.structure is None:
            return losses
        if vertices is None or given != "nothing":
            boxes = [table.content if given == "content" else table.cells for table in batch.tables]
            regions = regions_of(boxes)
            vertices = Vertices(regions.boxes, regions.picture, torch.cat([table.spans for table in batch.tables]))
        features, places = self.structure.described(batch.pictures, maps, vertices.boxes, vertices.picture)
        for axis in AXES:
            mates = related(vertices.spans, axis, self.config.relation)  # type: ignore[arg-type]
            cell, partner = _pairs(mates, vertices.picture, self.config.pairs, generator)
            logits = self.structure.pairs[axis](features[axis], places, cell, partner)
            truth = mates[cell, partner].long()
            losses[axis] = F.cross_entropy(logits, truth) if len(cell) else logits.sum()
        return losses

    def _detect(
        self, maps: list[Tensor], batch: TableBatch, loss: LossConfig, generator: torch.Generator | None
    ) -> tuple[dict[str, Tensor], Vertices]:
        """The detector's losses, and its boxes that overlap a cell enough."""
        assert self.detector is not None
        rpn, heads = self.detector.rpn, self.detector.roi_heads
        targets = [
            Target(t.cells, torch.ones(len(t.cells), dtype=torch.long, device=t.cells.device)) for t in batch.tables
        ]
        scored = rpn(maps)
        losses = rpn.losses(scored, targets, batch.sizes, generator)
        regions = heads.sample(rpn.proposals(scored, batch.sizes), targets, generator)
        logits, codes = heads(maps, regions)
        losses |= heads.losses(logits, codes, regions)
        things = (regions.labels > 0).nonzero().squeeze(1)
        first = torch.tensor([0, *(len(t.cells) for t in batch.tables)], device=things.device).cumsum(0)
        owner = regions.match[things] + first[regions.picture[things]]
        truth = torch.cat([t.cells for t in batch.tables]).to(codes)
        spans = torch.cat([t.spans for t in batch.tables])
        boxes = decoded(codes[things, 1], regions.boxes[things], CODE_WEIGHTS)
        if loss.alignment:
            aligned = alignment_loss(
                boxes / STRIDES[0], spans[owner], regions.picture[things], "pairs" if loss.mean else None
            )
            losses["alignment"] = loss.alignment * aligned
        if heads.mask_head is not None:
            losses["mask"] = self._mask_loss(maps, regions, things, truth[owner])
        with torch.no_grad():
            iou = _paired_iou(boxes, truth[owner])
            near = (iou >= loss.overlap).nonzero().squeeze(1)
            score = logits[things[near]].softmax(1)[:, 1]
            kept = near[nms(boxes[near], score, 0.5, regions.picture[things[near]])].sort().values
            kept = kept[regions.picture[things[kept]].argsort(stable=True)]
        return losses, Vertices(boxes[kept].detach(), regions.picture[things[kept]], spans[owner[kept]])

    def _mask_loss(self, maps: list[Tensor], regions: Regions, things: Tensor, truth: Tensor) -> Tensor:
        """Cells are rectangles, so their masks need no pictures."""
        assert self.detector is not None
        heads = self.detector.roi_heads
        assert heads.mask_head is not None
        assert heads.mask_predictor is not None
        boxes = regions.boxes[things]
        pooled = heads.pooled(maps, boxes, regions.picture[things], heads.mask_size)
        logits = heads.mask_predictor(heads.mask_head(pooled))[:, 1]
        return F.binary_cross_entropy_with_logits(logits, box_masks(truth, boxes, logits.shape[-1]).to(logits))

    # Use --------------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def recognise(
        self, pictures: Tensor, sizes: Tensor, given: Sequence[Tensor] | None = None, least: float = 0.5
    ) -> list[Recognised]:
        """The cells of tables and their relations. ``given`` boxes stand in for detections."""
        maps = self.maps(pictures)
        if given is None:
            found = [(d.boxes[d.scores >= least], d.scores[d.scores >= least]) for d in self.detections(maps, sizes)]
        else:
            found = [(boxes, boxes.new_ones(len(boxes))) for boxes in given]
        results = []
        for number, (boxes, scores) in enumerate(found):
            one = slice(number, number + 1)
            rows = columns = boxes.new_zeros(len(boxes), len(boxes))
            if self.structure is not None and len(boxes):
                none = torch.zeros(len(boxes), dtype=torch.long, device=boxes.device)
                described = self.structure.described(pictures[one], [level[one] for level in maps], boxes, none)
                rows, columns = self.structure.chances(*described)
            results.append(Recognised(boxes, scores, rows, columns))
        return results

    def detections(self, maps: list[Tensor], sizes: Tensor) -> list[Detections]:
        """Cells found on maps of pictures of these sizes."""
        assert self.detector is not None
        heads = self.detector.roi_heads
        regions = regions_of(self.detector.rpn.proposals(self.detector.rpn(maps), sizes))
        logits, codes = heads(maps, regions)
        return heads.detections(maps, logits, codes, regions, sizes)


def _pooled(heads: RoIHeads, maps: Sequence[Tensor], regions: Regions) -> Tensor:
    """What ``heads.pooled`` gives, by masks instead of indices: from every level, and of those the one that fits."""
    sides = (regions.boxes[:, 2:] - regions.boxes[:, :2]).clamp(min=0).prod(1).sqrt()
    level = (4 + torch.log2(sides / 224 + 1e-8) + 1e-6).floor().clamp(2, len(heads.strides) + 1) - 2
    every = [
        roi_align(own, regions.boxes, regions.picture, heads.size, 1 / stride, heads.samples, heads.aligned)
        * (level == number).to(own).view(-1, 1, 1, 1)
        for number, (own, stride) in enumerate(zip(maps[:-1], heads.strides, strict=True))
    ]
    return torch.stack(every).sum(0)


def _paired_iou(first: Tensor, second: Tensor) -> Tensor:
    return pairwise_iou(first.unsqueeze(1), second.unsqueeze(1)).flatten()


def _pairs(mates: Tensor, picture: Tensor, count: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Random pairs of cells of the same table."""
    none = torch.zeros(0, dtype=torch.long, device=mates.device)
    cells, partners = [none], [none]
    for number in picture.unique().tolist():
        own = (picture == number).nonzero().squeeze(1)
        cell, partner = sampled_pairs(mates[own][:, own], count, generator)
        cells.append(own[cell])
        partners.append(own[partner])
    return torch.cat(cells), torch.cat(partners)


def build(config: ModelConfig) -> TabStructNet:
    return TabStructNet(config)
