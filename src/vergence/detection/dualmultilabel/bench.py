"""Suppression, regions, a training step, and a picture at the published size, against their plain forms.

``pairs`` and ``bins`` are the definitions, in loops of Python; ``kept`` and ``boxes`` loop over boxes alone and compute
the rest at once, as public code does. ``direct`` is the network with its norms apart, one suppression per class and one
region after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.detection.data import Sample, collated
from vergence.detection.dualmultilabel.model import MCAR
from vergence.detection.dualmultilabel.settings import SETTINGS, WATERCOLOR
from vergence.nn.frozen import FrozenBottleneck, FrozenNorm, FrozenResNet
from vergence.nn.rcnn import CODE_WEIGHTS, RCNN, Detections
from vergence.ops.boxes import decoded, nms, overlap
from vergence.ops.roi import roi_align

HEIGHT, WIDTH = 600, 1000


def contests() -> Iterator[Contest]:
    yield _suppression()
    yield _regions()
    yield _step()
    yield _published()


def random_boxes(count: int, height: float, width: float, seed: str) -> Tensor:
    """Boxes (count, 4) of many sizes around a few places, as proposals are."""
    source = generator(seed)
    place = torch.rand(max(count // 20, 1), 2, generator=source)[
        torch.randint(max(count // 20, 1), (count,), generator=source)
    ]
    middle = (place + 0.02 * torch.randn(count, 2, generator=source)) * torch.tensor([width, height])
    half = torch.exp(torch.randn(count, 2, generator=source) * 0.3 + math.log(0.07 * width))
    low, high = (middle - half).clamp(min=0), middle + half
    high = torch.minimum(high, torch.tensor([width, height])).clamp(min=1)
    return torch.cat([torch.minimum(low, high - 1), high], 1)


# Suppression ----------------------------------------------------------------------------------------------------------


def _suppression() -> Contest:
    boxes = random_boxes(2000, HEIGHT, WIDTH, "suppression")
    scores = torch.rand(2000, generator=generator("scores"))
    return Contest(
        "nms", "suppression of 2,000 boxes at 0.7", lambda: nms(boxes, scores, 0.7),
        {"pairs": lambda: by_pairs(boxes, scores, 0.7), "kept": lambda: by_kept(boxes, scores, 0.7)},
    )  # fmt: skip


def by_pairs(boxes: Tensor, scores: Tensor, threshold: float) -> list[int]:
    """The definition: every box against every kept one, pair by pair."""
    rows, kept = boxes.tolist(), list[int]()
    for index in scores.argsort(descending=True, stable=True).tolist():
        a, b, c, d = rows[index]
        for other in kept:
            e, f, g, h = rows[other]
            common = max(min(c, g) - max(a, e), 0.0) * max(min(d, h) - max(b, f), 0.0)
            if common / ((c - a) * (d - b) + (g - e) * (h - f) - common) > threshold:
                break
        else:
            kept.append(index)
    return kept


def by_kept(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """One kept box after another against all that are left."""
    order, kept = scores.argsort(descending=True, stable=True), []
    while len(order):
        kept.append(order[0])
        rest = order[1:]
        order = rest[overlap(boxes[order[0]], boxes[rest]) <= threshold]
    return torch.stack(kept) if kept else order


# Regions --------------------------------------------------------------------------------------------------------------


def _regions() -> Contest:
    features = torch.randn(1, 256, 38, 63, generator=generator("features"))
    boxes, image = random_boxes(512, HEIGHT, WIDTH, "regions"), torch.zeros(512, dtype=torch.long)
    return Contest(
        "roi-align", "RoIAlign of 512 boxes, 256 channels, 7 x 7 bins",
        lambda: roi_align(features, boxes, image, 7, 1 / 16),
        {"bins": lambda: by_bins(features, boxes, 7, 1 / 16), "boxes": lambda: by_boxes(features, boxes, 7, 1 / 16)},
    )  # fmt: skip


def by_bins(features: Tensor, boxes: Tensor, size: int, scale: float) -> Tensor:
    """The definition: means of four points, box by box and bin by bin."""
    _, channels, height, width = features.shape
    maps, result = features[0], features.new_zeros(len(boxes), channels, size, size)
    for number, (left, top, right, bottom) in enumerate((boxes * scale).tolist()):
        across, down = max(right - left, 1.0) / size, max(bottom - top, 1.0) / size
        for row in range(size):
            for column in range(size):
                for sub in range(4):
                    y = top + (row + (sub // 2 + 0.5) / 2) * down
                    x = left + (column + (sub % 2 + 0.5) / 2) * across
                    if not (-1 <= y <= height and -1 <= x <= width):
                        continue
                    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
                    t, e = int(y), int(x)
                    b, r = min(t + 1, height - 1), min(e + 1, width - 1)
                    v, u = y - t, x - e
                    result[number, :, row, column] += 0.25 * (
                        (1 - v) * (1 - u) * maps[:, t, e] + (1 - v) * u * maps[:, t, r]
                        + v * (1 - u) * maps[:, b, e] + v * u * maps[:, b, r]
                    )  # fmt: skip
    return result


def by_boxes(features: Tensor, boxes: Tensor, size: int, scale: float) -> Tensor:
    """One box after another, each by PyTorch's own interpolation on a grid of its points."""
    height, width = features.shape[-2:]
    share = (torch.arange(2 * size) + 0.5) / (2 * size)
    parts = []
    for left, top, right, bottom in (boxes * scale).tolist():
        x, y = left + share * max(right - left, 1.0), top + share * max(bottom - top, 1.0)
        inside = ((y >= -1) & (y <= height)).unsqueeze(1) & (x >= -1) & (x <= width)
        x, y = x.clamp(0, width - 1), y.clamp(0, height - 1)
        rows, columns = torch.meshgrid(2 * y / (height - 1) - 1, 2 * x / (width - 1) - 1, indexing="ij")
        points = F.grid_sample(features, torch.stack([columns, rows], -1)[None], align_corners=True)
        parts.append(F.avg_pool2d(points * inside, 2))
    return torch.cat(parts)


