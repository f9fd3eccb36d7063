"""Line integrals, their normalisation and invariants are those of their definitions, forward and backward."""

import math

import numpy as np
import pytest
import torch

from vergence.ops.lines import (
    binding_integrals,
    directions,
    fourier_invariants,
    line_offsets,
    normalise_rows,
    polar_moments,
    signature,
    square_root,
    supports,
    trace_transform,
)
from vergence.reference import lines as plain


def noise(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def blob(height=23, width=31, seed=1):
    """A smooth image with a shape in it, zero at the border."""
    y, x = torch.meshgrid(
        *(torch.linspace(-1, 1, side, dtype=torch.float64) for side in (height, width)), indexing="ij"
    )
    bump = (1.2 - 2.2 * x**2 - 1.9 * y**2 + 0.8 * torch.sin(3 * x + 2 * y + seed)).clamp(0, 1)
    return bump * (x.abs() < 0.95) * (y.abs() < 0.95)


RATIOS = (torch.arange(6, dtype=torch.float64) + 0.5) / 6


def test_every_line_is_the_sum_of_its_samples():
    images = noise(2, 9, 14)
    angles = directions(24, images)[:13] + 0.05
    offsets = 20 * noise(2, 5, 13, seed=3) - 4
    ours = trace_transform(images, offsets, angles)
    for b in range(2):
        for k in range(5):
            for n in range(13):
                theirs = plain.image_integral(images[b].numpy(), float(offsets[b, k, n]), float(angles[n]))
                assert float(ours[b, k, n]) == pytest.approx(theirs, abs=1e-10)


def test_pieces_do_not_change_the_result(monkeypatch):
    images = torch.stack([blob(), blob(seed=2)])
    whole = binding_integrals(images, RATIOS, 20)
    monkeypatch.setitem(__import__("vergence.ops.lines", fromlist=["SAMPLES"]).SAMPLES, "cpu", 10)
    assert torch.equal(binding_integrals(images, RATIOS, 20), whole)


def test_gradients_of_integrals_and_supports():
    image = blob(5, 7)[None].requires_grad_()
    angles = directions(10, image)[::2] + 0.13
    offsets = (4 * noise(1, 2, 5) + 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda i, o: trace_transform(i, o, angles), (image, offsets))
    assert torch.autograd.gradcheck(lambda i: supports(i, angles), (blob(5, 7)[None].requires_grad_(),))


def test_gradients_of_the_normalised_rows():
    rows = (1 + noise(2, 12)).requires_grad_()

    def whole(rows):
        return fourier_invariants(normalise_rows(rows, square_root(polar_moments(rows))))

    assert torch.autograd.gradcheck(whole, (rows,))
    round_rows = torch.full((1, 12), 2.0, dtype=torch.float64, requires_grad=True)  # both eigenvalues are equal
    (gradient,) = torch.autograd.grad(square_root(polar_moments(round_rows)).sum(), round_rows)
    assert gradient.isfinite().all()


def test_the_support_is_the_least_over_all_points_of_the_contour():
    image = blob()
    angles = directions(36, image)
    points = []  # where the level is crossed between any two neighbours
    padded = torch.nn.functional.pad(image, (1, 1, 1, 1))
    for y in range(padded.shape[0]):
        for x in range(padded.shape[1]):
            for dy, dx in ((0, 1), (1, 0)):
                if y + dy < padded.shape[0] and x + dx < padded.shape[1]:
                    a, b = float(padded[y, x]), float(padded[y + dy, x + dx])
                    if (a >= 0.5) != (b >= 0.5):
                        t = (a - 0.5) / (a - b)
                        points.append((x - 1 + t * dx, y - 1 + t * dy))
    points = torch.tensor(points, dtype=torch.float64)
    expected = (points @ torch.stack([angles.cos(), angles.sin()])).amin(0)
    assert torch.allclose(supports(image[None], angles)[0], expected, atol=1e-12)


def test_holes_and_bays_do_not_change_the_support_but_the_integrals():
    mask = torch.zeros(1, 20, 30, dtype=torch.float64)
    mask[0, 3:17, 4:26] = 1
    holed = mask.clone()
    holed[0, 7:12, 10:16] = 0
    holed[0, 3:8, 18:21] = 0  # a bay at the border
    angles = directions(16, mask)
    assert torch.equal(supports(mask, angles), supports(holed, angles))
    assert not torch.allclose(binding_integrals(mask, RATIOS, 16), binding_integrals(holed, RATIOS, 16))


def test_a_mask_reaches_half_a_pixel_beyond_its_pixels_also_at_the_border():
    mask = torch.ones(1, 4, 6, dtype=torch.float64)
    left, top, right, bottom = supports(mask, torch.tensor([0, 0.5, 1, 1.5], dtype=torch.float64) * math.pi)[0].tolist()
    assert (left, top, right, bottom) == pytest.approx((-0.5, -0.5, -5.5, -3.5))
    # Every row and column is crossed where the mask is 1.
    assert trace_transform(mask, torch.tensor([[[2.0]]]), torch.tensor([0.0])).item() == 4


def test_offsets_go_from_the_centre_to_the_binding_line():
    support = noise(1, 8) - 3
    offsets = line_offsets(support, torch.tensor([0.0, 1.0], dtype=torch.float64))[0]
    opposite = support[0].roll(-4)
    assert torch.allclose(offsets[0], (support[0] - opposite) / 2)
    assert torch.allclose(offsets[1], support[0])
    assert (-opposite - support[0] >= 0).all()


def disc(radius, side=64, finer=16):
    n = side * finer
    place = (torch.arange(n, dtype=torch.float64) + 0.5) / finer - 0.5 - (side - 1) / 2
    inside = (place[:, None] ** 2 + place**2 <= radius**2).double()
    return torch.nn.functional.avg_pool2d(inside[None], finer)[0]


def test_a_disc_has_the_chords_of_its_closed_form():
    ours = binding_integrals(disc(28.0)[None], RATIOS, 24)[0]
    expected = 2 * 28.0 * (1 - RATIOS**2).sqrt()
    assert (ours - expected[:, None]).abs().amax() < 0.6  # of a pixel
    assert ((ours.mean(1) - expected) / expected).abs().amax() < 0.01


def test_all_lines_of_a_direction_add_up_to_the_area():
    image = blob(61, 83)
    ratios = (torch.arange(200, dtype=torch.float64) + 0.5) / 200
    count = 36
    rows = binding_integrals(image[None], ratios, count)[0]
    support = supports(image[None], directions(count, image))[0]
    half = (-support.roll(-count // 2) - support) / 2
    areas = half * (rows + rows.roll(-count // 2, -1)).mean(0)
    inside = (image * (image >= 0.5)).sum()
    # What is outside the contour (values below the level) may count, beyond the binding lines nothing does.
    assert (areas >= 0.97 * inside).all()
    assert (areas <= 1.01 * image.sum()).all()
    mask = (image >= 0.5).double()
    rows = binding_integrals(mask[None], ratios, count)[0]
    support = supports(mask[None], directions(count, image))[0]
    half = (-support.roll(-count // 2) - support) / 2
    areas = half * (rows + rows.roll(-count // 2, -1)).mean(0)
    assert (areas / mask.sum() - 1).abs().amax() < 0.004


def test_the_centre_line_is_its_own_opposite():
    row = binding_integrals(blob()[None], torch.zeros(1, dtype=torch.float64), 20)[0, 0]
    assert torch.allclose(row, row.roll(10), atol=1e-12)


def test_turning_by_a_quarter_shifts_rows_and_mirroring_reverses_them():
    image, count = blob(), 40
    rows = binding_integrals(image[None], RATIOS, count)[0]
    turned = binding_integrals(image.rot90(-1)[None], RATIOS, count)[0]  # clockwise, as angles grow with y down
    assert torch.allclose(turned, rows.roll(count // 4, -1), atol=1e-9)
    mirrored = binding_integrals(image.flip(0)[None], RATIOS, count)[0]  # θ becomes -θ
    assert torch.allclose(mirrored, rows.flip(-1).roll(1, -1), atol=1e-9)
    roots = [square_root(polar_moments(r)) for r in (rows, turned, mirrored)]
    ours, *others = (
        fourier_invariants(normalise_rows(r, d)) for r, d in zip((rows, turned, mirrored), roots, strict=True)
    )
    # Angles after Eq. 24 fall between those of the grid, so a shift is interpolated too.
    assert all((ours - other).abs().amax() < 1e-9 for other in others)


def test_moving_changes_nothing():
    image = blob()
    moved = torch.nn.functional.pad(image, (5, 2, 9, 4))
    assert torch.allclose(binding_integrals(image[None], RATIOS, 20), binding_integrals(moved[None], RATIOS, 20))


def ellipse_rows(matrix, ratios, count):
    """The chords of the ellipse that a matrix makes of the unit disc, in closed form."""
    angles = directions(count, matrix)
    stretched = (matrix.mT @ torch.stack([angles.cos(), angles.sin()])).norm(dim=0)
    return 2 * torch.linalg.det(matrix).abs() * (1 - ratios[:, None] ** 2).sqrt() / stretched


SHEAR = torch.tensor([[2.0, 0.7], [-0.3, 0.9]], dtype=torch.float64)


def test_moments_of_an_ellipse_are_those_of_the_region_and_follow_equation_18():
    before, after = ellipse_rows(torch.eye(2, dtype=torch.float64), RATIOS, 180), ellipse_rows(SHEAR, RATIOS, 180)
    radius = 2 * (1 - RATIOS**2).sqrt()
    expected = (math.pi * radius**4 / 4)[:, None, None] * torch.eye(2, dtype=torch.float64)
    assert torch.allclose(polar_moments(before), expected, atol=1e-10)
    inverse, size = torch.linalg.inv(SHEAR), torch.linalg.det(SHEAR).abs()
    assert torch.allclose(polar_moments(after), size**3 * inverse.mT @ polar_moments(before) @ inverse, atol=1e-10)


def test_moments_are_their_sum():
    rows = noise(3, 14)
    for row, ours in zip(rows, polar_moments(rows), strict=True):
        assert np.allclose(ours.numpy(), plain.moments(row.numpy()), atol=1e-12)


def test_the_root_is_symmetric_and_squares_to_its_matrix():
    factor = noise(5, 2, 2) + 0.1
    matrix = factor @ factor.mT
    root = square_root(matrix)
    assert torch.allclose(root @ root.mT, matrix, atol=1e-12)
    assert torch.equal(root, root.mT)
    assert (torch.linalg.det(root) > 0).all()


def test_a_singular_matrix_has_a_root_of_its_size_and_a_thin_one_its_own():
    thin = torch.tensor([[4.0, 0.0], [0.0, 1e-8]], dtype=torch.float64)
    assert torch.allclose(square_root(thin) @ square_root(thin), thin, atol=1e-12)
    root = square_root(torch.tensor([[4.0, 0.0], [0.0, 0.0]], dtype=torch.float64))
    assert root[0, 0].item() == pytest.approx(2, abs=1e-5)
    assert 0 < root[1, 1].item() < 1e-5


def test_normalised_rows_and_invariants_are_their_definitions():
    rows = 1 + noise(4, 20)
    roots = square_root(polar_moments(rows))
    ours = normalise_rows(rows, roots)
    magnitudes = fourier_invariants(ours)
    for row, root, made, shares in zip(rows, roots, ours, magnitudes, strict=True):
        assert np.allclose(made.numpy(), plain.normalised(row.numpy(), root.numpy()), atol=1e-12)
        whole = plain.invariants(made.numpy())
        assert np.allclose(shares.numpy(), whole[:11], atol=1e-12)
        assert shares[0] == 1


def test_normalised_rows_of_an_ellipse_are_constant():
    """Between angles rows are linear, so the error falls with the square of the step."""
    errors = []
    for count in (90, 180, 360):
        rows = ellipse_rows(SHEAR, RATIOS, count)
        made = normalise_rows(rows, square_root(polar_moments(rows)))
        errors.append(float((made / made.mean(1, keepdim=True) - 1).abs().amax()))
    assert errors[1] < 5e-3
    assert errors[1] < errors[0] / 3.5
    assert errors[2] < errors[1] / 3.5


def test_another_root_only_turns_a_row():
    """Cholesky's root is the symmetric one times a rotation: on a fine grid the invariants are the same."""
    rows = ellipse_rows(SHEAR, RATIOS[:2], 4000) * (1 + 0.3 * torch.cos(3 * directions(4000, RATIOS) + 0.4))
    matrix = polar_moments(rows)
    one, other = (
        fourier_invariants(normalise_rows(rows, root)) for root in (square_root(matrix), torch.linalg.cholesky(matrix))
    )
    assert (one - other).abs().amax() < 1e-5
    assert one[:, 1:].amax() > 0.1


def test_the_signature_has_the_distance_of_the_whole_matrix():
    for count in (20, 21):
        spectra = torch.fft.fft(noise(2, 3, count)).abs()
        spectra = spectra / spectra[..., :1]
        whole = (spectra[0] - spectra[1]).abs().sum()
        one, other = signature(spectra[..., : count // 2 + 1], count)
        assert torch.allclose((one - other).abs().sum(), whole)
        assert len(one) == 3 * (count // 2)


@pytest.mark.parametrize("kind", ["empty", "point", "line", "full"])
def test_degenerate_shapes_give_finite_invariants_and_gradients(kind):
    image = torch.zeros(1, 16, 20)
    if kind == "point":
        image[0, 5, 7] = 1
    elif kind == "line":
        image[0, 5, 2:18] = 1
    elif kind == "full":
        image += 1
    image.requires_grad_()
    rows = binding_integrals(image, RATIOS, 12)
    made = fourier_invariants(normalise_rows(rows, square_root(polar_moments(rows))))
    made.sum().backward()
    assert made.isfinite().all()
    assert image.grad.isfinite().all()
    if kind == "empty":
        assert torch.equal(made[..., 0], torch.ones(1, 6))
        assert not made[..., 1:].any()


def test_half_precision_is_computed_in_single():
    image = blob().half()[None]
    assert binding_integrals(image, RATIOS, 12).dtype == torch.float32


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="opposite pairs"):
        directions(7, torch.zeros(1))
    with pytest.raises(ValueError, match="offsets"):
        trace_transform(torch.zeros(2, 4, 4), torch.zeros(1, 3, 5), torch.zeros(5))
