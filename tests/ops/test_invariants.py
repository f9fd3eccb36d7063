"""Moments, autoconvolutions and traces are those of their definitions, and as invariant as they should be."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from vergence.ops.invariants import (
    affine_moment_invariants,
    central_moments,
    multiscale_autoconvolution,
    projections,
    r_transform,
    triple_features,
    weight_triples,
)

SIDE = 96
PLACE = torch.arange(SIDE, dtype=torch.float64) - (SIDE - 1) / 2
Y, X = torch.meshgrid(PLACE, PLACE, indexing="ij")


def shape(matrix, finer=4):
    """A blob with a bay and a hole, mapped by a matrix and drawn with antialiasing."""
    inverse = torch.linalg.inv(torch.tensor(matrix, dtype=torch.float64))
    fine = (torch.arange(SIDE * finer, dtype=torch.float64) + 0.5) / finer - SIDE / 2
    y, x = torch.meshgrid(fine, fine, indexing="ij")
    x, y = inverse[0, 0] * x + inverse[0, 1] * y, inverse[1, 0] * x + inverse[1, 1] * y
    angle, radius = torch.atan2(y, x), torch.hypot(x, y)
    outline = 18 + 5 * torch.cos(3 * angle + 0.5) + 3 * torch.sin(2 * angle)
    hole = torch.hypot(x - 6, y + 3) < 4
    return F.avg_pool2d(((radius < outline) & ~hole).double()[None], finer)[0]


SAME = ((1.0, 0.0), (0.0, 1.0))
MAPS = (SAME, ((1.5, 0.4), (-0.2, 0.8)), ((0.5, 1.1), (1.3, 0.1)))  # the last mirrors
IMAGES = torch.stack([shape(matrix) for matrix in MAPS])


def test_moments_are_their_sums():
    image = IMAGES[1]
    area = float(image.sum())
    mean_x, mean_y = float((image * X).sum()) / area, float((image * Y).sum()) / area
    ours = central_moments(image[None])[0]
    for p in range(4):
        for q in range(4):
            total = float((image * (X - mean_x) ** p * (Y - mean_y) ** q).sum())
            assert float(ours[p, q]) == pytest.approx(total / area ** (1 + (p + q) / 2), abs=1e-10)


def test_moment_invariants_follow_their_formulas_and_do_not_change_under_affine_maps():
    m = central_moments(IMAGES[:1])[0].numpy()
    second = m[2, 0] * m[0, 2] - m[1, 1] ** 2
    made = affine_moment_invariants(IMAGES)
    assert float(made[0, 0]) == pytest.approx(math.sqrt(second), abs=1e-12)
    assert torch.allclose(made, made[:1].expand_as(made), rtol=0.02)
    # The determinant of the moments of area 1 of any ellipse.
    disc = (torch.hypot(X, Y) < 40).double()
    assert float(affine_moment_invariants(disc[None])[0, 0]) == pytest.approx(1 / (4 * math.pi), rel=1e-3)


def test_moment_invariants_of_exact_moments_do_not_change():
    """On three weighted points a map needs no pixels, so the formulas are checked to rounding."""
    points = np.array([[3.0, 1.0], [-2.0, 4.0], [1.0, -5.0], [0.5, 0.5]])
    weights = np.array([1.0, 2.0, 0.5, 1.5])

    def moments(at, mass):
        centred = at - mass @ at / mass.sum()
        table = [
            [mass @ (centred[:, 0] ** p * centred[:, 1] ** q) / mass.sum() ** (1 + (p + q) / 2) for q in range(4)]
            for p in range(4)
        ]
        return torch.tensor(np.array(table))[None]

    found = []
    for matrix in MAPS:
        matrix = np.array(matrix)
        # A map multiplies a density's mass by its determinant.
        table = moments(points @ matrix.T, weights * abs(np.linalg.det(matrix)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("vergence.ops.invariants.central_moments", lambda _, table=table: table)
            found.append(affine_moment_invariants(IMAGES[:1])[0])
    assert torch.allclose(found[0], found[1], atol=1e-12)
    assert torch.allclose(found[0], found[2], atol=1e-12)
    assert found[0].abs().amin() > 1e-3


def test_autoconvolution_is_a_probability():
    image = IMAGES[0]
    triples = weight_triples()
    assert len(triples) == len(set(triples)) == 29
    ours = multiscale_autoconvolution(image[None], triples)[0]
    random = np.random.default_rng(0)
    mask = image.numpy()
    pixels, chance = np.argwhere(mask > 0), mask[mask > 0] / mask.sum()
    count = 100_000
    drawn = [
        pixels[random.choice(len(pixels), count, p=chance)] + random.uniform(-0.5, 0.5, (count, 2)) for _ in range(3)
    ]
    for triple, value in zip(triples, ours, strict=True):
        place = np.round(sum(w * points for w, points in zip(triple, drawn, strict=True))).astype(int)
        inside = ((place >= 0) & (place < SIDE)).all(1)
        hits = np.where(inside, mask[tuple(np.where(inside[:, None], place, 0).T)], 0).mean()
        assert float(value) == pytest.approx(hits, abs=0.012), triple


def test_autoconvolution_of_a_convex_shape_is_one_unless_a_weight_is_negative():
    disc = (torch.hypot(X, Y) < 40).double()[None]
    box = ((X.abs() < 30) & (Y.abs() < 17)).double()[None]
    for image in (disc, box):
        for triple, value in zip(weight_triples(), multiscale_autoconvolution(image)[0], strict=True):
            assert (abs(float(value) - 1) < 0.0015) == (min(triple) >= 0)


@pytest.mark.parametrize("describe", [multiscale_autoconvolution, triple_features])
def test_affine_maps_change_a_shape_less_than_another_shape_does(describe):
    made = describe(IMAGES)
    within = (made - made[:1]).abs().sum(1).amax()
    square = describe(((X.abs() < 24) & (Y.abs() < 24)).double()[None])
    assert (square - made).abs().sum(1).amin() > 4 * within


def test_each_pair_of_functionals_is_invariant_by_itself():
    made = triple_features(IMAGES).unflatten(1, (10, 12))
    square = triple_features(((X.abs() < 24) & (Y.abs() < 24)).double()[None]).unflatten(1, (10, 12))
    within, across = (made - made[:1]).abs().sum(2).amax(0), (made - square).abs().sum(2).amin(0)
    assert (within < 0.5 * across).all()


def test_the_r_transform_knows_turns_but_not_shears():
    made = r_transform(torch.stack([IMAGES[0], IMAGES[0].rot90(), IMAGES[1]]))
    assert torch.allclose(made[0], made[1], atol=1e-9)
    assert (made[0] - made[2]).abs().sum() > 0.1


def test_projections_have_the_area_in_every_direction():
    values, spacing = projections(IMAGES, 30)
    areas = values.sum(1) * spacing
    assert (areas / IMAGES.sum((1, 2))[:, None] - 1).abs().amax() < 0.02


@pytest.mark.parametrize(
    "describe", [affine_moment_invariants, multiscale_autoconvolution, r_transform, triple_features]
)
def test_degenerate_images_and_gradients_are_finite(describe):
    images = torch.zeros(4, 12, 14)
    images[1, 3, 4] = 1
    images[2, 5, 1:13] = 1
    images[3] = 1
    images.requires_grad_()
    made = describe(images)
    made.sum().backward()
    assert made.isfinite().all()
    assert images.grad.isfinite().all()
    assert torch.allclose(made[3:], describe(images[3:]), atol=1e-5)  # each by itself
