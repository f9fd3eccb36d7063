"""How detectors are judged: average precisions of PASCAL VOC and COCO, and how far two domains can be told apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from vergence.detection.data import Sample
from vergence.metrics.detection import Found, Truth, coco_precision, voc_precision
from vergence.nn.rcnn import Detections


def found_of(detections: Detections, sample: Sample) -> Found:
    """Detections of a picture in pixels of its file."""
    boxes = detections.boxes.float().cpu() / sample.scale
    return Found(boxes, detections.scores.float().cpu(), detections.labels.cpu())


def truth_of(sample: Sample) -> Truth:
    """The objects of a picture in pixels of its file."""
    return Truth(sample.boxes.float().cpu() / sample.scale, sample.labels.cpu(), sample.aside.cpu())


def precisions(found: Sequence[Found], truth: Sequence[Truth], classes: int) -> dict[str, float]:
    """``map`` (11 points) and ``map_area`` at an overlap of 0.5 over classes that occur, and ``ap``, ``ap50``, ``ap75``
    and ``ar100`` of COCO, in per cent."""
    numbers = range(1, classes + 1)
    coco = coco_precision(found, truth, numbers)
    return {
        "map": _mean(voc_precision(found, truth, numbers).values()),
        "map_area": _mean(voc_precision(found, truth, numbers, points="area").values()),
        **{name: coco[name] for name in ("ap", "ap50", "ap75", "ar100")},
    }


def label_precision(chances: Tensor, present: Tensor) -> float:
    """Mean average precision (by area) of K classes over pictures, from probabilities and 0 or 1, both (N, K)."""
    values = []
    for score, here in zip(chances.T.double(), present.T.bool(), strict=True):
        right = here[score.argsort(descending=True, stable=True)].double()
        if right.any():
            precision = right.cumsum(0) / torch.arange(1, len(right) + 1)
            values.append(100 * float((precision * right).sum() / right.sum()))
    return _mean(values)


def domain_probe(source: Tensor, target: Tensor, ridge: float = 1e-2) -> float:
    """How often a linear classifier tells the domain of features (N, C) and (M, C), in per cent: fitted by ridge
    regression on the even ones of each and tried on the odd ones, and the other way round. 50 is chance."""
    hits = []
    for first in (0, 1):
        fit, tried = [(part[first::2].double(), part[1 - first :: 2].double()) for part in (source, target)], []
        mean = torch.stack([a.mean(0) for a, _ in fit]).mean(0)
        rows = torch.cat([a for a, _ in fit]) - mean
        scale = rows.std(0).clamp(min=1e-12)
        rows = rows / scale
        weight = torch.cat([torch.full((len(a),), 0.5 / max(len(a), 1), dtype=torch.float64) for a, _ in fit])
        sign = torch.cat([torch.ones(len(fit[0][0])), -torch.ones(len(fit[1][0]))]).double()
        gram = rows.T @ (weight.unsqueeze(1) * rows) + ridge * torch.eye(rows.shape[1], dtype=torch.float64)
        direction = torch.linalg.solve(gram, rows.T @ (weight * sign))
        for (_, other), side in zip(fit, (1, -1), strict=True):
            answers = ((other - mean) / scale) @ direction * side
            tried.append(float((answers > 0).double().mean() + 0.5 * (answers == 0).double().mean()))
        hits.append(sum(tried) / 2)
    return 100 * sum(hits) / 2


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan
