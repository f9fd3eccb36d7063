"""Confusion and overlap by their definitions, on perfect, wrong and empty input."""

import math

import pytest
import torch
from sklearn.metrics import confusion_matrix, jaccard_score

from vergence.metrics.segmentation import class_iou, confusion, mean_iou, overall_accuracy


def test_counts_and_overlaps_are_those_of_scikit_learn():
    source = torch.Generator().manual_seed(0)
    truth, predicted = (torch.randint(0, 5, (400,), generator=source) for _ in range(2))
    counts = confusion(predicted, truth, 5, ignore=None)
    assert counts.tolist() == confusion_matrix(truth, predicted).tolist()
    expected = jaccard_score(truth, predicted, average=None)
    assert class_iou(counts, None).tolist() == pytest.approx(expected.tolist())
    assert mean_iou(counts, None) == pytest.approx(100 * expected.mean())
    assert overall_accuracy(counts) == pytest.approx(100 * float((truth == predicted).float().mean()))


def test_what_is_unlabelled_is_left_out_but_predicting_it_is_a_miss():
    truth, predicted = torch.tensor([0, 1, 1, 2]), torch.tensor([2, 1, 0, 2])
    iou = class_iou(confusion(predicted, truth, 4))
    assert math.isnan(iou[0])
    assert iou[1:3].tolist() == [0.5, 1.0]
    assert math.isnan(iou[3])  # in neither
    assert mean_iou(confusion(predicted, truth, 4)) == 75.0


def test_perfect_and_wrong_predictions():
    truth = torch.tensor([1, 2, 3])
    assert mean_iou(confusion(truth, truth, 4)) == 100.0
    assert mean_iou(confusion(truth.roll(1), truth, 4)) == 0.0
    assert math.isnan(mean_iou(confusion(truth[:0], truth[:0], 4)))


def test_labels_out_of_range_are_refused():
    with pytest.raises(ValueError, match="true labels are from 0 to 3, got 1 to 7"):
        confusion(torch.tensor([1, 1]), torch.tensor([1, 7]), 4)
