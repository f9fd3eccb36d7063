"""Nonlocal blocks: their papers' formulas, their start as the identity, and that they learn from there."""

import inspect

import pytest
import torch
from torch import nn

from vergence.core.errors import VergenceError
from vergence.nn import (
    BLOCKS,
    CayleyNonlocal,
    ChebyshevNonlocal,
    CompactGeneralised,
    CrissCross,
    DoubleAttention,
    Nonlocal,
    NonlocalBlock,
    NonlocalStage,
    PrintedCayleyNonlocal,
    SharedAffinity,
    SpectralNonlocal,
    StableNonlocal,
)
from vergence.nn.graphfilter import Chebyshev, Neighbours
from vergence.ops import Graph
from vergence.ops.graph import FEW
from vergence.reference import nonlocal_block as plain
from vergence.reference.blocks import DENSE, FORMULAS, stacked_powers, two_products

NAMES = sorted(BLOCKS)
VARIED = ("nl", "nl-concatenation", "cgnl", "cc", "snl", "cayleyexact")
"""One of each way to compute: compiling takes seconds."""
ORDERLESS = [name for name in NAMES if not name.startswith("cc")]


def filled(block, seed=0):
    """A block in float64 that no longer is the identity."""
    source = torch.Generator().manual_seed(seed)
    block = block.double().eval()
    with torch.no_grad():
        for parameter in block.parameters():
            size = max(parameter.shape[-1], 1) ** -0.5 if parameter.ndim > 1 else 1.0
            parameter.copy_(size * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return block


def random(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def same(ours, theirs, leaves):
    """Values and gradients."""
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    probe = random(*ours.shape, seed=2)
    found = [torch.autograd.grad(out, leaves, probe, allow_unused=True) for out in (ours, theirs)]
    for a, b in zip(*found, strict=True):
        assert a is not None
        assert a.abs().max() > 0
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("inner", [2, 9])  # factors thinner than the matrix, and thicker: both paths
def test_a_block_is_its_papers_formula_forward_and_backward(name, inner):
    block, shape = filled(BLOCKS[name](8, inner)), (3, 4)
    x = random(2, 12, 8).requires_grad_()
    leaves = [x, *(p for n, p in block.named_parameters() if not n.startswith("norm"))]
    same(block.operate(x, shape), FORMULAS[name](block, x, shape), leaves)


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_the_forms_that_are_raced_against_are_the_formulas_too(name):
    block, x = filled(BLOCKS[name](8)), random(2, 12, 8)
    torch.testing.assert_close(DENSE[name](block, x, (3, 4)), FORMULAS[name](block, x, (3, 4)))
    if name == "cc":
        torch.testing.assert_close(two_products(block, x, (3, 4)), FORMULAS[name](block, x, (3, 4)))
    if name == "chebysnl":
        block = filled(ChebyshevNonlocal(8, order=4))
        torch.testing.assert_close(DENSE[name](block, x, (3, 4)), FORMULAS[name](block, x, (3, 4)))
    if name == "cgnl":
        torch.testing.assert_close(stacked_powers(block, x, (3, 4)), FORMULAS[name](block, x, (3, 4)))


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - {"cc", "cgnl", "cgnl-dot"}))
def test_a_block_on_many_positions_is_its_dense_form_forward_and_backward(name):
    block = filled(BLOCKS[name](6, 3))
    x = random(1, FEW + 44, 6).requires_grad_()
    leaves = [x, *(p for n, p in block.named_parameters() if not n.startswith("norm"))]
    same(block.operate(x), DENSE[name](block, x, ()), leaves)


def test_every_block_has_its_formula_here():
    assert set(FORMULAS) == set(BLOCKS) - {"cc-twice"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(11,), (4, 5), (2, 3, 4)])
def test_any_number_of_dimensions_is_normalised_and_added(name, shape):
    block, x = filled(BLOCKS[name](8)), random(2, 8, *shape)
    tokens = x.flatten(2).mT
    affinity = block.affinity(tokens, shape)
    filtered = block.filter(affinity, block.g(tokens), block.g(tokens)).mT
    if isinstance(block.norm, nn.BatchNorm1d):  # fresh running statistics
        expected = filtered / (1 + block.norm.eps) ** 0.5 * block.norm.weight[:, None] + block.norm.bias[:, None]
    elif isinstance(block.norm, nn.GroupNorm):
        over = filtered - filtered.mean((1, 2), keepdim=True)
        expected = over / (over.pow(2).mean((1, 2), keepdim=True) + block.norm.eps).sqrt()
        expected = expected * block.norm.weight[:, None] + block.norm.bias[:, None]
    else:
        expected = block.norm.gamma * filtered
    once = x + expected.reshape(x.shape)
    if name == "cc-twice":
        block.recurrence = 1
        once, block.recurrence = block(once), 2
    torch.testing.assert_close(block(x), once)


