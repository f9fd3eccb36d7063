"""Operators over time, alone and aligned."""

import pytest
import torch
from torch import nn

from vergence.core.errors import VergenceError
from vergence.nn import Aligned, Alignment, TemporalAttention, TemporalConv, TemporalMean, TemporalShift
from vergence.ops.alignment import align, dealign, order

B, T, N, C = 2, 5, 9, 16


def clip(seed=0, dtype=torch.float64):
    return torch.randn(B, T, N, C, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def filled(module):
    source = torch.Generator().manual_seed(1)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return module.eval()


OPERATORS = {
    "attention": lambda: TemporalAttention(C, 4),
    "conv": lambda: TemporalConv(C),
    "shift": lambda: TemporalShift(C),
    "mean": TemporalMean,
}
every = pytest.mark.parametrize("name", OPERATORS)


@every
def test_an_operator_stays_at_its_position(name):
    op, x = filled(OPERATORS[name]()), clip()
    changed = x.clone()
    changed[:, :, 3] += 1.5 * torch.randn(C, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    same = torch.isclose(op(changed), op(x), atol=1e-12).all(-1)
    assert same[:, :, [p for p in range(N) if p != 3]].all()
    assert not same[:, :, 3].any()


@every
def test_aligned_is_align_operate_dealign(name):
    op, x = filled(OPERATORS[name]()), clip().requires_grad_()
    found = order(x)
    ours, theirs = Aligned(op)(x), dealign(op(align(x, found)), found)
    torch.testing.assert_close(ours, theirs)
    leaves = [x, *op.parameters()]
    probe = clip(7)
    for a, b in zip(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(theirs, leaves, probe), strict=True):
        torch.testing.assert_close(a, b)


@every
def test_aligned_adds_no_parameter_and_follows_shuffles_where_fixed_places_do_not(name):
    op, x = filled(OPERATORS[name]()), clip()
    aligned = Aligned(op)
    assert sum(p.numel() for p in aligned.parameters()) == sum(p.numel() for p in op.parameters())
    shuffles = torch.rand(B, T, N, generator=torch.Generator().manual_seed(2)).argsort(-1)

    def taken(y):
        return y.gather(2, shuffles.unsqueeze(-1).expand_as(y))

    with torch.no_grad():
        torch.testing.assert_close(aligned(taken(x)), taken(aligned(x)))
        assert (op(taken(x)) - taken(op(x))).abs().max() > 0.01


def test_temporal_attention_is_its_definition():
    op, x = filled(TemporalAttention(C, 4)), clip()
    expected = torch.empty_like(x)
    for b in range(B):
        for p in range(N):
            tokens = op.norm(x[b, :, p])
            q, k, v = op.attn.qkv(tokens).split(C, -1)
            heads = []
            for h in range(4):
                part = slice(4 * h, 4 * h + 4)
                heads.append((q[:, part] @ k[:, part].mT / 2).softmax(-1) @ v[:, part])
            expected[b, :, p] = x[b, :, p] + op.fc(op.attn.proj(torch.cat(heads, -1)))
    torch.testing.assert_close(op(x), expected)


def test_temporal_conv_is_pytorchs_depthwise_one():
    op, x = filled(TemporalConv(C)), clip()
    signal = op.norm(x).permute(0, 2, 3, 1).flatten(0, 1)  # (B N, C, T)
    theirs = nn.functional.conv1d(signal, op.weight.mT.unsqueeze(1), op.bias, padding=1, groups=C)
    torch.testing.assert_close(op(x), x + theirs.view(B, N, C, T).permute(0, 3, 1, 2))


def test_temporal_shift_brings_channels_from_both_neighbours():
    op, x = filled(TemporalShift(C)), clip()
    with torch.no_grad():
        op.fc.weight.copy_(torch.eye(C))
        op.fc.bias.zero_()
        added, y = op(x) - x, op.norm(x)
    torch.testing.assert_close(added[:, 1:, :, :2], y[:, :-1, :, :2])
    torch.testing.assert_close(added[:, :-1, :, 2:4], y[:, 1:, :, 2:4])
    torch.testing.assert_close(added[..., 4:], y[..., 4:])
    assert added[:, 0, :, :2].abs().max() < 1e-12
    assert added[:, -1, :, 2:4].abs().max() < 1e-12


@pytest.mark.parametrize("op", [nn.Identity(), nn.Sequential(nn.Linear(C, C), nn.GELU()).double()])
def test_around_what_takes_each_token_alone_alignment_cancels(op):
    x = clip()
    torch.testing.assert_close(Aligned(op)(x), op(x), rtol=0, atol=1e-14)


def test_without_restoring_features_stay_aligned():
    x = clip()
    assert torch.equal(Aligned(nn.Identity(), Alignment(after="keep"))(x), align(x, order(x)))


def test_aligned_to_the_first_frame_is_not_chained():
    x = clip()
    assert torch.equal(Alignment(reference="first").order(x), order(x, reference="first"))
    assert not torch.equal(order(x, reference="first"), order(x))


def test_the_random_control_is_a_permutation_that_follows_nothing_and_repeats():
    x = clip()[:, :1].expand(-1, T, -1, -1)
    found = Alignment(method="random").order(x)
    assert torch.equal(found, Alignment(method="random").order(x.clone()))
    assert torch.equal(found.sort(-1).values, torch.arange(N).expand_as(found))
    assert torch.equal(found[:, 0], torch.arange(N).expand(B, -1))
    rolled = torch.stack([x[:, 0].roll(t, 1) for t in range(T)], 1)
    still = align(rolled, Alignment(method="random").order(rolled)) == rolled[:, :1]
    assert still[:, 1:].double().mean() < 0.5


@every
def test_one_frame_is_no_problem(name):
    x = clip()[:, :1]
    assert Aligned(filled(OPERATORS[name]()))(x).shape == x.shape


def test_a_feature_that_is_no_number_is_one_sentence():
    x = clip()
    x[0, 1, 2, 3] = float("nan")
    with pytest.raises(VergenceError, match="frames cannot be aligned: .*NaN"):
        Aligned(nn.Identity())(x)


def test_an_aligned_model_is_traced_without_a_break():
    op = TemporalAttention(C, 4).eval()
    x = clip(dtype=torch.float32)
    exported = torch.export.export(Aligned(op), (x,))
    torch.testing.assert_close(exported.module()(x), Aligned(op)(x))
