"""IoU of the first pixels of a ranking with a region, by hand and against a loop."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.metrics.attribution import best_iou, box_mask, top_iou


def test_perfect_disjoint_and_half_rankings():
    region = torch.zeros(4, 5, dtype=torch.bool)
    region[1:3, 1:3] = True
    inside, outside = region.flatten().nonzero().flatten(), (~region).flatten().nonzero().flatten()
    perfect, worst = torch.cat([inside, outside]), torch.cat([outside, inside])
    assert top_iou(perfect, region) == 1
    assert top_iou(worst, region) == 0
    assert top_iou(torch.cat([inside[:2], outside, inside[2:]]), region) == pytest.approx(2 / 6)
    assert top_iou(perfect, region, 8) == pytest.approx(0.5)
    assert best_iou(perfect, region) == 1
    assert best_iou(worst, region) == pytest.approx(4 / 20)  # all pixels together


def test_the_best_iou_is_that_of_a_loop():
    source = torch.Generator().manual_seed(0)
    region = torch.rand(17, 13, generator=source) < 0.3
    order = torch.randperm(17 * 13, generator=source)
    expected = max(top_iou(order, region, max(round(221 * share / 100), 1)) for share in range(1, 101))
    assert best_iou(order, region) == pytest.approx(expected, abs=1e-6)


def test_boxes_make_a_mask_that_ends_at_the_border():
    mask = box_mask(torch.tensor([[-2, 1, 2, 9], [3, 0, 4, 1]]), 4, 4)
    assert mask.int().tolist() == [[0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]


def test_what_cannot_be_compared_is_refused():
    order, region = torch.arange(6), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(VergenceError, match="no pixel"):
        top_iou(order, ~region)
    with pytest.raises(VergenceError, match="6 pixels"):
        top_iou(order, region[:1])
    with pytest.raises(VergenceError, match="1 to 6"):
        top_iou(order, region, 7)