@pytest.mark.parametrize("name", NAMES)
def test_it_starts_as_the_identity_to_the_last_bit_and_every_parameter_moves(name):
    torch.manual_seed(0)
    block = BLOCKS[name](8)
    x = torch.randn(2, 8, 5, 5)
    assert torch.equal(block(x), x)
    before = {name: p.detach().clone() for name, p in block.named_parameters()}
    optimiser = torch.optim.SGD(block.parameters(), lr=1.0)
    for _ in range(2):
        optimiser.zero_grad()
        ((block(x) - x.flip(-1)) ** 2).mean().backward()
        optimiser.step()
    assert [name for name, p in block.named_parameters() if torch.equal(p, before[name])] == []


def test_a_rectified_block_has_no_zero_scale_that_would_keep_it_from_learning():
    torch.manual_seed(0)
    block = SpectralNonlocal(8, wiring="rectified")
    x = torch.randn(2, 8, 5, 5)
    out = block(x)
    assert (out >= x).all()
    out.pow(2).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in block.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_attention_gives_the_rows_of_the_affinity_as_maps(name):
    block, x = filled(BLOCKS[name](8)), random(2, 8, 3, 4)
    tokens = x.flatten(2).mT
    index = torch.tensor([7, 0])
    dense = block.affinity(tokens, (3, 4)).dense()
    if name.startswith("cgnl"):  # nodes are channels of positions
        dense = dense.unflatten(-2, (12, -1)).unflatten(-1, (12, -1)).sum((1, 3, 5))
    torch.testing.assert_close(block.attention(x, index), dense[:, index].reshape(2, 2, 3, 4))


@pytest.mark.parametrize("name", ORDERLESS)
def test_permuting_the_positions_permutes_the_output(name):
    block, x = filled(BLOCKS[name](8)), random(2, 8, 15)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(block(x)[..., order], block(x[..., order]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nl", 8320), ("ns", 8320), ("a2", 8320), ("nl-dot", 8320), ("snl", 10368), ("gsnl", 12416),
        ("chebysnl", 12416), ("nl-gaussian", 8320 - 2 * 64 * 32), ("nl-concatenation", 8320 + 64), ("cgnl", 8320),
        ("cayleysnl", 10368 + 32 * 32), ("cayleyexact", 10368 + 1), ("cc", 2 * 64 * 8 + 64 * 64 + 1),
    ],
)  # fmt: skip
def test_parameters_are_as_published(name, expected):
    assert sum(p.numel() for p in BLOCKS[name](64).parameters()) == expected


# Readings and options -----------------------------------------------------------------------------------------------


def test_the_codes_nonlocal_stage_has_the_opposite_sign():
    paper, code = (filled(NonlocalStage(8, reading=reading)) for reading in ("paper", "code"))
    x = random(2, 12, 8)
    args = paper.affinity(x), paper.g(x), paper.g(x)
    torch.testing.assert_close(code.filter(*args), -paper.filter(*args))


def test_the_codes_double_attention_is_an_unnormalised_product_of_relus():
    block, x = filled(DoubleAttention(8, reading="code")), random(2, 12, 8)
    expected = (x @ block.theta.weight.mT).relu() @ (x @ block.phi.weight.mT).relu().mT
    torch.testing.assert_close(block.affinity(x).dense(), expected)


def test_the_codes_cayley_has_the_zoom_on_the_other_term():
    block, x = filled(PrintedCayleyNonlocal(8, reading="code", kernel="relu")), random(2, 12, 8)
    z, f = block.g(x), block.filter
    laplacian = torch.eye(12, dtype=torch.float64) - plain.spectral_affinity(x, block.theta.weight, block.phi.weight)
    expected = z @ f.w1.weight.mT + (z @ f.wh.weight.mT + laplacian @ laplacian @ z) @ f.w2.weight.mT
    torch.testing.assert_close(f(block.affinity(x), z, z), expected)


