"""An affinity is the matrix it stands for: same values, same gradients, at a fraction of the cost."""

import pytest
import torch

from vergence.ops import (
    CrissCrossAffinity,
    FactoredAffinity,
    SoftmaxAffinity,
    SortedAffinity,
    TiledAffinity,
    crisscross,
)
from vergence.ops import affinity as affinities
from vergence.ops.compact import SeriesAffinity


def dense_affinity(u, v):
    """Straight from the definition: symmetrise, then normalise by the square roots of the degrees."""
    m = (u @ v.mT + v @ u.mT) / 2
    d = m.sum(-1)
    return m / (d[..., :, None] * d[..., None, :]).sqrt()


def factors(n=37, r=5, batch=2):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(batch, n, r, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2)]


def same(ours, theirs, leaves):
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1), dtype=ours.dtype)
    found = [torch.autograd.grad(out, leaves, probe, retain_graph=True) for out in (ours, theirs)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_factored_products_have_the_values_and_gradients_of_the_dense_matrix():
    u, v = factors()
    z = torch.randn(2, 37, 4, dtype=torch.float64, requires_grad=True)
    same(FactoredAffinity.symmetric(u, v) @ z, dense_affinity(u, v) @ z, (u, v, z))
    torch.testing.assert_close(FactoredAffinity.symmetric(u, v).dense(), dense_affinity(u, v))


def test_factored_eigenvalues_lie_in_the_unit_interval_and_reach_one():
    u, v = factors()
    eigenvalues = torch.linalg.eigvalsh(FactoredAffinity.symmetric(u, v).dense())
    assert eigenvalues.abs().max() <= 1 + 1e-9
    torch.testing.assert_close(eigenvalues.amax(-1), torch.ones(2, dtype=torch.float64))


def test_the_factored_affinity_keeps_the_square_roots_of_the_degrees():
    u, v = factors()
    m = (u @ v.mT + v @ u.mT) / 2
    root = m.sum(-1, keepdim=True).sqrt()
    torch.testing.assert_close(FactoredAffinity.symmetric(u, v) @ root, root)


def test_a_position_no_one_looks_at_stays_zero_and_has_finite_gradients():
    u, v = factors()
    mask = torch.ones(37, 1, dtype=torch.float64)
    mask[3] = 0
    out = FactoredAffinity.symmetric(u * mask, v * mask) @ torch.ones(2, 37, 1, dtype=torch.float64)
    assert out[:, 3].abs().max() == 0
    for grad in torch.autograd.grad(out.sum(), (u, v)):
        assert grad.isfinite().all()


def test_softmax_products_have_the_values_and_gradients_of_the_dense_matrix():
    u, v = factors()
    z = torch.randn(2, 37, 5, dtype=torch.float64, requires_grad=True)
    kernel = (u @ v.mT).exp()
    same(SoftmaxAffinity(u, v) @ z, kernel @ z / kernel.sum(-1, keepdim=True), (u, v, z))


def numbers(*tensors):
    """One scalar per position, of both signs."""
    return [t.sum(-1, keepdim=True) - t.shape[-1] / 2 for t in tensors]


FORMS = {
    "softmax": SoftmaxAffinity,
    "factored": lambda u, v: FactoredAffinity(u, v, 0.3),
    "factored by rows": lambda u, v: FactoredAffinity(u, v).by_rows(),
    "factored by roots": lambda u, v: FactoredAffinity(u, v).by_roots(),
    "mirrored": FactoredAffinity.symmetric,
    "mirrored by rows": lambda u, v: affinities.MirroredAffinity(torch.cat([u, v], -1)).by_rows(),
    "series": lambda u, v: SeriesAffinity(*numbers(u, v), (0.5, 0.3, -0.2)),
    "sorted": lambda u, v: SortedAffinity(*numbers(u, v), 0.5),
    "sorted by degree": lambda u, v: SortedAffinity(*numbers(u, v)).by_degree(),
    "criss-cross": lambda u, v: CrissCrossAffinity(u, v, (u.shape[-2] // 3, 3)),
    "criss-cross of one column": lambda u, v: CrissCrossAffinity(u, v, (u.shape[-2], 1)),
    "criss-cross in 3D": lambda u, v: CrissCrossAffinity(u, v, (u.shape[-2] // 6, 2, 3)),
    "tiled": lambda u, v: TiledAffinity.normalised(u - 0.5, v - 0.5, "sigmoid"),
    "tiled gaussian": lambda u, v: TiledAffinity.normalised(u, v, "gaussian"),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_rows_of_the_matrix_and_products_are_its_products(form, monkeypatch):
    monkeypatch.setattr(affinities, "TILE", 36 * 2 * 16)  # several tiles, the last one shorter
    u, v = factors(n=36)
    affinity = FORMS[form](u, v)
    index = torch.tensor([0, 35, 5])
    torch.testing.assert_close(affinity.rows(index), affinity.dense()[..., index, :])
    z = torch.randn(2, 36, 7, dtype=torch.float64, requires_grad=True)
    same(affinity @ z, affinity.dense() @ z, (u, v, z))


@pytest.mark.parametrize("series", [(0.5, 0.3), (0.5, 0.3, -0.2, 0.1)])
def test_a_series_is_a_polynomial_for_one_column_and_factors_for_several(series):
    u, v = numbers(*factors(n=36))
    z = torch.randn(2, 36, 2, dtype=torch.float64, requires_grad=True)
    affinity = SeriesAffinity(u, v, series)
    expected = sum(c * (u * v.mT) ** k for k, c in enumerate(series))
    torch.testing.assert_close(affinity.dense(), expected)
    same(affinity @ z[..., :1], expected @ z[..., :1], (u, v, z))
    same(affinity @ z, expected @ z, (u, v, z))


@pytest.mark.parametrize("form", FORMS)
def test_gradcheck(form):
    u, v = factors(n=6, r=2, batch=1)
    z = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, v, z: FORMS[form](u, v) @ z, (u, v, z))


@pytest.mark.parametrize("kind", ["sigmoid", "gaussian"])
def test_tiles_give_the_symmetric_normalised_matrix_of_the_definition(kind):
    u, v = (t - 0.5 for t in factors(n=300, batch=1))
    m = (u @ v.mT).sigmoid() if kind == "sigmoid" else (u @ v.mT).exp()
    m = (m + m.mT) / 2
    degree = m.sum(-1)
    expected = m / (degree[..., :, None] * degree[..., None, :]).sqrt()
    torch.testing.assert_close(TiledAffinity.normalised(u, v, kind).dense(), expected)


def test_a_sorted_affinity_counts_pairs_that_tie_as_nothing():
    a, b = torch.tensor([[-1.0], [0.0], [2.0]]), torch.tensor([[1.0], [1.0], [-2.0], [0.0]])
    z = torch.randn(4, 3)
    torch.testing.assert_close(SortedAffinity(a, b) @ z, (a + b.mT).relu() @ z)


@pytest.mark.parametrize("width", [1, 5, 8])
def test_values_of_any_width_go_through_the_fused_kernel(width, monkeypatch):
    seen = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def spy(query, key, value, **options):
        seen.append(torch._fused_sdp_choice(query, key, value, scale=1.0))
        return fused(query, key, value, **options)

    monkeypatch.setattr(affinities.F, "scaled_dot_product_attention", spy)
    u, v = (t.detach().float() for t in factors())
    z = torch.randn(2, 37, width)
    torch.testing.assert_close(SoftmaxAffinity(u, v) @ z, (u @ v.mT).softmax(-1) @ z)
    assert seen == [1]  # flash attention; 0 would be the whole matrix


def test_softmax_affinities_take_any_number_of_batch_dimensions():
    for shape in ((), (2,), (2, 3), (2, 3, 4)):
        u, v, z = (torch.randn(*shape, 6, width) for width in (3, 3, 5))
        torch.testing.assert_close(SoftmaxAffinity(u, v) @ z, (u @ v.mT).softmax(-1) @ z)


def test_a_degree_beyond_half_precision_does_no_harm():
    u, v = (100 * t.detach().float() for t in factors())
    exact = FactoredAffinity.symmetric(u, v)
    half = FactoredAffinity.symmetric(u.half(), v.half())
    assert (u @ v.mT).sum(-1).max() > torch.finfo(torch.float16).max
    torch.testing.assert_close(half.dense().float(), exact.dense(), rtol=5e-3, atol=1e-4)


def test_supports_are_rows_and_columns_and_squares():
    cross = crisscross.criss_cross((3, 4))
    assert cross.sum(-1).tolist() == [3 + 4 - 1] * 12
    assert cross[5].reshape(3, 4).int().tolist() == [[0, 1, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]]
    assert crisscross.criss_cross((2, 3, 4)).sum(-1).tolist() == [2 + 3 + 4 - 2] * 24
    near = crisscross.window((3, 4), 1)
    assert near[0].reshape(3, 4).int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_degrees_that_all_but_vanish_give_gradients_that_are_numbers():
    """Sigmoids far below zero leave sums so small that the gradient of the inverse root overflows float32."""
    query = torch.full((1, 4, 1), -9.2, requires_grad=True)
    key = torch.full((1, 4, 1), 9.2, requires_grad=True)
    assert 0 < float(torch.sigmoid(query.detach()[0, 0] @ key.detach()[0, 0])) < 1e-30
    affinity = TiledAffinity.normalised(query, key, "sigmoid")
    out = affinity @ torch.ones(1, 4, 2)
    out.square().sum().backward()
    assert torch.equal(out, torch.zeros_like(out))  # these positions attend to nothing
    assert query.grad.isfinite().all()
    assert key.grad.isfinite().all()
