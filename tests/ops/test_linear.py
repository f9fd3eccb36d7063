"""Linear operators against matrices, other libraries and closed forms."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vergence.ops.linear import (
    Average,
    Bicubic,
    Blur,
    Coils,
    Dense,
    Fourier,
    Function,
    Identity,
    Mask,
    bicubic,
    gaussian,
    least_squares,
    random_projection,
)
from vergence.reference.linear import matrix


def noise(*shape, seed=0, kind=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=kind)


def test_average_is_average_pooling_and_its_inverse_repeats():
    x = noise(2, 3, 6, 9)
    operator = Average((6, 9), 3)
    torch.testing.assert_close(operator(x), F.avg_pool2d(x, 3))
    torch.testing.assert_close(operator.pinv(operator(x)), F.interpolate(F.avg_pool2d(x, 3), scale_factor=3))


@pytest.mark.parametrize("antialias", [True, False])
def test_bicubic_is_interpolation_and_its_inverse_has_the_condition_of_the_card(antialias):
    x = noise(1, 1, 40, 40)
    operator = Bicubic((40, 40), 2, antialias)
    torch.testing.assert_close(operator(x), F.interpolate(x, (20, 20), mode="bicubic", antialias=antialias))
    y = noise(1, 1, 20, 20, seed=1)
    torch.testing.assert_close(operator(operator.pinv(y)), y)  # HH† = I
    values = np.linalg.svd(matrix(Bicubic((40, 2), 2, antialias)), compute_uv=False)
    assert values.max() / values.min() == pytest.approx(1.45 if antialias else 1.37, abs=0.01)


def test_the_papers_bicubic_pair_is_no_inverse_of_white_noise():
    y = noise(1, 1, 20, 20)
    operator = Bicubic((40, 40), 2, True, "approx")
    torch.testing.assert_close(operator.pinv(y), F.interpolate(y, scale_factor=2, mode="bicubic"))
    assert not operator.closed
    again = F.interpolate(F.interpolate(y, scale_factor=2, mode="bicubic"), (20, 20), mode="bicubic", antialias=True)
    torch.testing.assert_close(operator(operator.pinv(y)), again)
    assert float((again - y).norm() / y.norm()) > 0.1


def test_banded_blocks_of_large_pictures_are_the_whole_matrix():
    x = noise(1, 400, 300)
    operator = bicubic(400, 300, 2)
    a, b = (torch.linalg.pinv(matrix(Bicubic((side, 2), 2)).view(side // 2, side, 2).sum(2)) for side in (400, 300))
    torch.testing.assert_close(operator.pinv(operator(x)), a @ operator(x) @ b.mT)
    single = operator.range(x.float())
    torch.testing.assert_close(single.double(), operator.range(x), atol=1e-5, rtol=1e-5)


def test_a_blur_is_circular_convolution_and_drops_weak_frequencies():
    from scipy.ndimage import convolve

    kernel = torch.rand(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = noise(16, 20)
    exact = Blur((16, 20), kernel, 1e-9)
    np.testing.assert_allclose(exact(x), convolve(x.numpy(), kernel.numpy(), mode="wrap"), atol=1e-12)
    torch.testing.assert_close(exact.pinv(exact(x)), x, atol=1e-6, rtol=0)
    cut = Blur((16, 20), gaussian(2.0)[1:-1, 1:-1], 0.1)
    strength = torch.fft.fft2(cut.range(noise(16, 20, seed=3))).abs()
    assert 0 < int((strength > 1e-9).sum()) < 320
    assert float(cut.pinv(noise(16, 20, seed=4)).norm() / noise(16, 20, seed=4).norm()) < 10


def test_frequencies_of_real_pictures_determine_their_mirror_images():
    mask = torch.zeros(8, 8, dtype=torch.bool)
    mask[1, 2] = True
    x = noise(8, 8)
    kept = torch.fft.fft2(Fourier(mask, "real").range(x))
    assert sorted(map(tuple, (kept.abs() > 1e-9).nonzero().tolist())) == [(1, 2), (7, 6)]


def test_several_coils_that_see_everything_give_the_picture_back():
    maps = noise(4, 12, 10, kind=torch.complex128)
    operator = Coils(maps, torch.ones(12, 10, dtype=torch.bool), 1e-12)
    x = noise(2, 12, 10, seed=5, kind=torch.complex128)
    torch.testing.assert_close(operator.pinv(operator(x)), x, atol=1e-8, rtol=0)


def test_conjugate_gradients_reach_their_tolerance_for_every_sample():
    operator = random_projection((5, 4), 8, torch.Generator().manual_seed(0))
    y = torch.stack([1e-3 * noise(8), 1e3 * noise(8, seed=1), torch.zeros(8, dtype=torch.float64)])
    x = least_squares(operator.forward, operator.adjoint, y, (2, 1), 1e-10)
    torch.testing.assert_close(x, operator.pinv(y), rtol=1e-6, atol=1e-10)


def test_composition_applies_one_after_the_other():
    known = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.8
    both = Average((8, 8), 2) @ Mask(known)
    x = noise(8, 8)
    torch.testing.assert_close(both(x), F.avg_pool2d((x * known)[None], 2)[0])
    assert not both.closed
    torch.testing.assert_close(both.pinv(both(x)), (torch.linalg.pinv(matrix(both)) @ both(x).flatten()).view(8, 8),
                               atol=1e-6, rtol=0)  # fmt: skip
    with pytest.raises(ValueError, match=r"one gives \(4, 4\), the next takes \(8, 8\)"):
        Mask(known) @ Average((8, 8), 2)


def test_any_function_joins_if_its_adjoint_is_one():
    def forward(x):
        return x.cumsum(-1)

    def adjoint(y):
        return y.flip(-1).cumsum(-1).flip(-1)

    operator = Function(forward, adjoint, (6,), (6,), tolerance=1e-12)
    x = noise(3, 6)
    torch.testing.assert_close(operator.pinv(forward(x)), x, atol=1e-8, rtol=0)
    with pytest.raises(ValueError, match=r"the adjoint is not one: .* differ by [\d.e-]+ of their size"):
        Function(forward, forward, (6,), (6,))
    with pytest.raises(ValueError, match=r"gives \(3,\)"):
        Function(lambda x: x[..., ::2], lambda y: y, (6,), (6,))


def test_wrong_sizes_masks_and_kernels_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="multiples of it"):
        Average((5, 6), 2)
    with pytest.raises(ValueError, match="multiples of it"):
        Bicubic((2, 4), 4)
    with pytest.raises(ValueError, match="no frequency"):
        Fourier(torch.zeros(4, 4))
    with pytest.raises(ValueError, match="is no larger"):
        Blur((4, 4), torch.ones(5, 5))
    with pytest.raises(ValueError, match="finite kernel"):
        Blur((8, 8), torch.full((3, 3), torch.nan))
    with pytest.raises(ValueError, match="16 columns"):
        Dense(torch.ones(3, 4), (4, 4))
    with pytest.raises(ValueError, match="1 to 16 random"):
        random_projection((4, 4), 17, torch.Generator())
    with pytest.raises(ValueError, match="sensitivities"):
        Coils(torch.ones(2, 4, 4), torch.ones(4, 5))


def test_the_largest_singular_value_is_that_of_the_matrix():
    for operator in (Average((6, 6), 2), Bicubic((8, 8), 2), Identity((3, 3)), Blur((8, 8), gaussian(0.5))):
        top = float(np.linalg.svd(matrix(operator), compute_uv=False).max())
        assert operator.largest(200) == pytest.approx(top, rel=1e-3)