@pytest.mark.parametrize("kind", [SpectralNonlocal, StableNonlocal])
def test_the_earlier_codes_affinity_is_that_of_nl(kind):
    block, x = filled(kind(8, affinity="softmax")), random(2, 12, 8)
    torch.testing.assert_close(
        block.affinity(x).dense(), plain.softmax_affinity(x, block.theta.weight, block.phi.weight)
    )


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kernel", ["dot", "rbf"])
def test_groups_are_compact_blocks_side_by_side(groups, kernel):
    block, x = filled(CompactGeneralised(8, 4, groups=groups, kernel=kernel, gamma=0.3, order=3)), random(2, 12, 8)
    z = block.g(x)
    parts = []
    for group in range(groups):
        own = slice(group * 4 // groups, (group + 1) * 4 // groups)
        weight = block.filter.w.weight[group * 8 // groups : (group + 1) * 8 // groups]
        matrix = plain.compact_affinity(x, block.theta.weight[own], block.phi.weight[own], kernel, 3, 0.3)
        part = z[..., own]
        parts.append((matrix @ part.flatten(1).unsqueeze(-1)).reshape(part.shape) @ weight.mT)
    torch.testing.assert_close(block.filter(block.affinity(x), z, z), torch.cat(parts, -1))


def test_the_taylor_series_of_a_compact_block_comes_to_the_radial_kernel():
    block, x = filled(CompactGeneralised(8, 4, kernel="rbf", gamma=0.05, order=25)), random(1, 6, 8)
    t, p = (x @ block.theta.weight.mT).flatten(), (x @ block.phi.weight.mT).flatten()
    expected = (-0.1 + 0.1 * t[:, None] * p).exp()
    torch.testing.assert_close(block.affinity(x).dense()[0, 0], expected)


def test_a_compact_block_can_divide_by_the_degree():
    block = filled(CompactGeneralised(8, 4, kernel="rbf", normalise="row"))
    rows = block.affinity(random(2, 6, 8)).dense().sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))


def test_criss_cross_twice_reaches_every_position_and_once_does_not():
    for recurrence, reached in ((1, 3 + 4 - 1), (2, 12)):
        block = filled(CrissCross(8, recurrence=recurrence))
        x = random(1, 8, 3, 4).requires_grad_()
        (grad,) = torch.autograd.grad(block(x)[0, :, 1, 2].sum(), x)
        assert (grad[0].abs().amax(0) > 0).sum() == reached


