"""Alignment: the batched matches equal those of the published loop, and gradients are those of the gather."""

import pytest
import torch

from vergence.ops.alignment import align, composed, dealign, from_tracks, inverse, matches, order, similarities, tracks
from vergence.reference import alignment as plain


def clip(batch=3, frames=5, patches=12, width=6, seed=0, dtype=torch.float64):
    return torch.randn(batch, frames, patches, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def shuffles(batch, frames, patches, seed=1):
    source = torch.Generator().manual_seed(seed)
    return torch.rand(batch, frames, patches, generator=source).argsort(-1)


def shuffled(x, permutations):
    return x.gather(2, permutations.unsqueeze(-1).expand_as(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5, 12, 6), (2, 9, 25, 8), (1, 2, 3, 2)])
def test_all_frames_at_once_are_the_published_loop(shape, dtype):
    x = clip(*shape, dtype=dtype)
    found = order(x)
    published = [plain.align(c) for c in x]
    assert torch.equal(align(x, found), torch.stack([aligned for aligned, _ in published]))
    assert torch.equal(inverse(found), torch.stack([undo.argmax(-1) for _, undo in published]))


def test_dealigning_restores_every_bit_and_frame_0_stays():
    x = clip()
    found = order(x)
    aligned = align(x, found)
    assert torch.equal(dealign(aligned, found), x)
    assert torch.equal(aligned[:, 0], x[:, 0])
    assert torch.equal(found.sort(-1).values, torch.arange(12).expand_as(found))
    assert not torch.equal(aligned, x)


@pytest.mark.parametrize("shape", [(2, 1, 5, 3), (2, 4, 1, 3), (1, 1, 1, 1)])
def test_one_frame_or_one_patch_stays_as_it_is(shape):
    x = clip(*shape)
    found = order(x)
    assert found.shape == shape[:3]
    assert torch.equal(align(x, found), x)
    assert torch.equal(dealign(x, found), x)


@pytest.mark.parametrize("reference", ["previous", "first"])
@pytest.mark.parametrize("method", ["exact", "greedy", "sinkhorn"])
def test_shuffled_frames_come_back_as_the_first(method, reference):
    first = clip(frames=1)
    x = shuffled(first.expand(-1, 5, -1, -1), shuffles(3, 5, 12))
    x[:, 0] = first[:, 0]
    assert torch.equal(align(x, order(x, method, reference)), first.expand_as(x))


def test_neighbours_agree_at_least_as_much_as_before():
    x = clip(frames=7, patches=20)
    aligned = align(x, order(x))

    def agreement(y):
        return torch.nn.functional.cosine_similarity(y[:, 1:], y[:, :-1], dim=-1).sum(-1)

    assert (agreement(aligned) > agreement(x)).all()


def test_shuffling_each_frame_does_not_change_what_is_aligned():
    x = clip()
    permutations = shuffles(3, 5, 12)
    permutations[:, 0] = torch.arange(12)
    y = shuffled(x, permutations)
    assert torch.equal(align(y, order(y)), align(x, order(x)))


def test_the_length_of_features_does_not_matter():
    x = clip()
    scale = torch.tensor([1.0, 0.01, 3.0, 100.0, 7.0], dtype=torch.float64).view(1, 5, 1, 1)
    assert torch.equal(order(x * scale), order(x))


def test_similarities_are_cosines_of_neighbours_or_of_the_first():
    x = clip()
    for reference, before in (("previous", x[:, :-1]), ("first", x[:, :1].expand(-1, 4, -1, -1))):
        expected = torch.nn.functional.cosine_similarity(before.unsqueeze(3), x[:, 1:].unsqueeze(2), dim=-1)
        torch.testing.assert_close(similarities(x, reference), expected)
    x[0, 1, 2] = 0  # has no direction
    assert (similarities(x)[0, 0, :, 2] == 0).all()


def test_coarse_floats_are_compared_in_float32_also_under_autocast():
    x = clip(dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert similarities(x).dtype == torch.float32
        torch.testing.assert_close(similarities(x.float()), similarities(x), rtol=0, atol=0)


def test_matches_to_the_frame_before_compose():
    step = torch.tensor([[[1, 2, 0], [0, 2, 1]]])
    assert composed(step).tolist() == [[[0, 1, 2], [1, 2, 0], [2, 1, 0]]]
    assert composed(step, "first").tolist() == [[[0, 1, 2], [1, 2, 0], [0, 2, 1]]]
    assert matches(clip()).shape == (3, 4, 12)


def test_tracks_are_aligned_features_with_time_inside():
    x = clip()
    found = order(x)
    assert torch.equal(tracks(x, found), align(x, found).transpose(1, 2))
    assert torch.equal(from_tracks(tracks(x, found), found), x)


def test_gradients_are_those_of_plain_indexing_and_none_reach_the_match():
    x = clip().requires_grad_()
    found = order(x)
    assert not found.requires_grad
    probe = clip(seed=3)
    for ours, theirs in (
        (align(x, found), x.gather(2, found.unsqueeze(-1).expand_as(x))),
        (dealign(x, found), x.gather(2, found.argsort(-1).unsqueeze(-1).expand_as(x))),
        (tracks(x, found).transpose(1, 2), x.gather(2, found.unsqueeze(-1).expand_as(x))),
    ):
        assert torch.equal(ours, theirs)
        grads = [torch.autograd.grad((result * result * probe).sum(), x)[0] for result in (ours, theirs)]
        torch.testing.assert_close(*grads, rtol=0, atol=0)
    small = clip(2, 3, 4, 2).requires_grad_()
    fixed = order(small)
    for op in (align, dealign, lambda a, o: from_tracks(tracks(a, o) ** 2, o)):
        assert torch.autograd.gradcheck(lambda a, op=op: op(a, fixed), (small,))
        assert torch.autograd.gradgradcheck(lambda a, op=op: op(a, fixed) ** 3, (small,))


@pytest.mark.parametrize(
    "bad", [torch.zeros(2, 3, 4), torch.zeros(2, 3, 4, 5, dtype=torch.int64), torch.zeros(2, 0, 3, 4)]
)
def test_what_is_no_clip_is_refused(bad):
    with pytest.raises(ValueError, match=r"floats \(B, T, N, C\)"):
        order(bad)


def test_a_feature_that_is_no_number_is_refused():
    x = clip()
    x[1, 2, 3, 4] = float("nan")
    with pytest.raises(ValueError, match="NaN"):
        order(x)
