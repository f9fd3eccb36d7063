"""Rendered people keep what identifies them, and masks and joints lie where they are seen."""

import torch

from vergence.reid.people import JOINTS, Person, Pose, joints
from vergence.reid.shots import Camera, crowd, shot


def persons(count):
    return [Person.drawn(torch.Generator().manual_seed(seed)) for seed in range(count)]


def test_a_picture_shows_the_person_and_the_joints_lie_on_it():
    source = torch.Generator().manual_seed(0)
    for person in persons(3):
        taken = shot(person, Camera.of(1), 64, 32, source, hidden=0.0)
        assert taken.picture.shape == (3, 64, 32)
        assert 0.1 < float(taken.mask.float().mean()) < 0.7
        body = taken.joints[5:]
        assert float((body[:, 2] == 1).float().mean()) > 0.6  # limbs may hide each other's joints from a pixel's centre
        rows = taken.mask.nonzero()[:, 0]
        assert float(taken.joints[0, 1]) < float(rows.float().mean()) < float(taken.joints[15:, 1].max())


def test_something_in_front_hides_a_part():
    person = persons(1)[0]
    shares = []
    for hidden in (0.0, 1.0):
        masks = [
            shot(person, Camera.of(0), 64, 32, torch.Generator().manual_seed(seed), hidden, tuple(persons(3)[1:])).mask
            for seed in range(6)
        ]
        shares.append(float(torch.stack(masks).float().mean()))
    assert shares[1] < 0.9 * shares[0]


def test_walking_moves_the_left_and_the_right_leg_apart():
    still, walking = (joints(persons(1)[0], Pose(stride, stride, 0.3)) for stride in (0.0, 0.5))
    assert set(still) == set(JOINTS)
    assert abs(walking["left_ankle"][2] - walking["right_ankle"][2]) > 0.5
    assert abs(still["left_ankle"][2] - still["right_ankle"][2]) < 0.01
    assert walking["left_wrist"][2] > walking["right_wrist"][2]  # arms swing against the legs
    assert walking["left_ankle"][2] < walking["right_ankle"][2]


def test_a_crowd_is_in_order_and_the_same_for_the_same_seed():
    first, again = (crowd(2, 32, 16, ("a",), (0, 2), 2) for _ in range(2))
    assert first.identities.tolist() == [0] * 4 + [1] * 4
    assert first.cameras.tolist() == [0, 0, 2, 2] * 2
    assert first.joints.shape == (8, 17, 3)
    assert torch.equal(first.pictures, again.pictures)
    assert not torch.equal(first.pictures, crowd(2, 32, 16, ("b",), (0, 2), 2).pictures)
