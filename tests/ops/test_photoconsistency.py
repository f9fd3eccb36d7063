"""Patches are aligned to the minimum that SciPy finds, with derivatives of finite differences, in every family."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.optimize import least_squares

from vergence.ops.affine_correspondences import correct_correspondence, correct_views, inconsistency
from vergence.ops.epipolar import cross_matrix, essential, homogeneous, induced, plane_affinity, plane_through
from vergence.ops.photoconsistency import Alignment, Pictures, _Stage, align, grid
from vergence.ops.warps import InPixels, Linear, Planes, affine_maps, affinities, along_line, through_point

FOCAL = 300.0


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def texture(seed=0, size=(200, 240), grain=3.0):
    values = gaussian_filter(np.random.default_rng(seed).normal(size=size), grain)
    return torch.from_numpy((values - values.min()) / np.ptp(values))


class Scene:
    """A textured plane seen by three cameras, and patches on it."""

    def __init__(self, count=6, seed=0):
        first = texture(seed)
        self.K = torch.tensor([[FOCAL, 0, 120.0], [0, FOCAL, 100.0], [0, 0, 1]]).double()
        w = torch.tensor([[0.05, 0.1, 0.02], [-0.06, -0.1, 0.05]]).double()
        self.R = torch.linalg.matrix_exp(cross_matrix(w)).expand(count, 2, 3, 3)
        self.t = torch.tensor([[-0.5, 0.1, 0.05], [0.4, 0.3, -0.1]]).double().expand(count, 2, 3)
        plane = torch.tensor([0.06, -0.04, 0.25]).double()
        self.n = plane.expand(count, 3)
        self.x = 0.12 * noise(count, 2, seed=seed + 1).clamp(-1, 1)
        self.y, self.A = plane_affinity(self.R, self.t, self.n[:, None], self.x[:, None])
        self.rho = (self.n * homogeneous(self.x)).sum(1)
        pictures = [first]
        rows, columns = np.mgrid[:200, :240]
        for R, t in zip(self.R[0], self.t[0], strict=True):  # what camera i sees: the first picture through the plane
            H = (self.K @ (R + t[:, None] * plane) @ torch.linalg.inv(self.K)).numpy()
            back = np.linalg.inv(H) @ np.stack([columns.ravel(), rows.ravel(), np.ones(rows.size)])
            at = (back[:2] / back[2])[::-1]
            pictures.append(
                torch.from_numpy(map_coordinates(first.numpy(), at, order=3, mode="nearest").reshape(200, 240))
            )
        self.pictures = pictures
        self.stack = Pictures.of(pictures, blur=0.5)
        self.frame = torch.linalg.inv(self.K[:2, :2]) @ (12.0 * torch.eye(2).double()).expand(count, 2, 2)
        place = self.K[:2, :2] @ torch.cat([self.frame, self.x.unsqueeze(-1)], -1)
        self.template = place + torch.nn.functional.pad(self.K[:2, 2:], (2, 0))
        self.first = torch.zeros(count).long()
        self.others = torch.tensor([1, 2]).expand(count, 2)
        self.view = induced(self.R, self.t, self.x[:, None], self.rho[:, None])
        self.count = count

    def family(self, name, views=1):
        """The family, the true maps and the parameters of the true plane."""
        true = torch.cat([self.A, self.y.unsqueeze(-1)], -1)[:, :views]
        p = torch.cat([self.n[:, :2], self.rho[:, None]], 1)
        if name == "planes":
            return Planes(self.R[:, :views], self.t[:, :views], self.x), true, p
        E = essential(self.R, self.t)[:, 0]
        made = {
            "through_point": lambda: through_point(type(self.view)(*(v[:, :views] for v in self.view))),
            "along_line": lambda: along_line(E, self.x, self.y[:, 0] + 0.01),
            "affinities": lambda: affinities(self.y[:, 0]),
            "affine_maps": lambda: affine_maps(self.y[:, 0]),
        }[name]()
        return made, true, made.nearest(true)

    def in_pixels(self, family, views=1):
        return InPixels(family, self.frame, self.K.expand(self.count, views, 3, 3))

    def aligned(self, family, p, views=1, **settings):
        return align(
            self.stack, self.first, self.template, self.others[:, :views], self.in_pixels(family, views), p,
            Alignment(**{"tolerance": 1e-4, **settings}),
        )  # fmt: skip

    def stage(self, views=1, gain=True):
        level = torch.zeros(self.count).long()
        return _Stage(
            self.stack, self.first, self.template, self.others[:, :views], torch.ones(self.count, views).double(),
            level, level[:, None].expand(-1, views), Alignment(gain=gain),
        )  # fmt: skip


FAMILIES = {"through_point": 2, "along_line": 3, "planes": 3, "affinities": 4, "affine_maps": 6}
ONE, MANY = [(name, 1) for name in FAMILIES], [("through_point", 2), ("planes", 2)]


def test_samples_are_interpolated_and_have_its_derivatives():
    picture = texture()
    stack = Pictures.of([texture(1), picture], blur=0)
    x, y = 1 + 236 * torch.rand(2, 3, 40, generator=torch.Generator().manual_seed(0)).double()
    y = y * 0.8
    which, level = torch.ones(3).long(), torch.zeros(3).long()
    value, by_x, by_y = stack.sample(which, level, x, y)
    wanted = map_coordinates(picture.numpy(), [y.numpy(), x.numpy()], order=1)
    np.testing.assert_allclose(value, wanted, atol=1e-12)
    h = 1e-7
    for ours, (dx, dy) in ((by_x, (h, 0)), (by_y, (0, h))):
        ahead, behind = (stack.sample(which, level, x + s * dx, y + s * dy)[0] for s in (1, -1))
        torch.testing.assert_close(ours, (ahead - behind) / (2 * h), atol=1e-6, rtol=0)


def test_smaller_copies_are_means_at_the_right_places():
    ramp = (torch.arange(64).double()[:, None] * 3 + torch.arange(48)).contiguous()
    stack = Pictures.of([ramp], blur=0)
    assert stack.levels == 3
    x, y = torch.tensor([[10.0, 20.25]]).double(), torch.tensor([[30.0, 8.5]]).double()
    for level in range(3):
        value, by_x, by_y = stack.sample(torch.tensor([0]), torch.tensor([level]), x, y)
        torch.testing.assert_close(value, 3 * y + x)
        torch.testing.assert_close(by_x, torch.ones_like(x))
        torch.testing.assert_close(by_y, 3 * torch.ones_like(x))


def test_beyond_the_border_the_nearest_pixel_counts():
    stack = Pictures.of([texture()], blur=0)
    zero = torch.zeros(1).long()
    far = stack.sample(zero, zero, torch.tensor([[-50.0, 900.0]]).double(), torch.tensor([[3.0, 3.0]]).double())[0]
    torch.testing.assert_close(far, texture()[3, [0, -1]][None], atol=2e-3, rtol=0)
    with pytest.raises(ValueError, match="2 x 2"):
        Pictures.of([torch.zeros(1, 9)])


@pytest.mark.parametrize("name", FAMILIES)
def test_degrees_of_freedom_are_counted_by_the_rank_of_the_derivatives(name):
    family, _, p = Scene().family(name)
    _, derivative = family.at(p)
    assert torch.linalg.matrix_rank(derivative[:, 0].flatten(-2)).tolist() == [FAMILIES[name]] * 6


@pytest.mark.parametrize(("name", "views"), ONE + MANY)
def test_derivatives_of_maps_are_those_of_finite_differences(name, views):
    family, true, p = Scene().family(name, views)
    maps, derivative = family.at(p)
    torch.testing.assert_close(maps, true)
    for number in range(p.shape[1]):
        step = torch.zeros_like(p)
        step[:, number] = 1e-6
        wanted = (family.at(p + step)[0] - family.at(p - step)[0]) / 2e-6
        torch.testing.assert_close(derivative[:, :, number], wanted, atol=1e-8, rtol=0)


@pytest.mark.parametrize("name", ["through_point", "along_line", "planes"])
def test_maps_of_two_and_three_degrees_agree_with_the_poses_for_any_parameters(name):
    scene = Scene()
    family, _, p = scene.family(name)
    maps, _ = family.at(p + 0.3 * noise(*p.shape, seed=4))
    E = essential(scene.R, scene.t)[:, 0]
    assert inconsistency(E, scene.x, maps[:, 0, :, 2], maps[:, 0, :, :2]).abs().max() < 1e-13


def test_nearest_members_of_families_are_the_corrections():
    scene = Scene()
    wrong = torch.cat([scene.A, scene.y.unsqueeze(-1)], -1) + 0.05 * noise(6, 2, 2, 3, seed=2)
    family, _, _ = scene.family("through_point", 2)
    corrected = correct_views(scene.R, scene.t, scene.x, scene.rho, wrong[..., :2])
    torch.testing.assert_close(family.nearest(wrong), corrected.plane[:, :2])
    line, _, _ = scene.family("along_line")
    maps = line.at(line.nearest(wrong[:, :1]))[0][:, 0]
    E = essential(scene.R, scene.t)[:, 0]
    y, A = correct_correspondence(E, scene.x, wrong[:, 0, :, 2], wrong[:, 0, :, :2])
    torch.testing.assert_close(maps, torch.cat([A, y.unsqueeze(-1)], -1))


@pytest.mark.parametrize("gain", [True, False])
@pytest.mark.parametrize(("name", "views"), ONE + MANY)
def test_normal_equations_have_the_gradient_of_the_sum_of_squares(name, views, gain):
    scene = Scene()
    family, _, p = scene.family(name, views)
    stage, pixels, rows = scene.stage(views, gain), scene.in_pixels(family, views), torch.arange(6)
    p = p + 0.01 * noise(*p.shape, seed=3)
    found = stage.evaluate(pixels, p, rows)
    h, samples = 1e-8, 1 if gain else 441
    for number in range(p.shape[1]):
        step = torch.zeros_like(p)
        step[:, number] = h
        slope = (stage.evaluate(pixels, p + step, rows).cost - stage.evaluate(pixels, p - step, rows).cost) / (2 * h)
        torch.testing.assert_close(-2 * found.right[:, number], slope * samples, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("name", "views"), ONE + MANY)
def test_alignment_finds_the_true_map(name, views):
    scene = Scene()
    family, true, p = scene.family(name, views)
    spread = {"affinities": [0.05] * 4, "affine_maps": [0.05, 0.05, 0.002] * 2}.get(name, [0.1, 0.1, 0.002])
    wrong = p + torch.tensor(spread[: p.shape[1]]) * noise(*p.shape, seed=3)
    found = scene.aligned(family, wrong, views)
    assert found.converged.all()
    assert found.inside.all()
    maps = family.at(found.p)[0]
    before, after = ((m - true)[..., :2].flatten(1).norm(dim=1) for m in (family.at(wrong)[0], maps))
    assert after.max() < 0.01
    assert after.mean() < 0.15 * before.mean()
    assert FOCAL * (maps - true)[..., 2].abs().max() < 0.1


@pytest.mark.parametrize("name", ["through_point", "along_line", "affine_maps"])
def test_the_minimum_is_scipys(name):
    scene = Scene(count=2)
    family, _, p = scene.family(name)
    found = scene.aligned(family, p, gain=False, coarse=0, tolerance=1e-7, steps=100)
    stage, pixels = scene.stage(gain=False), scene.in_pixels(family)
    points = grid(21)

    def gaps(q, row):
        maps = pixels.rows(torch.tensor([row])).at(torch.from_numpy(q)[None])[0]
        places = maps @ points
        zero = torch.zeros(1, 1).long()
        value = scene.stack.sample(scene.others[row : row + 1, :1], zero, places[..., 0, :], places[..., 1, :])[0]
        return (value[0, 0] - stage.template[row]).numpy()

    for row in range(2):
        scale = 1e-3 if name == "along_line" else 1.0
        theirs = least_squares(gaps, p[row].numpy(), args=(row,), x_scale=scale, xtol=1e-12, ftol=1e-12, gtol=1e-12)
        ours = 0.5 * (gaps(found.p[row].numpy(), row) ** 2).sum()
        assert ours <= theirs.cost * (1 + 1e-4)


def test_brightness_and_contrast_do_not_matter_with_gain():
    scene = Scene()
    family, _, p = scene.family("through_point", 2)
    wrong = p + 0.02 * noise(*p.shape, seed=3)
    plain = scene.aligned(family, wrong, 2)
    scene.stack = Pictures.of([scene.pictures[0], 0.5 * scene.pictures[1] + 0.3, 2 * scene.pictures[2]], blur=0.5)
    torch.testing.assert_close(scene.aligned(family, wrong, 2).p, plain.p, atol=1e-7, rtol=0)
    fixed = scene.aligned(family, wrong, 2, gain=False)
    assert (fixed.p - plain.p).abs().max() > 1e-3


def test_views_without_weight_do_not_count():
    scene = Scene()
    family, _, p = scene.family("through_point", 2)
    one, _, _ = scene.family("through_point", 1)
    wrong = p + 0.02 * noise(*p.shape, seed=3)
    weight = torch.tensor([1.0, 0.0]).double().expand(6, 2)
    both = align(
        scene.stack, scene.first, scene.template, scene.others, scene.in_pixels(family, 2), wrong, weight=weight
    )
    torch.testing.assert_close(both.p, scene.aligned(one, wrong, tolerance=5e-3).p)


def test_a_bad_start_is_reported_and_touches_no_other_patch():
    scene = Scene()
    family, _, p = scene.family("through_point")
    wrong = p + 0.02 * noise(*p.shape, seed=3)
    broken = wrong.clone()
    broken[2] = float("nan")
    ours, theirs = scene.aligned(family, broken), scene.aligned(family, wrong)
    assert ours.converged.tolist() == [True, True, False, True, True, True]
    rest = [0, 1, 3, 4, 5]
    torch.testing.assert_close(ours.p[rest], theirs.p[rest])
    far = Linear(family.base + torch.tensor([0, 0, 5.0]), family.basis)
    assert not scene.aligned(far, wrong).inside.any()


def test_no_patches_are_aligned_to_none():
    scene = Scene()
    family, _, p = scene.family("through_point")
    none = torch.arange(0)
    found = align(
        scene.stack, scene.first[none], scene.template[none], scene.others[none, :1],
        scene.in_pixels(family).rows(none), p[none],
    )  # fmt: skip
    assert found.p.shape == (0, 2)


def test_single_precision_is_near_double():
    scene = Scene()
    family, _, p = scene.family("through_point")
    wrong = p + 0.02 * noise(*p.shape, seed=3)
    theirs = scene.aligned(family, wrong)
    stack = Pictures(scene.stack.pixels.float(), scene.stack.start, scene.stack.height, scene.stack.width)
    small = InPixels(
        Linear(family.base.float(), family.basis.float()), scene.frame.float(), scene.K.float().expand(6, 1, 3, 3)
    )
    ours = align(stack, scene.first, scene.template.float(), scene.others[:, :1], small, wrong.float())
    assert ours.p.dtype == torch.float32
    torch.testing.assert_close(ours.p.double(), theirs.p, atol=2e-3, rtol=0)


def test_planes_through_a_point_are_planes_at_its_depth():
    scene = Scene()
    slant = 0.1 * noise(6, 2, seed=5)
    two, three = through_point(scene.view), Planes(scene.R, scene.t, scene.x)
    maps = two.at(slant)[0]
    torch.testing.assert_close(maps, three.at(torch.cat([slant, scene.rho[:, None]], 1))[0])
    y, A = plane_affinity(scene.R, scene.t, plane_through(scene.x, slant, scene.rho)[:, None], scene.x[:, None])
    torch.testing.assert_close(maps, torch.cat([A, y.unsqueeze(-1)], -1))
