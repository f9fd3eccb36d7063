"""The Chebyshev filter is the polynomial it stands for."""

import pytest
import torch
from numpy.polynomial import chebyshev as numpy_chebyshev

from saccade.ops import chebyshev


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
