"""Things stand on the ground, look the same for the same seed, and can be seen."""

import pytest
import torch

from vergence.rendering import Light, Pinhole, SceneBuilder, look_at, photographic, render
from vergence.rendering.furniture import FURNITURE, SMALL
from vergence.rendering.outdoors import OUTDOORS
from vergence.rendering.things import about, place, random_material, rod

EVERYTHING = FURNITURE | SMALL | OUTDOORS


def built(name, seed=0):
    source = torch.Generator().manual_seed(seed)
    builder = SceneBuilder(photographic("train"), Light(torch.tensor([0.3, -1.0, -0.5])))
    parts = EVERYTHING[name](source)
    place(builder, parts, (0.0, 0.0, 0.0), 0.7, 1.0, random_material(source, range(5)), random_material(source))
    return builder.scene()


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_thing_stands_on_the_ground_and_fills_a_part_of_a_picture(name):
    scene = built(name)
    reach = scene.solids.frame.abs().sum(2)  # of a box around each part
    low = scene.solids.centre[:, 1] + reach[:, 1]
    size = float((scene.solids.centre.abs() + reach).max())
    assert -0.05 * size < float(low.max()) < 0.2 * size
    position = torch.tensor([0.0, -size, -3 * size])
    seen = Pinhole(96, 96, 120.0, position, look_at(position, torch.tensor([0.0, -0.4 * size, 0.0])))
    share = float((render(scene, seen, 1).thing == 0).float().mean())
    assert 0.0005 < share < 0.7  # a street lamp is thin


def test_the_same_seed_gives_the_same_thing_and_another_one_another():
    first, again, other = built("chair"), built("chair"), built("chair", 1)
    torch.testing.assert_close(first.solids.frame, again.solids.frame, rtol=0, atol=0)
    assert first.solids.frame.shape != other.solids.frame.shape or not torch.equal(
        first.solids.frame, other.solids.frame
    )


def test_a_rod_goes_from_its_start_to_its_end():
    part = rod((1.0, 2.0, 3.0), (0.0, 2.5, 5.0), 0.1)
    ends = [torch.tensor(part.centre) + sign * part.half[1] * part.turn[:, 1] for sign in (-1, 1)]
    torch.testing.assert_close(torch.stack(ends), torch.tensor([[1.0, 2.0, 3.0], [0.0, 2.5, 5.0]]))
    torch.testing.assert_close(part.turn.mT @ part.turn, torch.eye(3), rtol=0, atol=1e-6)


@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_rotations_leave_their_axis(axis):
    unit = torch.eye(3)["xyz".index(axis)]
    torch.testing.assert_close(about(axis, 0.4) @ unit, unit)
    torch.testing.assert_close(torch.linalg.det(about(axis, 0.4)), torch.tensor(1.0))
