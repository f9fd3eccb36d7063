"""Things move by their law, whatever they are; and what is rendered has two independent labels."""

import torch

from vergence.video.laws import LAWS, THINGS, Lawful, film, mover


def places(law, thing="box", seconds=4.0, rate=60):
    who = mover(thing, torch.Generator().manual_seed(3))
    return torch.tensor([who.at(law, k / rate, seconds)[0].at for k in range(int(seconds * rate))])


def test_a_bouncing_thing_falls_with_gravity_and_stays_above_the_floor():
    up = -places("bounces")[:, 1].double()
    assert up.min() > -1e-9
    bends = up.diff().diff() * 60**2
    free = (up[:-2] > 0.1) & (up[2:] > 0.1)
    torch.testing.assert_close(bends[free], torch.full_like(bends[free], -9.81), atol=0.05, rtol=0)


def test_a_sliding_thing_loses_speed_and_comes_back():
    x = places("slides")[:, 0]
    speed = x.diff().abs() * 60
    assert speed.max() < 2.0
    assert speed.min() < 0.02
    assert (x.diff().sign()[speed > 0.05].unique().tolist()) == [-1, 1]


def test_other_laws_move_as_they_are_named():
    assert places("spins").std(0).max() == 0
    assert places("rocks").std(0).max() == 0
    passing = places("passes")[:, 0]
    assert passing.diff().sign().unique(return_counts=True)[1].min() <= 3  # one way, but for the return out of sight
    assert passing.abs().max() > 1.8
    swing = places("swings")
    assert swing[:, 0].max() * swing[:, 0].min() < 0
    assert (-swing[:, 1]).min() >= 0.1


def test_labels_are_independent():
    data = Lawful(torch.zeros(36, 1, 3, 2, 2, dtype=torch.uint8))
    pairs = set(zip(data.labels, data.things, strict=True))
    assert len(pairs) == len(LAWS) * len(THINGS)


def test_films_are_the_same_for_the_same_seed():
    a, b = (film("swings", "ball", 3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(a, b)
    assert a.shape == (3, 3, 32, 40)
    assert not torch.equal(a[0], a[2])
