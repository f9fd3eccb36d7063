"""Attention modules: equal to their definitions, identities of the paper, and no matrix of n x n."""

import pytest
import torch
from torch import nn

import vergence
from vergence.core.errors import VergenceError
from vergence.nn import (
    CompressedSelfAttention2d,
    CompressedSelfAttentionLowRank2d,
    NearestLandmark2d,
    PlainLowRank2d,
    ResNet,
    SelfAttention2d,
)
from vergence.reference import self_attention as plain

COMPRESSED = [CompressedSelfAttention2d, CompressedSelfAttentionLowRank2d, NearestLandmark2d, PlainLowRank2d]
KINDS = [SelfAttention2d, *COMPRESSED]


def module(kind, channels=8, **options):
    torch.manual_seed(0)
    made = kind(channels, **options).double()
    nn.init.constant_(made.alpha, 0.7)
    return made


def features(height=6, width=4, channels=8, batch=2):
    source = torch.Generator().manual_seed(1)
    return torch.randn(batch, channels, height, width, generator=source, dtype=torch.float64).requires_grad_()


def qkv(attention, x, group=0):
    parts = []
    for layer in (attention.query, attention.key, attention.value):
        chunk = layer(x).chunk(attention.groups, 1)[group]
        parts.append(chunk.flatten(2).mT)
    return parts


def assert_same(ours, theirs, leaves):
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn(ours.shape, generator=torch.Generator().manual_seed(3), dtype=ours.dtype)
    grads = [torch.autograd.grad(t, leaves, probe, retain_graph=True, allow_unused=True) for t in (ours, theirs)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


def image(tokens, x):
    return tokens.mT.reshape(x.shape)


@pytest.mark.parametrize("shape", [(6, 4), (7, 5)])
def test_self_attention_is_its_definition(shape):
    attention, x = module(SelfAttention2d), features(*shape)
    assert_same(
        attention(x), x + attention.alpha * image(plain.sa(*qkv(attention, x)), x), [x, *attention.parameters()]
    )


@pytest.mark.parametrize("shape", [(6, 4), (7, 5)])
def test_csalr_is_its_definition_with_even_and_uneven_patches(shape):
    attention, x = module(CompressedSelfAttentionLowRank2d, grid=(3, 2), groups=1), features(*shape)
    patches = plain.rectangles(*shape, 3, 2)
    theirs = x + attention.alpha * image(plain.csalr(*qkv(attention, x), patches), x)
    assert_same(attention(x), theirs, [x, *attention.parameters()])


def test_groups_are_single_heads_on_their_channels_fused():
    attention, x = module(CompressedSelfAttentionLowRank2d, grid=(3, 2), groups=2), features()
    patches = plain.rectangles(6, 4, 3, 2)
    heads = [plain.csalr(*qkv(attention, x, g), patches).mT for g in range(2)]
    theirs = x + attention.alpha * attention.fuse(torch.cat(heads, 1).reshape(x.shape))
    assert_same(attention(x), theirs, [x, *attention.parameters()])


@pytest.mark.parametrize("kind", KINDS)
def test_temperature_divides_the_logits(kind):
    options = {} if kind is SelfAttention2d else {"grid": (3, 2)}
    warm, x = module(kind, temperature=3.0, **options), features()
    plain_one = module(kind, **options)
    with torch.no_grad():
        for parameter in plain_one.query.parameters():
            parameter /= 3
    torch.testing.assert_close(warm(x), plain_one(x))
    index = torch.tensor([5])
    torch.testing.assert_close(warm.attention(x, index), plain_one.attention(x, index))


def test_as_many_landmarks_as_positions_give_self_attention():
    compressed, x = module(CompressedSelfAttentionLowRank2d, grid=(6, 4), groups=1), features()
    whole = module(SelfAttention2d)
    whole.load_state_dict(compressed.state_dict())
    torch.testing.assert_close(compressed(x), whole(x), rtol=0, atol=1e-12)
    coefficients = compressed.maps(x).coefficients(torch.arange(24))
    torch.testing.assert_close(coefficients, torch.eye(24).double().expand_as(coefficients), rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", [(6, 4), (7, 5)])
def test_queries_that_are_constant_in_each_patch_are_attended_exactly(shape):
    attention, x = module(CompressedSelfAttentionLowRank2d, grid=(3, 2), groups=1), features(*shape)
    _, key, _ = (t[None] for t in qkv(attention, x))
    index = torch.tensor([plain.rectangles(*shape, 3, 2).index(p) for i in range(shape[0] * shape[1])
                          for p in plain.rectangles(*shape, 3, 2) if i in p])  # fmt: skip
    query = torch.randn(1, 2, 6, attention.inner, dtype=torch.float64)[..., index, :]
    maps = attention.affinity(query, key, *shape)
    torch.testing.assert_close(maps.dense(), plain.softmax_matrix(query, key))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not PlainLowRank2d])
