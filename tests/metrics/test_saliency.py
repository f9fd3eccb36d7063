"""Saliency metrics against their plain forms and in closed form."""

import numpy as np
import pytest
import torch
from scipy.ndimage import distance_transform_edt

from vergence.metrics import saliency as fast
from vergence.reference import saliency as plain


@pytest.fixture
def pairs():
    source = torch.Generator().manual_seed(3)
    maps = torch.rand(6, 20, 27, generator=source, dtype=torch.float64)
    masks = torch.rand(6, 20, 27, generator=source) > 0.6
    masks[4], masks[5] = False, True
    return maps, masks


@pytest.mark.parametrize("name", ["adaptive_f", "f_curve", "s_measure", "adaptive_e", "e_curve"])
def test_a_batch_has_the_values_of_the_plain_form(name, pairs):
    theirs = [getattr(plain, name)(m.numpy(), t.numpy()) for m, t in zip(*pairs, strict=True)]
    torch.testing.assert_close(getattr(fast, name)(*pairs), torch.tensor(theirs, dtype=torch.float64))


@pytest.mark.parametrize("name", ["mae", "adaptive_f", "max_f", "mean_f", "s_measure", "adaptive_e", "boundary_f"])
def test_single_precision_and_batches_change_nothing(name, pairs):
    metric = getattr(fast, name)
    maps, masks = pairs[0].float(), pairs[1]
    alone = torch.cat([metric(m[None], t[None]) for m, t in zip(maps, masks, strict=True)])
    torch.testing.assert_close(metric(maps, masks), alone, rtol=0, atol=1e-12)


def test_a_square_found_shifted_has_the_scores_counted_by_hand():
    mask, found = torch.zeros(2, 1, 10, 10, dtype=torch.float64)
    mask[0, 2:6, 2:6], found[0, 2:6, 4:8] = 1, 1  # half of 16 pixels in common
    p = r = 0.5
    assert float(fast.mae(found, mask.bool())) == pytest.approx(16 / 100)
    assert float(fast.adaptive_f(found, mask.bool())) == pytest.approx(1.3 * p * r / (0.3 * p + r))
    assert float(fast.max_f(found, mask.bool())) == pytest.approx(0.5)
    # Means are 0.16: hits and empty pixels align fully, the 16 others are at ξ = -2ab / (a² + b²).
    a, b = 0.84, 0.16
    odd = (1 - 2 * a * b / (a * a + b * b)) ** 2 / 4
    assert float(fast.adaptive_e(found, mask.bool())) == pytest.approx((84 + 16 * odd) / 100)


def test_boundaries_within_reach_are_those_that_a_distance_transform_finds(pairs):
    masks = torch.zeros(1, 30, 34, dtype=torch.bool)
    masks[0, 6:20, 8:25] = True
    edge = fast.boundaries(masks)
    assert int(edge.sum()) == 2 * 14 + 2 * 17 - 4
    away = distance_transform_edt(~edge[0].numpy())
    for reach in (1, 2, 3, 5, 40):
        np.testing.assert_array_equal(fast.widened(edge, reach)[0].numpy(), away <= reach)


def test_the_border_of_the_picture_is_no_boundary():
    assert not fast.boundaries(torch.ones(1, 5, 7, dtype=torch.bool)).any()


def test_stretching_reaches_zero_and_one_and_leaves_constants():
    maps = torch.tensor([[[0.4, 0.5], [0.45, 0.6]], [[0.3, 0.3], [0.3, 0.3]]])
    out = fast.stretched(maps)
    torch.testing.assert_close(out[0], torch.tensor([[0.0, 0.5], [0.25, 1.0]]))
    assert torch.equal(out[1], maps[1])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1)])
def test_narrow_pictures_have_finite_scores(shape):
    mask = torch.zeros(1, *shape, dtype=torch.bool)
    mask[0, 0, 0] = True
    for name in ("mae", "adaptive_f", "max_f", "mean_f", "s_measure", "adaptive_e", "boundary_f"):
        assert getattr(fast, name)(torch.full((1, *shape), 0.3), mask).isfinite().all(), name
