"""Boxes of heat maps and localisation errors in closed form."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.metrics.localisation import heat_box, localisation_errors


def test_the_box_is_around_the_largest_hot_region():
    heat = torch.zeros(10, 12)
    heat[2:5, 3:9] = 1
    heat[8, 0:2] = 2  # hotter, but smaller
    assert heat_box(heat).tolist() == [3, 2, 9, 5]
    heat[2:5, 3:9] = 0.39  # below a fifth of the largest
    assert heat_box(heat).tolist() == [0, 8, 2, 9]
    assert heat_box(heat, 0.1).tolist() == [3, 2, 9, 5]


def test_without_heat_it_is_the_whole_map():
    assert heat_box(torch.zeros(4, 6)).tolist() == [0, 0, 6, 4]


def test_errors_count_wrong_classes_and_wrong_boxes():
    logits = torch.eye(8).repeat(1, 1)[:4] * 5  # first class of row n is n
    truth = torch.tensor([[0.0, 0, 10, 10]]).repeat(4, 1)
    good, bad = [0.0, 0, 10, 9], [0.0, 0, 10, 5]  # IoU 0.9, and exactly 0.5, which is not above
    found = torch.tensor([good, bad, good, good])
    errors = localisation_errors(logits, torch.tensor([0, 1, 7, 1]), found, truth)
    assert errors["loc1"] == pytest.approx(75)  # the first alone: the second has a bad box, the others another class
    assert errors["loc5"] == pytest.approx(50)  # the last one's label is among the first five
    assert localisation_errors(logits, torch.arange(4), truth, truth) == {"loc1": 0, "loc5": 0}
    with pytest.raises(VergenceError, match="no picture"):
        localisation_errors(logits[:0], torch.zeros(0), found[:0], truth[:0])
