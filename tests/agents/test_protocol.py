"""Recall and average precision of triplets, against plain loops and other libraries."""

import math

import pytest
import torch

from vergence.agents.protocol import (
    Triplets,
    agreement,
    average_precisions,
    best_pair,
    found_answers,
    hits,
    lenient_recall_at,
    mean_precision,
    recall_at,
)
from vergence.metrics.interpolated import eleven_point


def _triplets(count, seed, classes=3):
    source = torch.Generator().manual_seed(seed)
    low = torch.rand(2, count, 2, generator=source) * 4
    boxes = torch.cat([low, low + 3 + 4 * torch.rand(2, count, 2, generator=source)], 2)
    names = torch.randint(classes, (count, 3), generator=source)
    scores = torch.rand(count, generator=source).sort(descending=True).values
    return Triplets(boxes[0], boxes[1], names, scores)


def _iou(a, b):
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    area = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return width * height / (sum(area) - width * height)


def _plain_recall(pictures, most, threshold):
    """One triplet after another, as VRD's evaluation does it."""
    right = total = 0
    for found, truth in pictures:
        taken = set()
        for i in range(min(most, len(found.scores))):
            best, own = threshold, None
            for j in range(len(truth.scores)):
                if j in taken or found.classes[i].tolist() != truth.classes[j].tolist():
                    continue
                both = min(_iou(found.subjects[i].tolist(), truth.subjects[j].tolist()),
                           _iou(found.objects[i].tolist(), truth.objects[j].tolist()))  # fmt: skip
                if both > best:
                    best, own = both, j
            if own is not None:
                taken.add(own)
        right, total = right + len(taken), total + len(truth.scores)
    return 100 * right / total


def test_recall_is_that_of_a_plain_loop():
    pictures = [(_triplets(40, 2 * n, 2), _triplets(6, 2 * n + 1, 2)) for n in range(12)]
    values = [recall_at(pictures, most, threshold=0.3) for most in (5, 40)]
    assert values == pytest.approx([_plain_recall(pictures, most, 0.3) for most in (5, 40)])
    assert 0 < values[0] < values[1] < 100


def test_eleven_point_precision_is_its_definition():
    source = torch.Generator().manual_seed(0)
    for positives in (1, 4, 9):
        right = torch.rand(20, generator=source) < 0.3
        right &= right.cumsum(0) <= positives
        scores = torch.rand(20, generator=source)
        ranked = right[scores.argsort(descending=True)].tolist()
        best = []
        for level in range(11):
            reached = [
                sum(ranked[:n]) / n for n in range(1, 21) if sum(ranked[:n]) / positives >= level / 10 - 1e-12
            ]  # fmt: skip
            best.append(max(reached, default=0.0))
        assert eleven_point(right, scores, positives) == pytest.approx(sum(best) / 11)
    assert math.isnan(eleven_point(right, scores, 0))
    assert eleven_point(right[:0], scores[:0], 3) == 0


def test_only_the_first_of_two_detections_is_right():
    truth = _triplets(1, 3)
    twice = Triplets(*(torch.cat([part, part]) for part in truth))
    assert hits(agreement(twice, truth), 0.5).tolist() == [True, False]
    assert found_answers(agreement(truth, twice), 0.5).tolist() == [True, False]  # one triplet finds one answer


def test_unordered_recall_forgives_a_swap_and_phrases_forgive_boxes():
    truth = _triplets(4, 5)
    swapped = truth.swapped()
    assert recall_at([(swapped, truth)], 4, ordered=False) == 100
    assert recall_at([(swapped, truth)], 4) < 100
    assert best_pair([(swapped, truth)], ordered=False) == 100
    assert best_pair([(truth, truth)]) == 100
    crossed = truth._replace(subjects=truth.objects, objects=truth.subjects)  # the same union
    assert recall_at([(crossed, truth)], 4, "phrase") == 100


def test_zero_shot_recall_looks_at_some_triplets_only():
    truth = _triplets(5, 9)
    one = tuple(truth.classes[0].tolist())
    found = truth.only((truth.classes == truth.classes[0]).all(1))
    assert recall_at([(found, truth)], 5, among={one}) == 100
    assert recall_at([(found, truth)], 5) < 100
    assert math.isnan(recall_at([(found, truth)], 5, among={(9, 9, 9)}))


def test_lenient_recall_ignores_boxes_and_averages_pictures():
    truth = [_triplets(1, 1), _triplets(4, 2)]
    found = [truth[0]._replace(subjects=truth[0].subjects + 50), truth[1].first(0)]
    pictures = list(zip(found, truth, strict=True))
    assert recall_at(pictures, 10) == 0
    assert lenient_recall_at(pictures, 10) == 50  # 1 of 1 and 0 of 4


def test_lenient_precision_leaves_out_pictures_without_the_triplet():
    truth, other = _triplets(1, 1), _triplets(1, 2)._replace(classes=torch.tensor([[9, 9, 9]]))
    false = truth._replace(scores=torch.tensor([2.0]))
    pictures = [(truth._replace(scores=torch.tensor([1.0])), truth), (false, other)]
    name = tuple(truth.classes[0].tolist())
    assert average_precisions(pictures)[name] == pytest.approx(0.5)
    assert average_precisions(pictures, lenient=True)[name] == pytest.approx(1.0)
    assert mean_precision(average_precisions(pictures), {name}) == pytest.approx(50)
    assert math.isnan(mean_precision({}))
    assert average_precisions([]) == {}
