"""Graph filters are the functions they stand for."""

import pytest
import torch
from numpy.polynomial import chebyshev as numpy_chebyshev
from torch.utils._python_dispatch import TorchDispatchMode

from vergence.ops import FactoredAffinity, cayley, chebyshev, laplacian_squared
from vergence.reference import nonlocal_block as plain


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_scalar_weights_scale_each_eigenvector_by_the_polynomial(order):
    generator = torch.Generator().manual_seed(order)
    a = torch.randn(9, 9, generator=generator, dtype=torch.float64)
    a = (a + a.mT) / 8
    z = torch.randn(9, 3, generator=generator, dtype=torch.float64)
    weights = torch.randn(order + 1, generator=generator, dtype=torch.float64)
    values, vectors = torch.linalg.eigh(a)
    response = torch.from_numpy(numpy_chebyshev.chebval(values.numpy(), weights.numpy()))
    expected = vectors @ (response[:, None] * (vectors.mT @ z))
    eye = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(chebyshev(a, z, [w * eye for w in weights]), expected)


def test_matrix_weights_mix_channels_after_the_filter():
    generator = torch.Generator().manual_seed(0)
    a, z, w0, w1, w2 = (
        torch.randn(s, generator=generator, dtype=torch.float64) for s in ((5, 5), (5, 2), (2, 4), (2, 4), (2, 4))
    )
    expected = z @ w0 + a @ z @ w1 + (2 * a @ a @ z - z) @ w2
    torch.testing.assert_close(chebyshev(a, z, [w0, w1, w2]), expected)


def symmetric(n=9, seed=0):
    """A factored affinity and its matrix."""
    source = torch.Generator().manual_seed(seed)
    u, v = (torch.rand(2, n, 2, generator=source, dtype=torch.float64).requires_grad_() for _ in range(2))
    return u, v, FactoredAffinity.symmetric(u, v)


def matrices(count, seed=1):
    source = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, generator=source, dtype=torch.float64).requires_grad_() for _ in range(count)]


FILTERS = {
    "chebyshev 1": (2, chebyshev),
    "chebyshev 4": (5, chebyshev),
    "second term": (2, lambda a, z, w: chebyshev(a, z, [None, *w[1:]]) + 0 * w[0].sum()),
    "laplacian": (2, lambda a, z, w: laplacian_squared(a, z, (w[0], w[1]))),
    "cayley 1": (2, lambda a, z, w: cayley(a, z, w, 0.8)),
    "cayley 3": (4, lambda a, z, w: cayley(a, z, w, 0.8)),
    "jacobi": (3, lambda a, z, w: cayley(a, z, w, 0.8, "jacobi", 7)),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_factored_affinity_is_filtered_as_its_matrix_is_forward_and_backward(name):
    count, filter = FILTERS[name]
    u, v, affinity = symmetric()
    z = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64).requires_grad_()
    weights = matrices(count)
    ours, theirs = filter(affinity, z, weights), filter(affinity.dense(), z, weights)
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn(ours.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    leaves = (u, v, z, *weights)
    found = [torch.autograd.grad(out, leaves, probe, retain_graph=True) for out in (ours, theirs)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("zoom", [0.1, 1.0, 30.0])
def test_the_cayley_filter_is_its_complex_definition(order, zoom):
    _, _, affinity = symmetric()
    z = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = matrices(order + 1)
    expected = plain.cayley(affinity.dense(), z, weights, torch.tensor(zoom, dtype=torch.float64))
    for a in (affinity, affinity.dense()):
        torch.testing.assert_close(cayley(a, z, weights, zoom), expected)


def test_the_cayley_filter_of_an_affinity_that_is_not_symmetric_is_its_definition_too():
    source = torch.Generator().manual_seed(0)
    a = torch.rand(7, 7, generator=source, dtype=torch.float64).softmax(-1)
    z = torch.randn(7, 3, generator=source, dtype=torch.float64)
    weights = matrices(4)
    expected = plain.cayley(a, z, weights, torch.tensor(1.3, dtype=torch.float64))
    torch.testing.assert_close(cayley(a, z, weights, 1.3), expected)


def test_jacobi_iterations_come_nearer_every_time():
    _, _, affinity = symmetric()
    z, weights = torch.randn(2, 9, 3, dtype=torch.float64), matrices(3)
    exact = cayley(affinity, z, weights, 1.5)
    errors = [float((cayley(affinity, z, weights, 1.5, "jacobi", n) - exact).detach().norm()) for n in (1, 10, 30, 300)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9


def test_the_zoom_is_learned():
    u, v, _ = symmetric(n=5)
    z, weights = torch.randn(1, 5, 3, dtype=torch.float64), matrices(3)
    zoom = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def filtered(u, v, zoom):
        return cayley(FactoredAffinity.symmetric(u[:1], v[:1]), z, weights, zoom)

    assert torch.autograd.gradcheck(filtered, (u, v, zoom))


def test_no_filter_of_a_factored_affinity_forms_a_matrix_of_all_positions():
    class Watch(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            tensors = out if isinstance(out, tuple | list) else (out,)
            self.largest = max([self.largest, *(t.numel() for t in tensors if isinstance(t, torch.Tensor))])
            return out

    n = 500
    u, v = (torch.rand(1, n, 2, requires_grad=True) for _ in range(2))
    z, weights = torch.randn(1, n, 3), [torch.randn(3, 3, requires_grad=True) for _ in range(5)]
    for count, filter in FILTERS.values():
        with Watch() as watch:
            filter(FactoredAffinity.symmetric(u, v), z, weights[:count]).sum().backward()
        assert watch.largest < 10 * n
