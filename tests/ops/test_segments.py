"""Pooling by segments, against loops."""

import torch

from vergence.ops.segments import segment_max, segment_rank, segment_sum


def test_maxima_and_sums_are_those_of_each_segment_and_zero_for_an_empty_one():
    values = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    segment = torch.tensor([2, 0, 2, 2, 0, 3, 3])
    largest, total = segment_max(values, segment, 5), segment_sum(values, segment, 5)
    for number in range(5):
        own = values[segment == number]
        torch.testing.assert_close(largest[number], own.amax(0) if len(own) else torch.zeros(3).double())
        torch.testing.assert_close(total[number], own.sum(0))
    assert torch.autograd.gradcheck(lambda v: segment_max(v, segment, 5), values)


def test_rows_are_ranked_within_their_segment():
    values, segment = torch.tensor([1.0, 5, 3, 2, 9]), torch.tensor([1, 0, 1, 0, 1])
    order, rank = segment_rank(values, segment)
    assert order.tolist() == [1, 3, 4, 2, 0]
    assert rank.tolist() == [0, 1, 0, 1, 2]
    assert all(len(part) == 0 for part in segment_rank(values[:0], segment[:0]))
