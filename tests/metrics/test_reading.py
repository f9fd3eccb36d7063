"""Errors of readings have their closed forms, and confidence is judged as scikit-learn judges it."""

import pytest
import torch
from sklearn.metrics import average_precision_score

from vergence.core.errors import VergenceError
from vergence.metrics.reading import (
    average_precision,
    character_error,
    edit_distance,
    error_kinds,
    precision_recall,
    recall_at_precision,
    reliability,
    word_error,
)


def test_distances_of_known_pairs():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
    assert edit_distance(["a", "b"], ["b"]) == 1


def test_errors_of_perfect_empty_and_wrong_readings():
    truth = ["one two", "three"]
    assert character_error(truth, truth) == word_error(truth, truth) == 0
    assert character_error(["", ""], truth) == word_error(["", ""], truth) == 100
    assert word_error(["one too", "three"], truth) == pytest.approx(100 / 3)
    assert character_error(["one too", "three"], truth) == pytest.approx(100 / 12)
    assert character_error([], []) == 0


def test_a_reading_without_its_truth_is_refused():
    with pytest.raises(VergenceError, match="1 and 0"):
        character_error(["a"], [])


def test_kinds_of_errors_are_told_by_length():
    kinds = error_kinds(["ab", "a", "abc", "xy", "ok"], ["xx", "ab", "ab", "ab", "ok"])
    assert kinds == (50, 25, 25)
    assert error_kinds(["a"], ["a"]) == (0, 0, 0)


@pytest.mark.parametrize("levels", [3, 20, 10**6])
def test_average_precision_is_scikit_learns_with_ties(levels):
    source = torch.Generator().manual_seed(levels)
    confidence = (torch.rand(200, generator=source) * levels).floor() / levels
    correct = torch.rand(200, generator=source) < confidence
    assert average_precision(confidence, correct) == pytest.approx(100 * average_precision_score(correct, confidence))


def test_recall_is_of_the_correct_readings_not_of_all():
    confidence, correct = torch.tensor([0.9, 0.8, 0.3, 0.2]), torch.tensor([True, True, False, False])
    assert recall_at_precision(confidence, correct) == 100  # though half of all are wrong
    assert recall_at_precision(confidence.flip(0), correct) == 0
    assert recall_at_precision(confidence, ~correct.new_zeros(4)) == 100
    assert average_precision(confidence, correct.new_zeros(4)) == 0


def test_equal_confidences_are_accepted_together():
    precision, recall = precision_recall(torch.tensor([0.5, 0.5, 0.1]), torch.tensor([True, False, True]))
    assert precision.tolist() == [0.5, pytest.approx(2 / 3)]
    assert recall.tolist() == [0.5, 1.0]


def test_confidence_that_is_not_a_number_is_refused():
    with pytest.raises(VergenceError, match="not a finite number"):
        average_precision(torch.tensor([float("nan")]), torch.tensor([True]))
    with pytest.raises(VergenceError, match="from 0 to 1"):
        reliability(torch.tensor([1.5]), torch.tensor([True]))


def test_reliability_of_calibrated_and_of_boastful_readings():
    confidence = torch.tensor([0.95] * 20)
    assert reliability(confidence, torch.arange(20) < 19).error == pytest.approx(0, abs=1e-5)
    assert reliability(confidence, torch.zeros(20).bool()).error == pytest.approx(95, abs=1e-4)
    assert reliability(torch.zeros(0), torch.zeros(0)).error == 0