class PublicCrissCross(nn.Module):
    """Layers of the public CCNet code's ``CrissCrossAttention``, by its names; its formula, a position at a time."""

    def __init__(self, channels):
        super().__init__()
        self.query_conv = nn.Conv2d(channels, channels // 8, 1)
        self.key_conv = nn.Conv2d(channels, channels // 8, 1)
        self.value_conv = nn.Conv2d(channels, channels, 1)
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        query, key, value = self.query_conv(x), self.key_conv(x), self.value_conv(x)
        out = torch.zeros_like(x)
        for i in range(x.shape[2]):
            others = [a for a in range(x.shape[2]) if a != i]
            for j in range(x.shape[3]):
                keys, values = (torch.cat([t[:, :, others, j], t[:, :, i]], -1) for t in (key, value))
                weight = torch.einsum("bc,bcn->bn", query[:, :, i, j], keys).softmax(-1)
                out[:, :, i, j] = torch.einsum("bn,bcn->bc", weight, values)
        return self.gamma * out + x


@pytest.mark.parametrize("shape", [(3, 4), (9, 12)])  # as a matrix, and by lines
def test_weights_of_the_public_criss_cross_code_load_and_give_the_same(shape):
    public, block = filled(PublicCrissCross(16)), filled(CrissCross(16, recurrence=2, bias=True))
    counts = [sum(p.numel() for p in module.parameters()) for module in (public, block)]
    assert counts[0] == counts[1] == 2 * (16 * 2 + 2) + 16 * 16 + 16 + 1
    state = {f"module.head.cca.{name}": value for name, value in public.state_dict().items()}
    block.load_public({"module.conv1.weight": torch.zeros(1), **state})
    x = random(2, 16, *shape)
    torch.testing.assert_close(block(x), public(public(x)))


def test_weights_of_another_module_are_refused_as_criss_cross():
    state = PublicCrissCross(16).state_dict()
    for block, given, said in (
        (CrissCross(16), state, "has no theta.bias, where query_conv.bias belongs: build it with bias=True"),
        (CrissCross(8, bias=True), state, r"query_conv.weight of the public code is \(1, 8, 1, 1\) .* \(2, 16, 1, 1\)"),
        (CrissCross(16, bias=True), {"query_conv.weight": state["query_conv.weight"]}, "gamma .* got missing"),
        (CrissCross(16, bias=True), {"conv.weight": torch.zeros(1)}, "one criss-cross module .* found 0"),
    ):
        with pytest.raises(VergenceError, match=said):
            block.load_public(given)


@pytest.mark.parametrize("kernel", ["gaussian", "concatenation", "relu"])
def test_biases_are_added_to_embeddings_and_features(kernel):
    block, x = filled(NonlocalBlock(6, 4, graph=Graph(kernel), filter=Neighbours, bias=True)), random(2, 12, 6)
    query, key, z = (x @ layer.weight.mT + layer.bias for layer in (block.theta, block.phi, block.g))
    if kernel == "concatenation":
        m = ((query @ block.compare[0])[:, :, None] + (key @ block.compare[1])[:, None]).relu()
    else:
        m = (query @ key.mT).exp() if kernel == "gaussian" else query.relu() @ key.relu().mT
    a = (m / m.sum(-1, keepdim=True)).nan_to_num()  # a position of degree zero attends to nothing
    torch.testing.assert_close(block.operate(x), a @ z @ block.filter.w.weight.mT)
    torch.testing.assert_close(block.affinity(x).dense(), a)


def test_a_tied_chebyshev_block_is_the_free_one_with_multiples_of_one_matrix():
    tied = filled(ChebyshevNonlocal(8, order=3, weights="tied"))
    free = filled(ChebyshevNonlocal(8, order=3))
    x = random(2, 12, 8)
    with torch.no_grad():
        for coefficient, layer in zip(tied.filter.coefficients, free.filter.w, strict=True):
            layer.weight.copy_(coefficient * tied.filter.w[0].weight)
    z = random(2, 12, 4)
    torch.testing.assert_close(tied.filter(tied.affinity(x), z, z), free.filter(tied.affinity(x), z, z))


def test_jacobi_comes_to_the_exact_cayley_block():
    exact, near = (filled(CayleyNonlocal(8, order=2, solver=s, iterations=400)) for s in ("exact", "jacobi"))
    x = random(2, 8, 3, 4)
    torch.testing.assert_close(near(x), exact(x))


@pytest.mark.parametrize("kernel", ["embedded-gaussian", "gaussian", "dot", "concatenation"])
@pytest.mark.parametrize("shape", [(7,), (5, 4), (3, 5, 1), (1, 1)])
def test_sub_sampling_looks_at_the_largest_of_every_cell(kernel, shape):
    block, x = filled(Nonlocal(8, kernel=kernel, subsample=True)), random(2, 8, *shape)
    cell = (1, 2, 2) if len(shape) == 3 else (2,) * len(shape)
    pool = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}[len(shape)](cell, ceil_mode=True)
    tokens = x.flatten(2).mT
    theta, phi = (tokens, tokens) if kernel == "gaussian" else (block.theta(tokens), block.phi(tokens))
    if kernel == "concatenation":
        theta, phi = theta @ block.compare[0, :, None], phi @ block.compare[1, :, None]
    phi, z = (pool(t.mT.unflatten(-1, shape)).flatten(2).mT for t in (phi, block.g(tokens)))
    scores = theta + phi.mT if kernel == "concatenation" else theta @ phi.mT
    weight = scores.softmax(-1) if "gaussian" in kernel else scores / phi.shape[-2]
    weight = weight.relu() if kernel == "concatenation" else weight
    out = (weight @ z @ block.filter.w.weight.mT).mT / (1 + block.norm.eps) ** 0.5
    out = out * block.norm.weight[:, None] + block.norm.bias[:, None]
    torch.testing.assert_close(block(x), x + out.reshape(x.shape))
    assert block.attention(x, torch.tensor([0])).shape == (2, 1, *shape)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_that_share_an_affinity_take_it_from_what_comes_in_first(name):
    stage, x = filled(SharedAffinity(8, BLOCKS[name], 3)), random(2, 8, 3, 4)
    expected, affinity = x, stage.units[0].affinity(x.flatten(2).mT, (3, 4))
    for unit in stage.units:
        z = unit.g(expected.flatten(2).mT)
        expected = expected + unit.norm(unit.filter(affinity, z, z).mT).reshape(x.shape)
    torch.testing.assert_close(stage(x), expected)


def test_a_stage_has_the_embeddings_once():
    count = sum(p.numel() for p in SharedAffinity(64, SpectralNonlocal, 5).parameters())
    assert count == 2 * 64 * 32 + 5 * (3 * 64 * 32 + 2 * 64)


@pytest.mark.parametrize("kernel", ["dot", "gaussian", "concatenation", "sigmoid", "relu", "softmaxes"])
@pytest.mark.parametrize("normalise", ["row", "symmetric", "size", "none"])
def test_any_graph_goes_with_any_filter(kernel, normalise):
    for symmetrise in (False, True):
        for support in ("everywhere", "criss-cross", 1):
            graph = Graph(kernel, symmetrise, normalise, support)
            block = filled(NonlocalBlock(4, graph=graph, filter=lambda m, c: Chebyshev(m, c, order=2)))
            assert block(0.1 * random(1, 4, 3, 3)).isfinite().all()


# Number formats, compilers, exporters --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_near_and_does_not_overflow_where_degrees_do(name, kind):
    torch.manual_seed(0)
    block = filled(BLOCKS[name](16)).float()
    x = 20 * torch.rand(1, 16, 24, 24)  # the degree of a ReLU affinity exceeds 65504
    with torch.no_grad():
        exact, low = block(x), block.to(kind)(x.to(kind))
    assert low.dtype == kind
    assert low.isfinite().all()
    assert (low.float() - exact).norm() <= 0.05 * exact.norm()


@pytest.mark.parametrize("name", [n if n in VARIED else pytest.param(n, marks=pytest.mark.slow) for n in NAMES])
def test_compiling_breaks_no_graph(name):
    block, x = filled(BLOCKS[name](8, 2)), random(2, 8, 4, 4).requires_grad_()
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    same(compiled(x), block(x), [x, *block.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cayleysnl", "nl-concatenation", "cc"])
def test_compiling_breaks_no_graph_on_many_positions_either(name):
    block, x = filled(BLOCKS[name](8, 2)), random(2, 8, 18, 18).requires_grad_()
    torch._dynamo.reset()
    same(torch.compile(block, backend="aot_eager", fullgraph=True)(x), block(x), [x, *block.parameters()])


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_block_gives_the_same(name):
    block, x = filled(BLOCKS[name](8, 2)), random(2, 8, 4, 4)
    exported = torch.export.export(block, (x,), strict=False)
    torch.testing.assert_close(exported.module()(x), block(x))


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_map_of_one_position_works_and_cannot_teach_batchnorm(name):
    block = BLOCKS[name](8).eval()
    x = torch.randn(1, 8, 1, 1)
    assert torch.equal(block(x), x)
    if isinstance(block.norm, nn.BatchNorm1d):
        with pytest.raises(VergenceError, match="one position of one sample"):
            block.train()(x)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_map_gives_finite_values_and_gradients(name):
    block, x = filled(BLOCKS[name](8)), torch.zeros(2, 8, 3, 4, dtype=torch.float64, requires_grad=True)
    out = block(x)
    assert out.isfinite().all()
    for grad in torch.autograd.grad(out.sum(), [x, *block.parameters()]):
        assert grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_a_number_stays_one_and_in_its_own_sample(name):
    block, x = filled(BLOCKS[name](8)), random(2, 8, 3, 4)
    x[0, 2, 1, 1] = torch.nan
    out = block(x)
    assert out[0, :, 1, 1].isnan().any()
    assert out[1].isfinite().all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Nonlocal(0), "channels=0"),
        (lambda: CompactGeneralised(10, groups=4), "divisible by groups, got channels=10, inner=5 and groups=4"),
        (lambda: CrissCross(8, recurrence=0), "recurrence of at least 1, got 0"),
        (lambda: ChebyshevNonlocal(8, order=-1), "at least 0, got -1"),
        (lambda: CayleyNonlocal(8, order=0), "at least 1, got 0"),
        (lambda: SharedAffinity(8, Nonlocal, 0), "at least one unit, got 0"),
        (
            lambda: NonlocalBlock(8, graph=Graph(symmetrise=True), filter=Neighbours, subsample=True),
            "cannot sub-sample",
        ),
        (lambda: Nonlocal(8)(torch.zeros(2, 7, 4, 4)), r"takes \(batch, 8, positions...\), got \(2, 7, 4, 4\)"),
        (lambda: Nonlocal(8)(torch.zeros(2, 8)), r"got \(2, 8\)"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(make, said):
    with pytest.raises(VergenceError, match=said):
        make()


def test_every_block_says_what_it_is():
    for make in BLOCKS.values():
        assert inspect.getdoc(getattr(make, "func", make))
