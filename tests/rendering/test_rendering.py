"""Rays hit solids where the definition says, and the motion of pixels is that of their points."""

import math

import pytest
import torch
import torch.nn.functional as F

from vergence.rendering import (
    BOX,
    CONE,
    CYLINDER,
    ELLIPSOID,
    Atlas,
    Light,
    Panorama,
    Pinhole,
    SceneBuilder,
    cast,
    exposed,
    look_at,
    motion,
    photographic,
    render,
)
from vergence.rendering.cameras import grid
from vergence.rendering.solids import Solids, normals

HERE, AHEAD = torch.zeros(3), torch.eye(3)
LIGHT = Light(torch.tensor([0.3, -1.0, -0.5]))


def within(shape, x):
    """The unit shapes by their definition; negative inside."""
    around = x[..., 0] ** 2 + x[..., 2] ** 2
    return {
        BOX: x.abs().amax(-1) - 1,
        ELLIPSOID: x.norm(dim=-1) - 1,
        CYLINDER: torch.maximum(around.sqrt() - 1, x[..., 1].abs() - 1),
        CONE: torch.maximum(around.sqrt() - (x[..., 1] + 1) / 2, x[..., 1].abs() - 1),
    }[shape]


def one(shape, inside=False, seed=0):
    source = torch.Generator().manual_seed(seed)
    frame = torch.randn(3, 3, generator=source, dtype=torch.float64) + 1.5 * torch.eye(3)
    centre = torch.tensor([[0.2, -0.1, 6.0]], dtype=torch.float64)
    return Solids(torch.tensor([shape]), frame[None], centre, torch.tensor([inside]))


def bundle(count=1500):
    source = torch.Generator().manual_seed(1)
    flat = torch.rand(count, 2, generator=source, dtype=torch.float64) - 0.5
    return torch.cat([flat, torch.ones(count, 1, dtype=torch.float64)], 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [BOX, ELLIPSOID, CYLINDER, CONE])
def test_hits_are_where_a_march_along_the_ray_enters_the_solid(shape, seed):
    solids, rays = one(shape, seed=seed), bundle(600)
    hits = cast(solids, torch.zeros(3, dtype=torch.float64), rays)
    inverse = torch.linalg.inv(solids.frame[0])
    t = torch.linspace(0.01, 14, 3000, dtype=torch.float64)
    local = (t.view(-1, 1, 1) * rays - solids.centre[0]) @ inverse.mT
    inside = within(shape, local) < 0  # (steps, rays)
    first = torch.where(inside.any(0), t[inside.float().argmax(0)], torch.inf)
    both = hits.any & first.isfinite()
    assert (hits.any != first.isfinite()).float().mean() < 0.01  # grazing rays between two steps
    assert both.float().mean() > 0.05
    assert float((hits.distance - first)[both].abs().max()) < 0.03
    assert float(within(shape, hits.local[hits.any]).abs().max()) < 1e-9


@pytest.mark.parametrize("shape", [BOX, ELLIPSOID, CYLINDER, CONE])
def test_normals_are_the_gradient_of_the_definition(shape):
    solids, rays = one(shape), bundle(400)
    hits = cast(solids, torch.zeros(3, dtype=torch.float64), rays)
    points = (hits.distance.where(hits.any, 0).unsqueeze(1) * rays).requires_grad_()
    local = (points - solids.centre[0]) @ torch.linalg.inv(solids.frame[0]).mT
    (gradient,) = torch.autograd.grad(within(shape, local)[hits.any].sum(), points)
    expected = F.normalize(gradient, dim=1)[hits.any]
    cosine = (normals(solids, hits)[hits.any] * expected).sum(1)
    assert float(cosine.median()) > 1 - 1e-9
    assert float((cosine > 1 - 1e-6).double().mean()) > 0.97  # not at edges


@pytest.mark.parametrize("shape", [BOX, ELLIPSOID, CYLINDER, CONE])
def test_from_within_rays_leave_a_solid_and_its_normals_point_inwards(shape):
    solids = Solids(
        torch.tensor([shape]), 3 * torch.eye(3)[None], torch.tensor([[0.0, -1.0, 0.0]]), torch.tensor([True])
    )
    source = torch.Generator().manual_seed(2)
    rays = F.normalize(torch.randn(300, 3, generator=source), dim=1)
    hits = cast(solids, HERE, rays)
    assert hits.any.all()
    assert float(within(shape, hits.local).abs().max()) < 1e-5
    assert float((normals(solids, hits) * rays).sum(1).max()) < 0


def room():
    """Two things in a room; the second one moves."""
    builder = SceneBuilder(photographic("train"), LIGHT)
    builder.begin()
    builder.add(BOX, (0, -1, 4), (4, 3, 6), texture=18, density=40, inside=True)
    builder.begin()
    builder.add(ELLIPSOID, (0.4, 0.5, 4), (0.8, 0.6, 0.7), texture=0, density=120)
    builder.add(CYLINDER, (-1.2, 0.8, 5), (0.2, 1.2, 0.2), texture=3, density=120)
    return builder.scene()


def camera(x=0.0, height=96, width=128):
    return Pinhole(height, width, 120.0, torch.tensor([x, 0.0, 0.0]), AHEAD)


def test_disparity_is_focal_length_times_baseline_over_depth():
    scene = room()
    view, moved = render(scene, camera(), 1), motion(scene, camera(), scene, camera(0.2))
    torch.testing.assert_close(moved.flow[0], -120.0 * 0.2 / view.depth, rtol=1e-4, atol=1e-3)
    assert float(moved.flow[1].abs().max()) < 1e-3
    assert 0.6 < float(moved.visible.float().mean()) < 0.999


