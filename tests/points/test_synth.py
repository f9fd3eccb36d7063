"""Embedded scenes move rigidly, and the two worlds differ as they should."""

import torch

from vergence.points.synth import SHIFT, rigid


def scenes(world):
    return rigid(5, 64, 4, world, "test")


def test_each_object_moves_rigidly():
    made = scenes("resampled")
    moved = made.p + made.flow
    for label in range(4):
        of = made.labels == label
        before, after = torch.cdist(made.p[:, of], made.p[:, of]), torch.cdist(moved[:, of], moved[:, of])
        torch.testing.assert_close(before, after, atol=1e-4, rtol=1e-4)
    assert (made.flow.norm(dim=-1) > 0).all()
    assert made.flow.mean(1).norm(dim=-1).max() < 3 * SHIFT


def test_in_the_perfect_world_every_point_has_its_partner():
    made = scenes("perfect")
    nearest = (made.p + made.flow).unsqueeze(2).sub(made.q.unsqueeze(1)).norm(dim=-1).amin(-1)
    assert nearest.max() < 1e-6
    assert ((made.p + made.flow) != made.q).any()  # but not in the same row


def test_in_the_resampled_world_none_has_but_the_surfaces_are_the_same():
    made = scenes("resampled")
    nearest = torch.cdist(made.p + made.flow, made.q).amin(-1)
    assert nearest.median() > 0.05
    assert nearest.max() < 1.2  # within an object


def test_points_are_shared_between_objects_and_seeds_decide():
    made = rigid(2, 70, 4, "perfect", "a")
    assert made.labels.bincount().tolist() == [18, 17, 18, 17]
    assert (rigid(2, 70, 4, "perfect", "a").p == made.p).all()
    assert (rigid(2, 70, 4, "perfect", "b").p != made.p).any()
