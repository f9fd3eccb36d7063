"""Retrieval by class is what a plain loop over queries counts, and right on perfect, worst and odd input."""

import math

import numpy as np
import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.metrics.classes import RECALLS, class_scores


def plain(descriptors, labels):
    """One query at a time, by sorted lists."""
    knees, others, eyes, firsts, curves = [], [], [], [], []
    for q, label in enumerate(labels):
        if label == -1:
            continue
        far = np.abs(descriptors - descriptors[q]).sum(1)
        ranked = list(np.argsort(far, kind="stable"))
        size = int((labels == label).sum())
        right = [labels[g] == label for g in ranked]
        knees.append(sum(right[:size]) / size)
        eyes.append(sum(right[: 2 * size]) / size)
        curve = []
        for step in range(1, RECALLS + 1):
            wanted = math.ceil(step * size / RECALLS)
            length = next(h for h in range(1, len(right) + 1) if sum(right[:h]) >= wanted)
            curve.append(wanted / length)
        curves.append(curve)
        if size > 1:
            alone = [labels[g] == label for g in ranked if g != q]
            others.append(sum(alone[: size - 1]) / (size - 1))
            firsts.append(alone[0])
    return [100 * np.mean(each) for each in (knees, others, eyes, firsts)], 100 * np.mean(curves, axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_a_plain_loop(seed):
    random = np.random.default_rng(seed)
    labels = random.integers(-1, 6, 40)
    labels[:3] = 7, 8, 8  # a class of one, and one of two
    descriptors = random.normal(size=(40, 5)) + labels[:, None] * 0.4
    descriptors = np.round(descriptors, 0 if seed == 3 else 6)  # many equal distances
    scores = class_scores(torch.from_numpy(descriptors), torch.from_numpy(labels))
    expected, curve = plain(descriptors, labels)
    assert [scores.knee, scores.knee_others, scores.bullseye, scores.first] == pytest.approx(expected)
    assert scores.precision.numpy() == pytest.approx(curve)


def test_classes_apart_are_perfect():
    labels = torch.arange(4).repeat_interleave(5)
    scores = class_scores(labels[:, None].double() + 0.01 * torch.rand(20, 1, dtype=torch.float64), labels)
    assert (scores.knee, scores.knee_others, scores.bullseye, scores.first) == (100, 100, 100, 100)
    assert (scores.precision == 100).all()
    assert scores.recall[-1] == 100


def test_classes_that_avoid_each_other_find_only_themselves():
    """Two of a class are always farther apart than any two of different classes."""
    labels = torch.tensor([0, 0, 1, 1])
    descriptors = torch.tensor([[0.0, 0], [9, 9], [0, 1], [9, 8]])
    scores = class_scores(descriptors, labels)
    assert scores.knee == 50
    assert scores.knee_others == 0
    assert scores.bullseye == 100  # twice as many as there are is everything


def test_pieces_do_not_change_the_scores(monkeypatch):
    labels, descriptors = torch.arange(30) % 5, torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    whole = class_scores(descriptors, labels)
    monkeypatch.setattr("vergence.metrics.classes.CHUNK", 70)
    again = class_scores(descriptors, labels)
    assert (again.knee, again.knee_others, again.bullseye) == (whole.knee, whole.knee_others, whole.bullseye)


@pytest.mark.parametrize(
    ("descriptors", "labels", "message"),
    [
        (torch.zeros(3, 2), torch.arange(3), "no two samples are of one class"),
        (torch.zeros(3, 2), torch.full((3,), -1), "no two samples"),
        (torch.zeros(3, 2), torch.zeros(2), "one label each"),
        (torch.full((3, 2), torch.nan), torch.zeros(3), "not finite"),
    ],
)
def test_what_cannot_be_judged_is_refused(descriptors, labels, message):
    with pytest.raises(VergenceError, match=message):
        class_scores(descriptors, labels)
