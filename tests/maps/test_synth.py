"""Mistakes are what they are called, as many as were asked for, and more of them contain fewer."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from vergence.core.errors import VergenceError
from vergence.maps.geometry import near
from vergence.maps.metrics import opt_j
from vergence.maps.settings import FEW_AND_MANY, MISTAKES, MistakeSizes
from vergence.maps.synth import ErrorInjector, city, crops


def parts(graph):
    return connected_components(graph.matrix, directed=False)[0]


def dead_ends(graph):
    return int((graph.degrees == 1).sum())


@pytest.fixture(scope="module")
def town():
    return city(11)


def test_a_city_is_the_same_for_the_same_seed_and_another_for_another():
    assert np.array_equal(city(3).points, city(3).points)
    assert not np.array_equal(city(3).points, city(4).points)
    assert len(city(3, missing=0.0)) == 3 * 60
    with pytest.raises(VergenceError, match="blocks >= 2"):
        city(0, blocks=1)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_the_same_for_the_same_seed(mistake, town):
    few = FEW_AND_MANY[mistake][0]
    a, b = (ErrorInjector().inject(mistake, town, few, 5) for _ in range(2))
    assert all(np.array_equal(x.points, y.points) for x, y in zip(a, b, strict=True))
    assert (a[0].length, a[1].length) != (town.length, town.length)


def test_an_interruption_takes_a_little_road_and_leaves_two_dead_ends(town):
    _, broken = ErrorInjector(MistakeSizes(gap=12)).inject("interruptions", town, 8, 1)
    assert 8 * 6 < town.length - broken.length <= 8 * 12  # even pieces of at most 12
    assert dead_ends(broken) == dead_ends(town) + 16


def test_an_overconnection_joins_two_places_by_a_straight_road(town):
    _, more = ErrorInjector().inject("overconnections", town, 4, 1)
    assert more.length > town.length
    assert len(more.canonical) - len(town.canonical) >= 4
    assert parts(more) == parts(town)


def test_a_perturbation_moves_places_and_disconnects_nothing(town):
    _, moved = ErrorInjector(MistakeSizes(shift=45)).inject("perturbations", town, 6, 1)
    assert parts(moved) == parts(town)
    distance = np.full(len(moved.points), np.inf)
    found = near(moved.points, town, 60.0, 25.0)
    np.minimum.at(distance, found.point, found.distance)
    assert 1 <= (distance > 10).sum() <= 6


def test_a_doubled_road_runs_beside_and_meets_the_first_at_both_ends(town):
    _, doubled = ErrorInjector(MistakeSizes(aside=14, copied=90)).inject("doubled", town, 5, 1)
    assert doubled.length - town.length == pytest.approx(5 * 100, rel=0.2)
    assert dead_ends(doubled) == dead_ends(town)
    assert (doubled.degrees == 3).sum() == (town.degrees == 3).sum() + 10
    away = near(doubled.points, town, 14.01, 25.0)
    assert set(away.point) == set(range(len(doubled.points)))


def test_merged_roads_are_doubled_ones_with_the_maps_exchanged(town):
    a, b = ErrorInjector().inject("doubled", town, 5, 1), ErrorInjector().inject("doubled-truth", town, 5, 1)
    assert a[1].length == b[0].length
    assert opt_j(*a).agreement.precision == opt_j(*b).agreement.recall


def test_far_roads_are_a_share_of_all(town):
    truth, prediction = ErrorInjector().inject("far", town, 0.3, 1)
    assert truth.length == pytest.approx(0.7 * prediction.length, rel=0.02)


def test_more_interruptions_contain_fewer(town):
    few, many = (ErrorInjector().inject("interruptions", town, n, 3)[1] for n in (3, 9))
    found = near(many.split(3.0).points, few, 0.01, 25.0)
    assert set(found.point) == set(range(len(many.split(3.0).points)))


@pytest.mark.parametrize(
    ("mistake", "amount"), [("interruptions", 5000), ("perturbations", 5000), ("doubled", 5000), ("far", 1.0)]
)
def test_more_than_there_is_room_for_is_refused(mistake, amount, town):
    with pytest.raises(VergenceError, match="room for|share"):
        ErrorInjector().inject(mistake, town, amount, 0)


def test_crops_have_road_in_them():
    large = city(0, blocks=20)
    for part in crops(large, 3, 600.0, 1):
        assert part.length > 0.8 * large.length * (600 / 2280) ** 2
        assert np.ptp(part.points, axis=0).max() <= 600
