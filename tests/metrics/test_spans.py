"""Recall curves and average precision of spans equal plain forms, and closed forms on perfect and empty input."""

import numpy as np
import pytest

from vergence.core.errors import VergenceError
from vergence.metrics.spans import OVERLAPS, average_precision, average_recall
from vergence.reference import spans as plain


def drawn(seed, videos=5, instances=4, found=12):
    source = np.random.default_rng(seed)

    def spans(count):
        return np.sort(source.integers(0, 30, (count, 2)) + source.random((count, 2)), 1)

    truth = [spans(source.integers(1, instances + 1)) for _ in range(videos)]
    proposals, scores = [], []
    for mine in truth:
        close = mine[source.integers(0, len(mine), found)] + source.normal(0, 1.5, (found, 2))
        proposals.append(np.sort(np.concatenate([close, spans(found)]), 1))
        scores.append(source.permutation(2 * found) / (2 * found))
    return truth, proposals, scores


def ranked(proposals, scores):
    return [[tuple(p[i]) for i in np.argsort(-s)] for p, s in zip(proposals, scores, strict=True)]


@pytest.mark.parametrize("protocol", ["activitynet", "thumos"])
@pytest.mark.parametrize("most", [3.0, 10.0, 24.0])
def test_the_recall_curve_equals_the_loop_over_videos_shares_and_overlaps(protocol, most):
    truth, proposals, scores = drawn(1)
    curve = average_recall(truth, proposals, scores, most, protocol, steps=20)
    recall, number = plain.average_recall(
        [[tuple(t) for t in mine] for mine in truth], ranked(proposals, scores), OVERLAPS[protocol], most, 20
    )
    assert curve.recall.mean(0).tolist() == pytest.approx(recall)
    assert curve.number.tolist() == pytest.approx(number)
    assert curve.recall.max() > 0.2
    assert (np.diff(curve.recall.mean(0)) >= 0).all()
    assert 0 <= curve.area <= 100


def test_the_truth_as_proposals_is_recalled_completely_and_nothing_recalls_nothing():
    truth, _, _ = drawn(2)
    perfect = average_recall(truth, truth, [np.ones(len(t)) for t in truth], None)
    assert perfect.recall[:, -1].tolist() == [1.0] * 10
    nothing = average_recall(truth, [[] for _ in truth], [[] for _ in truth])
    assert nothing.at(100) == 0
    assert nothing.area == 0


def test_a_video_without_proposals_counts_as_missed():
    both = average_recall([[(0, 1)], [(0, 1)]], [[(0, 1)], []], [[1.0], []], None)
    assert both.recall[:, -1].tolist() == [0.5] * 10


@pytest.mark.parametrize("seed", range(5))
def test_precision_equals_the_loop_over_detections_or_instances(seed):
    truth, proposals, scores = drawn(seed)
    mine = [[tuple(t) for t in video] for video in truth]
    rows = [
        (v, tuple(p), float(s))
        for v, (ps, ss) in enumerate(zip(proposals, scores, strict=True))
        for p, s in zip(ps, ss + v * 1e-4, strict=True)
    ]
    shifted = [s + v * 1e-4 for v, s in enumerate(scores)]
    for overlap in (0.3, 0.5, 0.7):
        ours = average_precision(truth, proposals, shifted, np.array([overlap]))
        assert ours.tolist() == pytest.approx([plain.activitynet_precision(mine, rows, overlap)])
        unclear = [[(0.0, 3.0)] for _ in truth]
        theirs = plain.thumos_precision(mine, rows, overlap, unclear)
        ours = average_precision(truth, proposals, shifted, np.array([overlap]), "thumos", unclear)
        assert ours.tolist() == pytest.approx([theirs])


@pytest.mark.parametrize("protocol", ["activitynet", "thumos"])
def test_perfect_detections_are_one_and_a_duplicate_is_a_mistake(protocol):
    truth = [[(0.0, 1.0), (3.0, 5.0)]]
    assert average_precision(truth, truth, [[0.9, 0.8]], protocol=protocol).tolist() == pytest.approx(
        [1.0] * (10 if protocol == "activitynet" else 5)
    )
    twice = average_precision([[(0, 1)]], [[(0, 1), (0, 1)]], [[0.9, 0.8]], np.array([0.5]), protocol)
    assert twice.tolist() == [1.0]  # after the last match, mistakes cost nothing
    late = average_precision([[(0, 1)]], [[(5, 6), (0, 1)]], [[0.9, 0.8]], np.array([0.5]), protocol)
    assert late.tolist() == [0.5]
    assert np.isnan(average_precision([[]], [[(0, 1)]], [[0.5]], protocol=protocol)).all()


def test_the_two_protocols_differ_where_the_best_fit_has_the_lower_score():
    truth, found, scores = [[(0.0, 10.0)]], [[(0.0, 6.0), (0.0, 10.0)]], [[0.9, 0.5]]
    assert average_precision(truth, found, scores, np.array([0.5])).tolist() == [1.0]
    assert average_precision(truth, found, scores, np.array([0.5]), "thumos").tolist() == [0.5]


@pytest.mark.parametrize("wrong", [[[(0, float("nan"))]], [[(0, 1, 2)]]])
def test_spans_that_are_none_are_named(wrong):
    with pytest.raises(VergenceError, match="starts and ends"):
        average_recall(wrong, wrong, [[1.0]])
