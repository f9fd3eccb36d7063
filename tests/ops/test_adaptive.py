"""Adaptive convolution in tiles, range images and votes: equal to their definitions, for any size and type."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vergence.ops import adaptive, label_vote
from vergence.ops.adaptive import Patches, adaptive_convolution
from vergence.ops.spherical import spherical_project
from vergence.reference import range_image


def parts(channels=3, outputs=2, side=3, reach=5, shared=False, size=(2, 6, 11), kind=torch.float64):
    source = torch.Generator().manual_seed(0)
    taps = side**2 * (1 if shared else channels)
    shapes = [
        (size[0], channels, *size[1:]), (size[0], 2, *size[1:]), (taps, 2, reach, reach), (taps,),
        (outputs, channels, side, side), (outputs,),
    ]  # fmt: skip
    return [torch.randn(shape, generator=source, dtype=kind).requires_grad_() for shape in shapes]


@pytest.mark.parametrize("cached", [40, 200, 1 << 20])
@pytest.mark.parametrize("shared", [False, True])
def test_tiles_of_any_size_give_the_whole(monkeypatch, cached, shared):
    monkeypatch.setattr(adaptive, "CACHED", cached)
    leaves = parts(shared=shared)
    ours, theirs = adaptive_convolution(*leaves), adaptive._whole(*leaves)
    torch.testing.assert_close(ours, theirs)
    direction = torch.randn_like(theirs)
    for a, b in zip(*(torch.autograd.grad(out, leaves, direction) for out in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_are_those_of_finite_differences():
    leaves = parts(channels=2, outputs=2, reach=3, size=(1, 3, 4))
    assert torch.autograd.gradcheck(adaptive_convolution, leaves)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_other_float_types_come_back_as_they_came(kind):
    leaves = parts()
    whole = adaptive_convolution(*leaves)
    typed = adaptive_convolution(leaves[0].to(kind), *(leaf.float() for leaf in leaves[1:]))
    assert typed.dtype == kind
    torch.testing.assert_close(typed.double(), whole, rtol=0.05, atol=0.2)


def test_moments_of_patches_are_those_of_the_unfolded_map():
    at = torch.randn(2, 3, 5, 7, dtype=torch.float64) + 2
    unfolded = F.unfold(at, 3, padding=1).transpose(0, 1).flatten(1)
    patches = Patches.of(at, 3)
    torch.testing.assert_close(patches.mean, unfolded.mean(1))
    torch.testing.assert_close(patches.covariance, torch.cov(unfolded, correction=0))


def test_shapes_that_do_not_fit_are_refused():
    x, at, attention, shift, weight, _ = parts()
    with pytest.raises(ValueError, match="K² or C K²"):
        adaptive_convolution(x, at, attention[:5], shift[:5], weight)
    with pytest.raises(ValueError, match="one shape"):
        adaptive_convolution(x, at[:, :, :3], attention, shift, weight)


# Range images --------------------------------------------------------------------------------------------------------


def cloud(count=4000):
    source = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, generator=source) * torch.tensor([10.0, 10.0, 1.0])


def test_a_range_image_is_the_public_one():
    points = cloud().double()
    seen = spherical_project(points, 32, 256)
    assert np.array_equal(seen.index.numpy(), range_image.project(points.numpy(), 32, 256))
    assert torch.equal(seen.points(seen.index)[seen.index[seen.mask]], seen.index[seen.mask])
    assert torch.equal(seen.image(seen.range, -1.0) >= 0, seen.mask)


def test_the_farthest_point_wins_where_asked_and_the_first_of_equals():
    points = torch.tensor([[2.0, 0, 0], [5.0, 0, 0], [5.0, 0, 0], [2.0, 0, 0]])
    for keep, first in (("nearest", 0), ("farthest", 1)):
        seen = spherical_project(points, 8, 16, keep=keep)
        assert seen.index[seen.mask].tolist() == [first]


def test_a_point_at_the_scanner_and_no_points_have_an_image():
    assert int(spherical_project(torch.zeros(1, 3), 8, 16).mask.sum()) == 1
    assert int(spherical_project(torch.zeros(0, 3), 8, 16).mask.sum()) == 0


def test_points_that_are_not_finite_are_refused():
    for value in (float("nan"), float("inf"), 1e30):
        points = cloud(10)
        points[3, 1] = value
        with pytest.raises(ValueError, match="1 of 10 points"):
            spherical_project(points)
    with pytest.raises(ValueError, match=r"\(P, 3\)"):
        spherical_project(torch.zeros(3, 4))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("k", "search", "cutoff"), [(7, 7, 1.0), (5, 5, 1.0), (9, 3, 0.2), (1, 1, 1.0)])
def test_votes_are_the_public_ones(monkeypatch, compiled, k, search, cutoff):
    if not compiled:
        monkeypatch.setattr(label_vote, "compiled", lambda: None)
    elif label_vote.compiled() is None:
        pytest.skip("the extra fast is not installed")
    seen = spherical_project(cloud(), 16, 128)
    source = torch.Generator().manual_seed(2)
    blocks = torch.randint(6, (4, 8), generator=source).repeat_interleave(4, 0).repeat_interleave(16, 1)
    asked = (seen.image(seen.range, -1.0), blocks, seen.range, seen.row, seen.column, 6)
    given = {"k": k, "search": search, "cutoff": cutoff}
    ours = label_vote.label_vote(*asked, **given)
    assert torch.equal(ours, range_image.vote(*asked, **given))


def test_a_vote_that_cannot_be_is_refused():
    ranges, labels, own, at = torch.ones(4, 4), torch.ones(4, 4).long(), torch.ones(1), torch.zeros(1).long()
    with pytest.raises(ValueError, match="odd window"):
        label_vote.label_vote(ranges, labels, own, at, at, 3, search=4)
    with pytest.raises(ValueError, match="from 0 to 2"):
        label_vote.label_vote(ranges, labels + 5, own, at, at, 3)
