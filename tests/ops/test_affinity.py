"""An affinity is the matrix it stands for: same values, same gradients, at a fraction of the cost."""

import pytest
import torch

from saccade.ops import FactoredAffinity, SoftmaxAffinity


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
    for a, b in zip(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(theirs, leaves, probe), strict=True):
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


@pytest.mark.parametrize("kind", [SoftmaxAffinity, FactoredAffinity.symmetric])
def test_rows_are_rows_of_the_matrix(kind):
    affinity = kind(*factors())
    index = torch.tensor([0, 36, 5])
    torch.testing.assert_close(affinity.rows(index), affinity.dense()[..., index, :])


def test_gradcheck():
    u, v = factors(n=6, r=2, batch=1)
    z = torch.randn(1, 6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, v, z: FactoredAffinity.symmetric(u, v) @ z, (u, v, z))
    assert torch.autograd.gradcheck(lambda u, v, z: SoftmaxAffinity(u, v) @ z, (u, v, z))
