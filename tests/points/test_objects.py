"""Embedded objects, their sampling and disturbances, and part IoU."""

import math

import pytest
import torch

from vergence.core.seeding import generator
from vergence.points.metrics import part_iou, part_scores
from vergence.points.objects import MAKERS, NAMINGS, embedded_shapes, make_object, sample_surface
from vergence.points.shapedata import Clouds, Disturbed, noisy, random_turn, thinned, tilted, uneven
from vergence.points.shapes import Objects
from vergence.rendering.solids import BOX, CONE, CYLINDER, ELLIPSOID
from vergence.rendering.things import Part, about


def test_points_are_spread_by_area_over_solids():
    """A box of 2 x 4 x 6, a ball, a cylinder and a cone, far apart: areas in closed form."""
    parts = [
        Part(BOX, (0, 0, 0), (1, 2, 3), "main", about("x", 0.4)),
        Part(ELLIPSOID, (20, 0, 0), (2, 2, 2)),
        Part(CYLINDER, (40, 0, 0), (1, 3, 1)),
        Part(CONE, (60, 0, 0), (2, 1.5, 2)),
    ]
    _, owner = sample_surface(parts, 20_000, generator("areas"))
    areas = torch.tensor([88.0, 16 * math.pi, 12 * math.pi + 2 * math.pi, math.pi * 2 * math.sqrt(13) + 4 * math.pi])
    share = owner.bincount(minlength=4) / 20_000
    assert share.tolist() == pytest.approx((areas / areas.sum()).tolist(), abs=0.015)


def test_points_lie_on_their_solids_and_outside_the_others():
    parts = [Part(ELLIPSOID, (0, 0, 0), (1, 1, 1)), Part(BOX, (1, 0, 0), (1, 0.3, 0.3))]
    points, owner = sample_surface(parts, 2000, generator("outside"))
    radius = points.norm(dim=1)
    assert (radius[owner == 0] - 1).abs().max() < 1e-5
    assert (radius[owner == 1] > 0.99).all()
    hidden = (points - torch.tensor([1.0, 0, 0])).abs() < torch.tensor([0.98, 0.28, 0.28])
    assert not hidden[owner == 0].all(1).any()


def test_an_ellipsoid_is_sampled_evenly():
    """Twice as tall as wide: the share of area within half its height of the middle, against numerical integration."""
    points, _ = sample_surface([Part(ELLIPSOID, (0, 0, 0), (1, 2, 1))], 20_000, generator("even"))
    y = torch.linspace(-2, 2, 20_001)
    density = (1 - y**2 / 4 + (y / 4) ** 2).clamp(min=0).sqrt()
    expected = float(density[y.abs() < 1].sum() / density.sum())
    assert float((points[:, 1].abs() < 1).double().mean()) == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize("name", MAKERS)
def test_every_object_fills_the_unit_sphere_and_shows_its_parts(name):
    points, parts = make_object(name, 300, True, generator("object", name))
    assert float(points.norm(dim=1).max()) == pytest.approx(1, abs=1e-5)
    assert points.mean(0).abs().max() < 1e-5
    assert int(parts.max()) < len(NAMINGS.get(name, [[""]])[0])
    assert len(parts.unique()) >= (2 if name in NAMINGS else 1)


def test_embedded_parts_are_numbered_through():
    shapes = embedded_shapes(18, 64, True, True, "test")
    first = torch.tensor([0, *shapes.parts]).cumsum(0)
    assert len(shapes.part_names) == sum(shapes.parts)
    for shape in (shapes[index] for index in range(18)):
        assert first[shape.label] <= shape.parts.min()
        assert shape.parts.max() < first[shape.label + 1]


def test_a_drawn_cloud_is_a_turned_scaled_and_shifted_sample():
    clouds = Clouds(embedded_shapes(16, 64, False, True, "test"), Objects(points=64))
    whole = clouds[3]["points"]
    drawn = clouds.draw(3, generator("draw"))["points"]
    spread = [(cloud - cloud.mean(0)).norm(dim=1).sort().values for cloud in (whole, drawn)]
    ratio = spread[1] / spread[0]
    assert 0.8 <= float(ratio.mean()) <= 1.25
    assert float(ratio.std()) < 1e-4
    assert drawn.mean(0).abs().max() <= 0.11 * 1.25


def test_few_points_are_repeated():
    clouds = Clouds(embedded_shapes(16, 20, False, True, "test"), Objects(points=50))
    points = clouds[0]["points"]
    assert points.shape == (50, 3)
    assert len(points.unique(dim=0)) == 20


def test_random_rotations_are_rotations():
    for kind in ("none", "up", "any"):
        turn = random_turn(kind, generator("turn")).double()
        torch.testing.assert_close(turn @ turn.mT, torch.eye(3, dtype=torch.float64), atol=1e-6, rtol=0)
        assert float(torch.linalg.det(turn)) == pytest.approx(1)
    assert random_turn("up", generator("turn"))[1].tolist() == [0, 1, 0]


def test_disturbances_do_what_they_say():
    points = torch.randn(4000, 3, generator=generator(0))
    assert float((noisy(0.1)(points, generator(1)) - points).std()) == pytest.approx(0.1, abs=0.003)
    assert thinned(0.25)(points, generator(1)).shape == (1000, 3)
    assert uneven(0.0)(points, generator(1)).shape == (2000, 3)
    assert float(uneven(3.0)(points, generator(1)).mean(0).norm()) > 0.3
    up = torch.tensor([[0.0, 1, 0]])
    assert float(tilted(30)(up, generator(1))[0, 1]) == pytest.approx(math.cos(math.radians(30)), abs=1e-6)
    assert float(tilted(180)(up, generator(1)).norm()) == pytest.approx(1, abs=1e-5)


def test_a_disturbed_sample_is_the_same_each_time():
    clouds = Disturbed(Clouds(embedded_shapes(16, 64, False, True, "test"), Objects(points=32)), noisy(0.1), "noise")
    assert torch.equal(clouds[2]["points"], clouds[2]["points"])


def test_part_iou_in_closed_form():
    truth = torch.tensor([4, 4, 4, 5, 5, 5])
    assert part_iou(truth, truth, 4, 3) == 100  # the third part is neither there nor predicted
    assert part_iou(torch.full_like(truth, 4), truth, 4, 2) == pytest.approx(25)  # 3 of 6, and 0 of 3
    assert part_iou(torch.full_like(truth, 6), truth, 4, 3) == 0


def test_part_iou_agrees_with_a_loop():
    source = generator("iou")
    for _ in range(20):
        ours, truth = (torch.randint(2, 6, (50,), generator=source) for _ in range(2))
        expected = []
        for part in range(2, 6):
            both = sum(a == part and b == part for a, b in zip(ours, truth, strict=True))
            either = sum(a == part or b == part for a, b in zip(ours, truth, strict=True))
            expected.append(both / either if either else 1.0)
        assert part_iou(ours, truth, 2, 4) == pytest.approx(100 * sum(expected) / 4)


def test_means_over_shapes_and_over_categories_differ():
    ious, labels = torch.tensor([100.0, 100.0, 100.0, 20.0]), torch.tensor([0, 0, 0, 3])
    assert part_scores(ious, labels) == (80.0, 60.0)
