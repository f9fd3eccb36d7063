"""Volumes, their first convolution, the expected disparity and the range of a pair, against plain forms."""

import pytest
import torch
import torch.nn.functional as F

import vergence.ops.stereo as stereo
from vergence.ops.stereo import concatenation_volume, matched_shifts, soft_argmin, volume_convolution
from vergence.reference import stereo as plain


def features(height=5, width=9, channels=2, batch=2):
    torch.manual_seed(0)
    return torch.randn(2, batch, channels, height, width, dtype=torch.float64).unbind(0)


@pytest.mark.parametrize("levels", [1, 4, 12])
def test_the_volume_is_that_of_the_loop(levels):
    left, right = features()
    assert torch.equal(concatenation_volume(left, right, levels), plain.concatenation_volume(left, right, levels))


@pytest.mark.parametrize(("width", "levels"), [(9, 6), (5, 9), (4, 4), (3, 6), (9, 3), (1, 1)])
@pytest.mark.parametrize("biased", [True, False])
def test_the_first_layer_is_the_convolution_of_the_volume_at_every_border(width, levels, biased):
    left, right = features(4, width)
    kernel = torch.randn(3, 4, 3, 3, 3, dtype=torch.float64)
    bias = torch.randn(3, dtype=torch.float64) if biased else None
    theirs = F.conv3d(plain.concatenation_volume(left, right, levels), kernel, bias, padding=1)
    torch.testing.assert_close(volume_convolution(left, right, kernel, bias, levels), theirs, rtol=0, atol=1e-12)


def test_the_first_layer_has_the_right_gradients():
    left, right = (t.requires_grad_() for t in features(3, 6, 1, 1))
    kernel, bias = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((2, 2, 3, 3, 3), (2,)))
    assert torch.autograd.gradcheck(lambda *parts: volume_convolution(*parts, levels=5), (left, right, kernel, bias))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_types_are_kept(kind):
    left, right = (t.to(kind) for t in features())
    kernel = torch.randn(3, 4, 3, 3, 3, dtype=kind)
    assert volume_convolution(left, right, kernel, torch.zeros(3, dtype=kind), 8).dtype == kind
    assert soft_argmin(torch.randn(1, 4, 3, 3, dtype=kind)).dtype == torch.float32


def test_wrong_shapes_are_refused():
    left, right = features()
    with pytest.raises(ValueError, match="two tensors"):
        concatenation_volume(left, right[..., 1:], 4)
    with pytest.raises(ValueError, match="1 or more levels"):
        concatenation_volume(left, right, 0)
    with pytest.raises(ValueError, match=r"\(O, 4, 3, 3, 3\)"):
        volume_convolution(left, right, torch.zeros(3, 2, 3, 3, 3).double(), None, 8)


@pytest.mark.parametrize("chunk", [1, 1000, 1 << 21])
def test_the_expected_disparity_does_not_depend_on_the_pieces(chunk, monkeypatch):
    monkeypatch.setattr(stereo, "CHUNK", chunk)
    scores = 3 * torch.randn(2, 6, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(soft_argmin(scores), plain.soft_argmin(scores), rtol=0, atol=1e-12)


def test_the_expected_disparity_has_the_right_gradients(monkeypatch):
    monkeypatch.setattr(stereo, "CHUNK", 500)
    scores = torch.randn(1, 4, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(soft_argmin, (scores,))


def test_very_unequal_scores_stay_finite():
    scores = torch.tensor([-1e4, 0.0, 1e4, 30.0]).view(1, 4, 1, 1).expand(1, 4, 2, 2)
    assert soft_argmin(scores).isfinite().all()
    torch.testing.assert_close(soft_argmin(scores), plain.soft_argmin(scores))


def test_shifts_of_a_textured_pair_are_found_and_plain_pictures_have_none():
    wide = torch.rand(40, 90)
    found = matched_shifts(wide[:, :80], wide[:, 7:87], 20)
    assert len(found) > 1000
    assert (found == 7).float().mean() > 0.99
    assert len(matched_shifts(torch.full((40, 80), 0.5), torch.full((40, 80), 0.5), 20)) == 0
