"""Templates are found where they are, at the size they have."""

import pytest
import torch
import torch.nn.functional as F

from vergence.ops.correlation import cross_correlation, nonparametric_scale_convolution, rescale
from vergence.reference import scale as plain


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bump(size, centre, width, channels=2):
    """Smooth functions of place, known everywhere: (1, channels, size, size)."""
    place = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    x, y = place[:, None] - centre[0], place - centre[1]
    base = torch.exp(-(x**2 + y**2) / (2 * width**2))
    return torch.stack([base, base * x / width])[None, :channels]


@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_correlation_is_its_definition(learning, layout):
    template, search = normal(3, 4, 3, 2), normal(3, 4, 7, 9, seed=1).contiguous(memory_format=layout)
    with torch.set_grad_enabled(learning):
        each, one = cross_correlation(template, search), cross_correlation(template[:1], search)
    torch.testing.assert_close(each, plain.correlation(template, search))
    torch.testing.assert_close(one, plain.correlation(template[:1].expand(3, -1, -1, -1), search))
    with pytest.raises(ValueError, match="2 templates for 3 searches"):
        cross_correlation(template[:2], search)


@pytest.mark.parametrize(("side", "new"), [(9, 17), (9, 25), (10, 19), (21, 11), (17, 17)])
def test_rescaling_is_pytorchs_where_that_keeps_the_factor(side, new):
    x = normal(2, 3, side, side)
    theirs = F.interpolate(x, size=(new, new), mode="bicubic", align_corners=True)
    torch.testing.assert_close(rescale(x, (new - 1) / (side - 1), (new, new)), theirs)


@pytest.mark.parametrize("factor", [1 / 1.4, 1 / 1.2, 1.2, 1.37])
def test_rescaling_is_bicubic_sampling_about_the_centre(factor):
    x = normal(1, 2, 11, 14)
    size = (13, 12)
    torch.testing.assert_close(rescale(x, factor, size), plain.rescale(x, factor, size))


def test_rescaling_covers_what_it_makes_and_has_right_gradients():
    assert rescale(normal(1, 1, 9, 8), 2).shape == (1, 1, 17, 16)
    assert rescale(normal(1, 1, 9, 9), 0.5).shape == (1, 1, 5, 5)
    x = normal(1, 1, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rescale(x, 1.3), (x,))


def test_at_its_own_size_the_scale_convolution_is_correlation():
    template, search = normal(2, 3, 3, 3), normal(2, 3, 9, 9, seed=1)
    ours = nonparametric_scale_convolution(template, search, [1.0])
    torch.testing.assert_close(ours, cross_correlation(template, search).unsqueeze(1))


@pytest.mark.parametrize("factor", [1 / 1.2, 1.2, 2.0])
def test_the_scale_convolution_is_its_formula(factor):
    template, search = normal(2, 3, 3, 3), normal(2, 3, 9, 9, seed=1)
    large = plain.rescale(search, factor, (25, 25))  # with room to spare
    response = plain.correlation(template, large)
    expected = plain.rescale(response[:, None], 1 / factor, (7, 7))
    torch.testing.assert_close(
        nonparametric_scale_convolution(template, search, [factor])[:, 0, 1:-1, 1:-1], expected[:, 0, 1:-1, 1:-1]
    )


@pytest.mark.parametrize(("factor", "shift"), [(2.0, 1), (1.5, 2), (0.5, 2)])
def test_moving_the_search_by_whole_cells_moves_the_response(factor, shift):
    """Exact where the moved search still falls on the rescaled grid: factor times shift is whole."""
    template, search = normal(1, 2, 3, 3), F.pad(normal(1, 2, 9, 9, seed=1), (6,) * 4)
    moved = torch.roll(search, (shift, -shift), (-2, -1))
    before = nonparametric_scale_convolution(template, search, [factor])
    after = nonparametric_scale_convolution(template, moved, [factor])
    torch.testing.assert_close(
        after[..., shift + 2 : -2, 2 : -shift - 2],
        torch.roll(before, (shift, -shift), (-2, -1))[..., shift + 2 : -2, 2 : -shift - 2],
    )
    assert (after - before).abs().max() > 0.1


def test_enlarging_the_search_moves_the_response_in_scale():
    """Eq. 3 for functions known everywhere: what is left is the error of interpolation."""
    template = bump(9, (0, 0), 1.8)
    small, large = bump(41, (3, -2), 1.8), bump(41, (6, -4), 3.6)  # twice as large about the centre
    factors = [0.5, 1.0, 2.0]
    one, two = (nonparametric_scale_convolution(template, f, factors)[0] for f in (small, large))
    for index in (0, 1):  # [L_2 f1 ⋆ f2](s) = L_2 [f1 ⋆ f2](2 s)
        expected = rescale(one[index + 1], 2.0, tuple(two.shape[-2:]))
        error = (two[index] - expected)[4:-4, 4:-4].square().sum() / expected[4:-4, 4:-4].square().sum()
        assert error < 2e-3
        same = rescale(one[index], 2.0, tuple(two.shape[-2:]))
        assert ((two[index] - same).square().sum() / same.square().sum()) > 0.05
    peak = two[0].flatten().argmax()
    assert divmod(int(peak), two.shape[-1]) == (16 + 6, 16 - 4)


def test_functions_of_scale_move_along_their_scales():
    """A search region enlarged by one step responds, at the inverse factor, as the original does."""
    template = torch.stack([s * bump(9, (0, 0), 1.6 + 0.4 * s, 1) for s in (1, 2, 3, 4)], 2)
    search = torch.stack([s * bump(33, (0, 0), 1.6 + 0.4 * s, 1) for s in (1, 2, 3, 4)], 2)
    larger = torch.cat([torch.zeros_like(search[:, :, :1]), rescale(search[:, :, :-1], 1.5, (33, 33))], 2)
    factors = [1 / 1.5, 1.0, 1.5]
    found = nonparametric_scale_convolution(template, larger, factors, 1.5)[0, :, 12, 12]
    alone = cross_correlation(template[:, :, :3].flatten(1, 2), search[:, :, :3].flatten(1, 2))[0, 12, 12]
    expected = 4 / 3 * alone  # three of four scales overlap, weighted up
    assert abs(found[0] / expected - 1) < 1e-2  # interpolation
    assert abs(found[1] / expected - 1) > 0.1


def test_gradients_of_the_scale_convolution():
    template, search = normal(1, 1, 2, 3, 3).requires_grad_(), normal(1, 1, 2, 6, 5, seed=1).requires_grad_()
    run = lambda z, x: nonparametric_scale_convolution(z, x, [0.5, 1.0, 2.0], 2.0)  # noqa: E731
    assert run(template, search).shape == (1, 3, 4, 3)
    assert torch.autograd.gradcheck(run, (template, search))


def test_what_cannot_be_connected_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        nonparametric_scale_convolution(normal(1, 2, 5, 5), normal(1, 2, 4, 9), [1.0])
    for step in (1.4, None):
        with pytest.raises(ValueError, match="by a whole number of steps"):
            nonparametric_scale_convolution(normal(1, 2, 3, 3, 3), normal(1, 2, 3, 9, 9), [1.2], step)
