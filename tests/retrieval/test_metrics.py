"""Average precision by the definition of the revisited benchmarks, and gains by regime."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.retrieval.metrics import Truth, average_precision, mean_of, regimes

NOTHING = torch.tensor([], dtype=torch.int64)


def precision(order, positives, junk=()):
    """Of one list, given as positions from nearest to farthest."""
    far = torch.empty(1, len(order))
    far[0, torch.tensor(order)] = torch.arange(len(order)).float()
    truth = Truth([torch.tensor(positives, dtype=torch.int64)], [torch.tensor(junk, dtype=torch.int64)])
    return float(average_precision(far, truth, [0]))


def test_a_perfect_ranking_is_one():
    assert precision([4, 2, 0, 1, 3], [2, 4]) == 1


def test_a_single_positive_counts_half_its_precision_unless_it_is_first():
    assert precision([3, 1, 0, 2], [0]) == pytest.approx(1 / 6)


def test_trapezoids_by_hand():
    # Matches at ranks 1 and 3 (from 0): (0 + 1/2) / 2 and (1/3 + 2/4) / 2, over two positives.
    assert precision([9, 5, 8, 6, 7, 0, 1, 2, 3, 4], [5, 6]) == pytest.approx((0.25 + (1 / 3 + 0.5) / 2) / 2)


def test_junk_is_taken_out_even_where_it_comes_first():
    assert precision([3, 1, 0, 2], [0], [3, 1]) == 1


def test_a_query_without_positives_is_not_judged():
    far = torch.rand(2, 4)
    found = average_precision(far, Truth([NOTHING, torch.tensor([int(far[1].argmin())])], [NOTHING, NOTHING]), [0, 1])
    assert found.isnan().tolist() == [True, False]
    assert mean_of(found) == 100
    with pytest.raises(VergenceError, match="no query has a positive"):
        mean_of(found[:1])


def test_distances_that_are_no_numbers_are_refused():
    with pytest.raises(VergenceError, match="not finite"):
        average_precision(torch.tensor([[float("nan")]]), Truth([NOTHING], [NOTHING]), [0])


def test_regimes_cut_queries_in_thirds_and_compare_means():
    by = torch.arange(9)
    before = torch.full((9,), 0.5)
    after = torch.tensor([0.5] * 3 + [0.75] * 3 + [0.25] * 3)
    assert [round(mean) for mean, _ in regimes(before, after, by)] == [1, 4, 7]
    assert [gain for _, gain in regimes(before, after, by)] == pytest.approx([0, 50, -50])
