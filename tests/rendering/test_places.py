"""Places are full of named things, and differ by their seed alone."""

import pytest
import torch

from vergence.rendering import Pinhole, look_at, photographic, render
from vergence.rendering.places import PLACES


def seen(name, seed=0):
    place = PLACES[name](torch.Generator().manual_seed(seed), photographic("train"))
    position, target = place.viewpoint
    return place, render(place.scene, Pinhole(36, 54, 45.0, position, look_at(position, target)), 1)


@pytest.mark.parametrize("name", PLACES)
def test_a_place_shows_things_in_front_of_a_background(name):
    shares, things = [], set()
    for seed in range(3):
        place, view = seen(name, seed)
        assert set(place.movable) <= set(place.names) <= set(range(int(place.scene.thing.max()) + 1))
        shown = {int(thing) for thing in view.thing.unique() if int(thing) in place.names}
        things |= {place.names[thing] for thing in shown}
        shares.append(sum(float((view.thing == thing).float().mean()) for thing in shown))
    assert things
    assert 0.01 < sum(shares) / 3 < 0.9
    assert 0.05 < float(view.image.mean()) < 0.95
    assert float(view.image.std()) > 0.03


def test_the_same_seed_gives_the_same_place():
    (_, first), (_, again), (_, other) = seen("room"), seen("room"), seen("room", 5)
    torch.testing.assert_close(first.image, again.image, rtol=0, atol=0)
    assert not torch.equal(first.image, other.image)


def test_held_out_photographs_make_places_too():
    place = PLACES["street"](torch.Generator().manual_seed(0), photographic("test"))
    assert len(place.names) > 2