def test_the_other_picture_at_the_moved_pixels_is_this_picture_where_they_are_visible():
    scene = room()
    angle = 0.1
    turn = torch.tensor([[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]])
    after = scene.moved(torch.stack([AHEAD, turn]), torch.tensor([[0.0, 0, 0], [-0.4, 0.1, 0.2]]))
    first, second = render(scene, camera(), 3), render(after, camera(0.1), 3)
    moved = motion(scene, camera(), after, camera(0.1))
    places = grid(camera()).reshape(96, 128, 2) + moved.flow.permute(1, 2, 0)
    scaled = 2 * places / torch.tensor([127.0, 95.0]) - 1
    there = F.grid_sample(second.image[None], scaled[None], align_corners=True)[0]
    error = (there - first.image).abs().mean(0)
    own = (second.image - first.image).abs().mean(0)
    seen = moved.visible & (first.thing == 1)
    assert float(error[seen].median()) < 0.02
    assert float(own[seen].median()) > 3 * float(error[seen].median())
    assert float(error[~moved.visible].mean()) > 3 * float(error[moved.visible].mean())


def test_a_sky_moves_with_rotation_alone():
    builder = SceneBuilder(photographic("train"), LIGHT, sky=5)
    builder.begin()
    builder.add(BOX, (0, 50, 10), (1, 1, 1))
    scene = builder.scene()
    shifted = motion(scene, camera(), scene, camera(0.5))
    assert float(shifted.flow.abs().max()) < 0.01
    assert shifted.visible.float().mean() > 0.9


@pytest.mark.parametrize("kind", ["pinhole", "panorama"])
def test_projecting_a_point_on_a_ray_gives_its_pixel_and_depth(kind):
    turn = look_at(torch.tensor([1.0, -0.5, 2.0]), torch.tensor([0.0, 0.0, 7.0]), roll=0.2)
    at = torch.tensor([1.0, -0.5, 2.0])
    seen = Pinhole(20, 30, 25.0, at, turn, (14.0, 8.5)) if kind == "pinhole" else Panorama(20, 40, at, turn)
    places = grid(seen)
    back, depth = seen.project(at + 3.0 * seen.rays(places))
    torch.testing.assert_close(back, places, rtol=0, atol=1e-3)
    torch.testing.assert_close(depth, torch.full_like(depth, 3.0))


def test_a_camera_looks_at_its_target_with_its_head_up():
    at, target = torch.tensor([2.0, -1.0, -3.0]), torch.tensor([0.0, 0.5, 4.0])
    seen = Pinhole(101, 101, 80.0, at, look_at(at, target))
    pixel, _ = seen.project(target[None])
    torch.testing.assert_close(pixel, torch.tensor([[50.0, 50.0]]), rtol=0, atol=1e-3)
    above, _ = seen.project(target[None] - torch.tensor([0.0, 1.0, 0.0]))
    assert above[0, 1] < 50
    torch.testing.assert_close(seen.rotation @ seen.rotation.mT, AHEAD, rtol=0, atol=1e-5)
    assert float(torch.linalg.det(seen.rotation)) > 0


def test_a_texture_is_its_picture_and_far_away_its_mean():
    picture = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(0))
    atlas = Atlas.of([torch.zeros(3, 64, 64), picture], 64)
    y, x = torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij")
    places = torch.stack([x.flatten(), y.flatten()], 1) + 0.5
    ones = torch.ones(len(places), dtype=torch.long)
    torch.testing.assert_close(atlas.look_up(ones, places, ones.float()).mT.reshape(3, 64, 64), picture)
    mirrored = atlas.look_up(ones, torch.tensor([128.0, 0.0]) + places * torch.tensor([-1.0, 1.0]), ones.float())
    torch.testing.assert_close(mirrored.mT.reshape(3, 64, 64), picture)
    far = atlas.look_up(ones[:1], places[:1] * 0 + 16, torch.tensor([1000.0]))
    torch.testing.assert_close(far[0], picture[:, :32, :32].mean((1, 2)), rtol=0, atol=0.05)


def test_shadows_fall_away_from_the_light():
    builder = SceneBuilder(photographic("train"), Light(torch.tensor([-1.0, -1.0, 0.0])))
    builder.begin()
    builder.add(BOX, (0, 1.1, 5), (10, 0.1, 10), colour=(0.8, 0.8, 0.8))
    builder.begin()
    builder.add(CYLINDER, (0, 0.5, 4), (0.1, 0.5, 0.1))
    seen = Pinhole(
        60, 80, 60.0, torch.tensor([0.0, -1.0, 0.0]), look_at(torch.tensor([0.0, -1, 0]), torch.tensor([0.0, 1, 4]))
    )
    lit, shadowed = (render(builder.scene(), seen, 1, shadows).image.mean(0) for shadows in (False, True))
    darker = (lit - shadowed > 0.1).nonzero().float()
    assert len(darker) > 20
    assert float(darker[:, 1].mean()) > 42  # to the right of the pole


def test_exposures_differ_but_show_the_same():
    image = render(room(), camera(), 1).image
    taken = exposed(image, torch.Generator().manual_seed(0))
    assert 0 <= float(taken.min()) <= float(taken.max()) <= 1
    assert 0.003 < float((taken - image).abs().mean()) < 0.1