def test_what_a_position_looks_at_sums_to_one(kind):
    attention, x = module(kind, groups=2, **({} if kind is SelfAttention2d else {"grid": (3, 2)})), features(7, 5)
    rows = attention.attention(x, torch.tensor([0, 17, 34]))
    assert rows.shape == (2, 3, 7, 5)
    torch.testing.assert_close(rows.sum((-2, -1)), torch.ones(2, 3).double())
    whole = attention.maps(x).rows(torch.arange(35)).mean(0).unflatten(-1, (7, 5))
    torch.testing.assert_close(rows, whole[:, [0, 17, 34]])


@pytest.mark.parametrize("kind", KINDS)
def test_what_rows_say_is_what_mixing_does(kind):
    attention, x = module(kind, groups=1, **({} if kind is SelfAttention2d else {"grid": (3, 2)})), features(7, 5)
    value = qkv(attention, x)[2]
    rows = attention.attention(x, torch.arange(35)).flatten(2)
    torch.testing.assert_close(attention.mix(x), image(rows @ value, x))


@pytest.mark.parametrize("kind", KINDS)
def test_it_starts_as_the_identity_with_a_gate_that_learns(kind):
    attention = kind(8) if kind is SelfAttention2d else kind(8, grid=(3, 2))
    x = torch.randn(2, 8, 6, 4)
    out = attention(x)
    assert torch.equal(out, x)
    out.square().sum().backward()
    assert attention.alpha.grad != 0
    assert attention.query.weight.grad.abs().max() == 0  # only a branch before the gate can train these at first


@pytest.mark.parametrize("kind", COMPRESSED)
def test_nothing_is_larger_than_positions_by_landmarks(kind):
    from ops.test_lowrank import largest

    attention, x = kind(16, grid=(6, 4), groups=2), torch.randn(1, 16, 48, 16)
    most = largest(lambda: attention(x))
    assert most <= 768 * max(24 * 2, 2 * 2 * 16 + 16)  # one matrix per group; queries, keys and values side by side
    assert most < 768 * 768 / 4


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_precision_is_finite_and_near(kind):
    attention = module(kind, 32, **({} if kind is SelfAttention2d else {"grid": (3, 2)})).float()
    x = torch.randn(2, 32, 6, 4)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        low = attention(x)
    assert (low - attention(x)).abs().max() < 0.1


@pytest.mark.parametrize("kind", COMPRESSED)
def test_it_attaches_to_a_network_that_is_there(kind):
    torch.manual_seed(0)
    network = ResNet(10, (1, 1, 1, 1), "basic", (8, 16, 24, 32)).eval()
    images = torch.randn(1, 3, 64, 64)
    before = network(images)
    blocks = vergence.attach(network, at=["layer1", "layer2"], block=lambda channels: kind(channels, grid=(4, 2)))
    assert torch.equal(network(images), before)
    for block in blocks.values():
        nn.init.ones_(block.alpha)
    assert not torch.allclose(network(images), before)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SelfAttention2d(8, groups=3), "divisible by its groups, got 8 and 3 groups"),
        (lambda: SelfAttention2d(8, inner=0), "needs inner channels"),
        (lambda: SelfAttention2d(8, temperature=0.0), "a temperature above 0"),
        (lambda: CompressedSelfAttention2d(8, grid=(0, 2)), "at least one row"),
        (lambda: CompressedSelfAttentionLowRank2d(8, grid=(9, 2))(torch.zeros(1, 8, 8, 8)),
         "a landmark grid of 9 x 2 does not fit a map of 8 x 8"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(make, said):
    with pytest.raises(VergenceError, match=said):
        make()