# A step of training ---------------------------------------------------------------------------------------------------


def _step() -> Contest:
    config = SETTINGS.configure("tiny")
    torch.manual_seed(0)
    model = MCAR(config.model, 6)
    batches = [_batch(f"{domain}", config.train.batch) for domain in ("source", "target")]

    def step() -> None:
        model.zero_grad()
        losses = model.losses(batches[0], batches[1], config.weights, torch.Generator().manual_seed(0))
        torch.stack(list(losses.values())).sum().backward()

    for _ in range(30):  # proposals of a network that was never trained are unlike any other's
        step()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=0.01)
    return Contest(
        "step", f"a training step of tiny, {config.train.batch} pictures of each domain",
        step, {"convolutions and products alone": products_of(model, step)},
    )  # fmt: skip


def _batch(seed: str, count: int) -> Any:
    source = generator("bench", seed)
    samples = []
    for number in range(count):
        boxes = random_boxes(2, 64, 80, f"{seed} {number}")
        labels = torch.randint(1, 7, (2,), generator=source)
        picture = torch.rand(3, 64, 80, generator=source)
        samples.append(Sample(picture, boxes, labels, torch.zeros(2, dtype=torch.bool), ""))
    return collated(samples)


def products_of(model: nn.Module, step: Callable[[], None]) -> Callable[[], None]:
    """A function that runs the convolutions and matrix products of a step, forward and backward, and nothing else."""
    calls: list[tuple[Any, Tensor, bool]] = []
    hooks = [
        layer.register_forward_hook(lambda own, args, _: calls.append((own, args[0].detach(), args[0].requires_grad)))
        for layer in model.modules() if isinstance(layer, nn.Conv2d | nn.Linear)
    ]  # fmt: skip
    step()
    for hook in hooks:
        hook.remove()

    def alone() -> None:
        for layer, given, learns in calls:
            out = layer(given.requires_grad_(learns))
            leaves = [*layer.parameters(), *([given] if learns else [])]
            torch.autograd.grad(out, leaves, torch.ones_like(out))

    return alone


