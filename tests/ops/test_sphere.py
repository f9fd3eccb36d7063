"""Panoramas on the sphere: closed forms, gradients, tiles, views, votes; and what is refused."""

import math

import numpy as np
import pytest
import torch

from vergence.ops import sphere

ZERO = torch.zeros((), dtype=torch.float64)


def turns(count=1, seed=0):
    from scipy.spatial.transform import Rotation

    return torch.from_numpy(Rotation.random(count, random_state=seed).as_matrix())


def test_the_middle_looks_back_the_quarter_right_and_the_top_up():
    directions = sphere.pixel_directions(4, 8, ZERO)
    x, y, z = sphere.pixel_to_vector(torch.tensor(3.5), torch.tensor(1.5), 4, 8)
    assert (x, y, z) == pytest.approx((-1, 0, 0), abs=1e-6)
    x, y, z = sphere.pixel_to_vector(torch.tensor(5.5), torch.tensor(1.5), 4, 8)
    assert (x, y, z) == pytest.approx((0, 1, 0), abs=1e-6)
    assert directions[0, :, 2].min() > 0.9


def test_rotation_passes_gradcheck_in_picture_and_rotation():
    picture = torch.rand(
        1, 2, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    turn = turns()[0].requires_grad_()
    assert torch.autograd.gradcheck(sphere.rotate, (picture, turn), atol=1e-6)


def test_views_pass_gradcheck():
    picture = torch.rand(
        1, 1, 6, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    assert torch.autograd.gradcheck(lambda p: sphere.perspective(p, turns()[0], 70.0, 3), (picture,))
    assert torch.autograd.gradcheck(lambda p: sphere.cube_faces(p, 3), (picture,))


@pytest.mark.parametrize("tile", [1, 5, 64])
def test_tiles_of_bytes_and_floats_are_the_rotation(tile):
    picture = torch.randint(0, 256, (3, 20, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    turn = turns(seed=3)[0]
    whole = sphere.rotate(picture[None].double(), turn)[0]
    torch.testing.assert_close(sphere.rotate_tiles(picture.double(), turn, tile=tile), whole, rtol=0, atol=1e-9)
    tiles = sphere.rotate_tiles(picture, turn, tile=tile)
    assert tiles.dtype == torch.uint8
    assert (tiles.double() - whole).abs().max() <= 0.51


def test_tiles_may_have_another_size():
    picture = torch.rand(1, 16, 32, dtype=torch.float64)
    whole = sphere.rotate(picture[None], turns(seed=4)[0], (10, 20))[0]
    torch.testing.assert_close(sphere.rotate_tiles(picture, turns(seed=4)[0], (10, 20)), whole, rtol=0, atol=1e-9)


def test_no_turn_is_the_picture_itself():
    picture = torch.randint(0, 256, (3, 32, 64), dtype=torch.uint8)
    assert torch.equal(sphere.rotate_tiles(picture, torch.eye(3)), picture)


def test_shortest_arcs_are_rotations_that_arrive_also_from_opposite_ends():
    ends = torch.nn.functional.normalize(torch.randn(40, 3, dtype=torch.float64), dim=1)
    starts = ends.roll(1, 0).clone()
    starts[0], starts[1] = -ends[0], ends[1]
    found = sphere.shortest_arc(starts, ends)
    torch.testing.assert_close((found @ starts.unsqueeze(-1)).squeeze(-1), ends, rtol=0, atol=1e-7)
    torch.testing.assert_close(found @ found.mT, torch.eye(3, dtype=torch.float64).expand(40, 3, 3), rtol=0, atol=1e-7)
    assert (torch.linalg.det(found) > 0).all()


def test_small_angles_keep_their_digits():
    one = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    other = torch.tensor([math.sin(1e-9), 0.0, math.cos(1e-9)], dtype=torch.float64)
    assert float(sphere.angle_between(one, other)) == pytest.approx(1e-9, rel=1e-6)


def test_faces_of_a_cube_join_at_their_edges():
    picture = torch.from_numpy(np.random.default_rng(0).random((1, 1, 64, 128)))
    picture = torch.nn.functional.avg_pool2d(picture, 9, 1, 4)
    faces = sphere.cube_faces(picture, 128)[0, :, 0]
    for left, right in ((0, 3), (3, 2), (2, 1), (1, 0)):  # to the right of each face is the next one
        assert (faces[left][:, -1] - faces[right][:, 0]).abs().max() < 0.02


def test_votes_without_circles_are_zero():
    assert sphere.circle_votes(torch.zeros(0, 3), 8, 16, 2.0).abs().sum() == 0


@pytest.mark.parametrize("shape", [(3, 8, 16), (1, 3, 8, 15)])
def test_what_is_no_panorama_is_refused(shape):
    with pytest.raises(ValueError, match="panoramas are floats"):
        sphere.rotate(torch.rand(shape), torch.eye(3))


def test_a_view_of_half_the_sphere_is_refused():
    with pytest.raises(ValueError, match="below 180"):
        sphere.view_directions(4, 180.0, ZERO)
