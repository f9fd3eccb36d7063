"""Numbers that describe boxes and pairs of boxes."""

import math

import torch

from vergence.ops.box_pairs import all_pairs, box_shapes, pair_features


def test_a_pair_has_the_numbers_worked_out_by_hand():
    boxes = torch.tensor([[0.0, 0, 20, 10], [0, 5, 20, 15]])
    torch.testing.assert_close(box_shapes(boxes, 30, 40), torch.tensor([[2, 0.5, 200 / 1200]]).repeat(2, 1))
    there, back = pair_features(boxes, all_pairs(2), 30, 40)
    torch.testing.assert_close(there, torch.tensor([5 / math.sqrt(1200), 1.0, 0.0, 1 / 3, 1.0]))
    torch.testing.assert_close(back, torch.tensor([5 / math.sqrt(1200), -1.0, 0.0, 1 / 3, 1.0]))


def test_coinciding_centres_have_no_direction_and_finite_gradients():
    boxes = torch.tensor([[0.0, 0, 20, 20], [5, 5, 15, 15], [10, 10, 10, 10]], dtype=torch.float64, requires_grad=True)
    features = pair_features(boxes, all_pairs(3), 30, 30)
    assert features.isfinite().all()
    assert box_shapes(boxes, 30, 30).isfinite().all()
    assert features[:, :3].abs().max() == 0
    (slope,) = torch.autograd.grad(pair_features(boxes, torch.tensor([[0], [1]]), 30, 30).sum(), boxes)
    assert slope.isfinite().all()


def test_pairs_are_ordered_and_without_loops():
    assert all_pairs(3).mT.tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]
    assert all_pairs(1).shape == (2, 0)