# The published size ---------------------------------------------------------------------------------------------------


def _published() -> Contest:
    torch.manual_seed(0)
    model = MCAR(SETTINGS.presets["paper"].model, len(WATERCOLOR)).eval().requires_grad_(False)
    for name, norm in model.named_modules():  # random branches that add up need a smaller scale
        if isinstance(norm, FrozenNorm):
            norm.weight.fill_(0.2 if name.endswith("bn3") else 0.01 if name.endswith("body.bn1") else 1.0)
    picture = torch.rand(1, 3, HEIGHT, WIDTH, generator=generator("picture"))
    sizes = torch.tensor([[HEIGHT, WIDTH]])
    return Contest(
        "detection", f"ResNet-101, a picture of {WIDTH} x {HEIGHT}", lambda: model.detect(picture, sizes),
        {"direct": lambda: direct(model.detector, model.prepared(picture, sizes), sizes)},
    )  # fmt: skip


def direct(detector: RCNN, picture: Tensor, sizes: Tensor) -> Detections:
    """The objects of one picture by the plain steps: norms apart, a region at a time, a class at a time."""
    body: Any = detector.backbone.body
    features = _plain_trunk(body, picture)
    proposals = _plain_proposals(detector, features, sizes)
    heads: Any = detector.roi_heads
    regions = _plain_stage(heads.box_head.layer4, by_boxes(features, proposals, heads.size, 1 / heads.strides[0]))
    logits, codes = heads.box_predictor(regions.mean((2, 3)))
    chances = logits.softmax(1)
    boxes, scores, labels = [], [], []
    for label in range(1, logits.shape[1]):
        own = decoded(codes[:, label], proposals, CODE_WEIGHTS)
        own = torch.minimum(own.clamp(min=0), sizes[0].flip(0).repeat(2).to(own))
        large = ((own[:, 2:] - own[:, :2]) >= 1e-2).all(1).nonzero().squeeze(1)
        kept = large[by_kept(own[large], chances[large, label], heads.overlap)]
        boxes.append(own[kept])
        scores.append(chances[kept, label])
        labels.append(torch.full((len(kept),), label))
    order = torch.cat(scores).argsort(descending=True)[: heads.most]
    return Detections(torch.cat(boxes)[order], torch.cat(scores)[order], torch.cat(labels)[order])


def _plain_trunk(body: FrozenResNet, picture: Tensor) -> Tensor:
    x = body.maxpool(F.relu(body.bn1(body.conv1(picture))))
    for number in range(1, body.stage_count + 1):
        x = _plain_stage(body.get_submodule(f"layer{number}"), x)
    return x


def _plain_stage(stage: nn.Module, x: Tensor) -> Tensor:
    for block in stage.children():
        assert isinstance(block, FrozenBottleneck)
        out = F.relu(block.bn1(block.conv1(x)))
        out = F.relu(block.bn2(block.conv2(out)))
        out = block.bn3(block.conv3(out))
        x = F.relu(out + (x if block.downsample is None else block.downsample(x)))
    return x


def _plain_proposals(detector: RCNN, features: Tensor, sizes: Tensor) -> Tensor:
    rpn = detector.rpn
    scored = rpn([features])
    scores = scored.logits[0]
    boxes = decoded(scored.codes[0], scored.anchors)
    boxes = torch.minimum(boxes.clamp(min=0), sizes[0].flip(0).repeat(2).to(boxes))
    best = scores.topk(min(rpn.before[1], len(scores))).indices
    best = best[((boxes[best, 2:] - boxes[best, :2]) >= rpn.least).all(1)]
    kept = by_kept(boxes[best], scores[best], rpn.overlap)[: rpn.after[1]]
    return boxes[best][kept]
