"""Rendered streets: the true motion is that of each point's object, and what is seen is what rays meet."""

import math

import torch

from vergence.core.seeding import generator
from vergence.points import streets
from vergence.points.streets import BOX, CYLINDER, ELLIPSOID, RANGE, Streets, Things


def local(points, things, owner):
    """Points in the axes of their objects."""
    return streets._turned(points - things.centre[owner], -things.yaw[owner])


def test_points_keep_their_place_on_their_object_while_sensor_and_object_move():
    things, speed, turn = streets._objects(generator("test"))
    step, swing = torch.tensor([0.1, 0.02, 1.2]), torch.tensor(0.05)
    owner = torch.arange(len(things.shape)).repeat(3)
    p = things.centre[owner] + torch.randn(len(owner), 3, generator=torch.Generator().manual_seed(0))
    later = Things(
        things.shape, streets._seen(things.centre + speed, step, swing), things.half, things.yaw + turn - swing
    )
    moved = streets._moved(p, owner, things, speed, turn, step, swing)
    torch.testing.assert_close(local(moved, later, owner), local(p, things, owner), atol=1e-4, rtol=0)
    ground = streets._moved(p, torch.full_like(owner, -1), things, speed, turn, step, swing)
    torch.testing.assert_close(ground, streets._seen(p, step, swing))


def test_rays_meet_surfaces_where_geometry_says():
    def one(shape, centre, half, yaw=0.0):
        return Things(*map(torch.tensor, ([shape], [centre], [half], [yaw])))

    ahead = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    box = one(BOX, [0.0, 0.0, 10.0], [1.0, 1.0, 2.0])
    torch.testing.assert_close(streets._box(box, ahead), torch.tensor([[8.0, math.inf]]))
    turned = one(BOX, [0.0, 0.0, 10.0], [1.0, 1.0, 2.0], math.pi / 2)
    torch.testing.assert_close(streets._box(turned, ahead)[0, 0], torch.tensor(9.0))
    pole = one(CYLINDER, [0.0, 0.0, 5.0], [0.5, 2.0, 0.5])
    torch.testing.assert_close(streets._cylinder(pole, ahead), torch.tensor([[4.5, math.inf]]))
    high = one(CYLINDER, [0.0, 9.0, 5.0], [0.5, 2.0, 0.5])
    assert streets._cylinder(high, ahead)[0, 0] == math.inf
    crown = one(ELLIPSOID, [0.0, 0.0, 5.0], [1.0, 1.0, 3.0])
    torch.testing.assert_close(streets._ellipsoid(crown, ahead), torch.tensor([[2.0, math.inf]]))
    behind = one(ELLIPSOID, [0.0, 0.0, -5.0], [1.0, 1.0, 1.0])
    assert streets._ellipsoid(behind, ahead).isinf().all()


def test_scenes_are_the_same_by_index_and_differ_between_splits_and_indices():
    one, other = Streets(3, 200, ("train",)), Streets(3, 200, ("test",))
    assert torch.equal(one[1].p, one[1].p)
    assert not torch.equal(one[1].p, one[2].p)
    assert not torch.equal(one[1].p, other[1].p)
    for p, q, flow, mask in one:
        assert len(p) == len(flow) == len(mask) <= 200
        assert p.norm(dim=1).max() < RANGE + 1
        assert flow.isfinite().all()
        assert len(q) > 100


def test_the_true_motion_brings_the_clouds_together():
    before, after = 0.0, 0.0
    for p, q, flow, _ in Streets(6, 1500, ("near",)):
        before += float(torch.cdist(p, q).min(1).values.median())
        after += float(torch.cdist(p + flow, q).min(1).values.median())
    assert after < 0.8 * before
