"""Segmentation by class: confusion counts and intersection over union."""

from __future__ import annotations

import torch
from torch import Tensor


def confusion(predicted: Tensor, truth: Tensor, classes: int, ignore: int | None = 0) -> Tensor:
    """Counts (classes, classes) of true (rows) and predicted (columns) labels. Samples whose true label is ``ignore``
    are left out; labels outside the range are refused."""
    predicted, truth = predicted.flatten(), truth.flatten()
    if ignore is not None:
        kept = truth != ignore
        predicted, truth = predicted[kept], truth[kept]
    for name, labels in (("predicted", predicted), ("true", truth)):
        if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
            raise ValueError(
                f"{name} labels are from 0 to {classes - 1}, got {int(labels.min())} to {int(labels.max())}"
            )
    return (truth * classes + predicted).bincount(minlength=classes**2).reshape(classes, classes)


def class_iou(counts: Tensor, ignore: int | None = 0) -> Tensor:
    """Intersection over union (classes,) from confusion counts; NaN for classes that are in neither truth nor
    prediction, and for ``ignore``. Predictions of ``ignore`` count as misses."""
    counts = counts.double()
    right = counts.diagonal()
    iou = right / (counts.sum(0) + counts.sum(1) - right)
    if ignore is not None:
        iou[ignore] = torch.nan
    return iou


def mean_iou(counts: Tensor, ignore: int | None = 0) -> float:
    """The mean over the classes that occur, in percent."""
    return 100 * float(class_iou(counts, ignore).nanmean())


def overall_accuracy(counts: Tensor) -> float:
    """The share of samples with the right label, in percent."""
    return 100 * float(counts.diagonal().sum() / counts.sum().clamp(min=1))
