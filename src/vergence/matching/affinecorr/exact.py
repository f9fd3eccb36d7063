"""Identities that decide themselves: corrections and planes against the paper's equations, SciPy and the true scene.

Geometry is the paper's synthetic set-up, in float64. Each function returns the largest deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.claims import Claim, Evidence
from vergence.contract.evidence import ROUNDING, apart, noise
from vergence.core.seeding import generator
from vergence.matching.synth import Exact, sphere
from vergence.metrics.oriented import affinity_error, normal_angle
from vergence.ops.affine_correspondences import (
    correct_affinity,
    correct_correspondence,
    correct_plane,
    correct_views,
    estimate_plane,
    inconsistency,
    induced_derivative,
    oriented_point,
)
from vergence.ops.epipolar import essential, homogeneous, induced, plane_affinity
from vergence.ops.photoconsistency import Alignment, Pictures, align
from vergence.ops.warps import Family, InPixels, Planes, affine_maps, affinities, along_line, through_point
from vergence.reference import affine_correspondences as plain

Array = Any
"""Of NumPy."""
COUNT, SETS = 40, 5
"""Tracks of a check, and sets of tracks of a simulation."""


def _scene(views: int, seed: str = "scene", count: int = COUNT) -> Exact:
    return sphere(count, views, generator("claims", seed, views))


def _rows(scene: Exact, A: Tensor) -> list[tuple[Array, Array, Array, Array, Array]]:
    """Poses, points and affinities of each track as arrays."""
    s = scene.tracks
    return [(s.R[i].numpy(), s.t[i].numpy(), s.x[i].numpy(), s.y[i].numpy(), A[i].numpy()) for i in range(len(s))]


def _noisy(scene: Exact, sigma: float = 0.3) -> Tensor:
    A = scene.tracks.A
    return A + sigma * noise(*A.shape, seed="affinities")


def exact_ones_agree(_: Evidence) -> float:
    """Exact correspondences satisfy Eq. 2, and Eq. 3 in the paper's form."""
    scene = _scene(3)
    s = scene.tracks
    E = essential(s.R, s.t)
    worst = float(inconsistency(E, s.x[:, None].expand_as(s.y), s.y, s.A).abs().max())
    for i in range(len(s)):
        e, x, y, A = (part.numpy() for part in (E[i, 0], s.x[i], s.y[i, 0], s.A[i, 0]))
        worst = max(worst, float(np.abs(plain.consistency(x, y, A) @ e.T.ravel()).max()))
        m = np.concatenate([A.T.ravel(), y - A @ x, [1.0]])
        worst = max(worst, float(np.abs(plain.constraint_matrix(e, x) @ m).max()))
    return worst


def forms_hold_the_truth(_: Evidence) -> float:
    """Eq. 7 and 8 and their forms for any direction reproduce the true affinities."""
    scene = _scene(3)
    worst = 0.0
    for R, t, x, y, A in _rows(scene, scene.tracks.A):
        E = [plain.skew(b) @ a for a, b in zip(R, t, strict=True)]
        Q = plain.basis(E[0], x, y[0])
        worst = max(worst, float(np.abs(Q @ np.append(A[0][1], 1.0) - A[0].T.ravel()).max()))
        upright = [plain.upright_basis(e, x, point) for e, point in zip(E, y, strict=True)]
        alpha, gamma = (q[:, :2].T @ (a.T.ravel() - q[:, 2]) for q, a in zip(upright, A, strict=True))
        turn = R[1] @ R[0].T
        E23 = plain.skew(t[1] - turn @ t[0]) @ turn
        scale, shift = plain.transfer(upright[0], upright[1], E23, y[0], y[1])
        worst = max(worst, float(np.abs(scale * alpha + shift - gamma).max() / (1 + np.abs(gamma).max())))
    s = scene.tracks
    return max(worst, apart(correct_views(s.R, s.t, s.x, s.inverse_depth, s.A).A, s.A))


def two_views_are_scipys(_: Evidence) -> float:
    """Correction of the affinity, and of point and affinity, against SciPy's sequential least squares."""
    scene = _scene(2)
    s, A = scene.tracks, _noisy(scene)[:, 0]
    E, y = essential(s.R, s.t)[:, 0], s.y[:, 0]
    moved = y + 0.05 * noise(*y.shape, seed="points")
    ours, (point, both) = correct_affinity(E, s.x, y, A), correct_correspondence(E, s.x, moved, A)
    worst = 0.0
    for i in range(len(s)):
        e, x, a = E[i].numpy(), s.x[i].numpy(), A[i].numpy()
        theirs = plain.correct_by_scipy(e, x, y[i].numpy(), a)
        p, b = plain.correct_jointly_by_scipy(e, x, moved[i].numpy(), a)
        for mine, other in ((ours[i], theirs), (point[i], p), (both[i], b)):
            worst = max(worst, float(np.abs(mine.numpy() - other).max()))
    return worst


def corrections_are_projections(_: Evidence) -> float:
    """Corrected affinities satisfy the constraints, and are corrected to themselves."""
    scene = _scene(4)
    s = scene.tracks
    E, x = essential(s.R, s.t), s.x[:, None].expand_as(s.y)
    once = correct_affinity(E, x, s.y, _noisy(scene))
    views = correct_views(s.R, s.t, s.x, s.inverse_depth, _noisy(scene)).A
    again = correct_views(s.R, s.t, s.x, s.inverse_depth, views).A
    agree = max(float(inconsistency(E, x, s.y, A).abs().max()) for A in (once, views))
    return max(agree, apart(correct_affinity(E, x, s.y, once), once), apart(again, views))


def many_views_are_all_pairs(_: Evidence) -> float:
    """The weighted mean against the paper's stack and the projection on the constraints of all pairs, for up to ten
    views; for two, against the correction of one pair."""
    worst = 0.0
    for views in (2, 3, 6, 10):
        scene = _scene(views, count=10)
        s, A = scene.tracks, _noisy(scene)
        ours = correct_views(s.R, s.t, s.x, s.inverse_depth, A).A
        for mine, row in zip(ours.numpy(), _rows(scene, A), strict=True):
            for theirs in (plain.correct_views(*row), plain.correct_all_pairs(*row)):
                worst = max(worst, float(np.abs(mine - np.stack(theirs)).max()))
        if views == 2:
            worst = max(worst, apart(ours, correct_affinity(essential(s.R, s.t), s.x[:, None], s.y, A)))
    return worst


def same_as_all_frames(_: Evidence) -> float:
    """The median difference from the projection in which the frame of the first view moves too."""
    scene = _scene(6, count=20)
    s, A = scene.tracks, _noisy(scene)
    ours = correct_views(s.R, s.t, s.x, s.inverse_depth, A).A
    gaps = [
        float(np.abs(mine - np.stack(plain.correct_all_pairs(*row, first=True))).max())
        for mine, row in zip(ours.numpy(), _rows(scene, A), strict=True)
    ]
    return float(np.median(gaps))


def free_depth_is_the_minimum(_: Evidence) -> float:
    """How much lower SciPy's minimum of Eq. 12's cost is than ours, relative to it."""
    from scipy.optimize import least_squares

    scene = _scene(4, count=8)
    s, A = scene.tracks, _noisy(scene, 0.1)
    y = s.y + 0.02 * noise(*s.y.shape, seed="points")
    ours = correct_plane(s.R, s.t, s.x, y, A, steps=50).plane
    worst = 0.0
    for i in range(len(s)):

        def gaps(p: Array, i: int = i) -> Array:
            point, affinity = plane_affinity(s.R[i], s.t[i], torch.from_numpy(p), s.x[i])
            return torch.cat([(affinity - A[i]).flatten(), (point - y[i]).flatten()]).numpy()

        theirs = least_squares(gaps, ours[i].numpy(), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        worst = max(worst, float(0.5 * (gaps(ours[i].numpy()) ** 2).sum() / theirs.cost - 1))
    return worst


def plane_is_the_stack(_: Evidence) -> float:
    """The solver against the 9 (N - 1) equations of Eq. 13 with scales, on noisy data; and the true plane and point
    without noise, by it and by another linear system."""
    worst = 0.0
    for views in (2, 5):
        scene = _scene(views)
        s, A = scene.tracks, _noisy(scene)
        ours, true = estimate_plane(s.R, s.t, s.x, s.y, A), estimate_plane(s.R, s.t, s.x, s.y, s.A)
        for mine, row in zip(ours.numpy(), _rows(scene, A), strict=True):
            theirs = plain.plane(*row)
            worst = max(worst, float(np.abs(mine - theirs).max() / np.abs(theirs).max()))
        for n, row in zip(scene.plane.numpy(), _rows(scene, s.A), strict=True):
            worst = max(worst, float(np.abs(plain.plane_by_rows(*row) - n).max() / np.abs(n).max()))
        size = scene.plane.norm(dim=1, keepdim=True)
        worst = max(worst, apart(true / size, scene.plane / size))
        worst = max(worst, apart(oriented_point(true, s.x)[0] * s.inverse_depth[:, None], homogeneous(s.x)))
    return worst


def printed_plane(_: Evidence) -> float:
    """The median error of normals by Eq. 13 as printed, without noise, in degrees."""
    scene = _scene(5)
    found = torch.from_numpy(np.stack([plain.plane_as_printed(*row) for row in _rows(scene, scene.tracks.A)]))
    normals = (oriented_point(plane, scene.tracks.x)[1] for plane in (found, scene.plane))
    return float(normal_angle(*normals).median())


def _rectified() -> tuple[Exact, Tensor]:
    """A scene whose epipolar lines are horizontal, and its essential matrices."""
    scene = _scene(2)
    s = scene.tracks
    R = torch.eye(3, dtype=torch.float64).expand_as(s.R)
    t = torch.tensor([-0.4, 0.0, 0.0]).double().expand_as(s.t)
    y, A = plane_affinity(R, t, scene.plane[:, None], s.x[:, None])
    return Exact(replace(s, R=R, t=t, y=y, A=A), scene.plane), essential(R, t)[:, 0]


def upright_in_rectified_pairs(_: Evidence) -> float:
    """True affinities of rectified pairs are corrected to themselves, and noisy ones to such that agree."""
    scene, E = _rectified()
    s = scene.tracks
    fixed = correct_affinity(E, s.x, s.y[:, 0], s.A[:, 0])
    agree = inconsistency(E, s.x, s.y[:, 0], correct_affinity(E, s.x, s.y[:, 0], _noisy(scene)[:, 0]))
    return max(apart(fixed, s.A[:, 0]), float(agree.abs().max()))


def printed_basis(_: Evidence) -> float:
    """The share of rectified correspondences for which Q of Eq. 7 is not finite."""
    scene, E = _rectified()
    s = scene.tracks
    bad = [not np.isfinite(plain.basis(E[i].numpy(), s.x[i].numpy(), s.y[i, 0].numpy())).all() for i in range(len(s))]
    return float(np.mean(bad))


def closer_to_the_truth(_: Evidence) -> float:
    """The largest growth of an affinity's error by correction, at σ = 1: of one pair, and of whole tracks."""
    worst = -np.inf
    for views in (2, 5, 10):
        scene = _scene(views, count=1000)
        s, A = scene.tracks, _noisy(scene, 1.0)
        for B in (
            correct_affinity(essential(s.R, s.t), s.x[:, None].expand_as(s.y), s.y, A),
            correct_views(s.R, s.t, s.x, s.inverse_depth, A).A,
        ):
            after, before = (affinity_error(M, s.A).square().sum(1).sqrt() for M in (B, A))
            worst = max(worst, float((after - before).max()))
    return worst


def least_gain(_: Evidence) -> list[float]:
    """By how many degrees correction lowers the median error of normals, at the least over numbers of views and levels
    of noise; one value per set of 1000 tracks."""
    gains = []
    for seed in range(SETS):
        cells = []
        for views in (2, 5, 10):
            scene = sphere(1000, views, generator("correct first", seed, views))
            s, true = scene.tracks, oriented_point(scene.plane, scene.tracks.x)[1]
            for sigma in (0.2, 1.0, 2.0):
                A = s.A + sigma * noise(*s.A.shape, seed=f"{seed} {views} {sigma}")
                raw = estimate_plane(s.R, s.t, s.x, s.y, A)
                fixed = correct_views(s.R, s.t, s.x, s.inverse_depth, A).plane
                error = [normal_angle(oriented_point(n, s.x)[1], true).median() for n in (raw, fixed)]
                cells.append(float(error[0] - error[1]))
        gains.append(min(cells))
    return gains


# Families -------------------------------------------------------------------------------------------------------------


def _families(scene: Exact) -> dict[str, tuple[Family, Tensor]]:
    """Families of maps in one view, with the parameters of the true plane; their degrees of freedom by name."""
    s = scene.tracks
    E, y = essential(s.R, s.t)[:, 0], s.y[:, 0]
    true = torch.cat([s.A, s.y.unsqueeze(-1)], -1)
    two = through_point(induced(s.R, s.t, s.x[:, None], s.inverse_depth[:, None]))
    three, four, six = along_line(E, s.x, y), affinities(y), affine_maps(y)
    p = torch.cat([scene.plane[:, :2], s.inverse_depth[:, None]], 1)
    linear = {"2": two, "3": three, "4": four, "6": six}
    found: dict[str, tuple[Family, Tensor]] = {name: (own, own.nearest(true)) for name, own in linear.items()}
    return found | {"3 planes": (Planes(s.R, s.t, s.x), p)}


def freedom(_: Evidence) -> float:
    """Degrees of freedom that differ from 2, 3, 4 and 6, counted by the rank of the derivatives."""
    wrong = 0
    for name, (family, p) in _families(_scene(2)).items():
        derivative = family.at(p)[1]
        wrong += int((torch.linalg.matrix_rank(derivative[:, 0].flatten(-2)) != int(name[0])).sum())
    return float(wrong)


def derivatives(_: Evidence) -> float:
    """Derivatives of all maps, and of what planes induce, against automatic differentiation."""
    scene = _scene(2, count=5)
    worst = 0.0
    for family, p in _families(scene).values():
        jacobian: Any = torch.autograd.functional.jacobian
        wanted = jacobian(lambda q, family=family: family.at(q)[0].sum(0), p)
        ours = family.at(p)[1]
        worst = max(worst, apart(ours, wanted.permute(3, 0, 4, 1, 2), relative=True))
    s = scene.tracks
    view = induced(s.R, s.t, s.x[:, None], s.inverse_depth[:, None])
    slant = scene.plane[:, None, :2]
    along = induced_derivative(s.R, s.t, view, slant.expand_as(view.y))[:, :, 2, :, 2]
    return max(worst, apart(along, view.direction))


def any_parameters_agree(_: Evidence) -> float:
    """How far maps with 2 and 3 degrees of freedom are from the constraints, for random parameters."""
    scene = _scene(2)
    s = scene.tracks
    E = essential(s.R, s.t)[:, 0]
    worst = 0.0
    for name, (family, p) in _families(scene).items():
        if name[0] in "23":
            maps = family.at(p + 0.1 * noise(*p.shape, seed=name))[0]
            off = inconsistency(E, s.x, maps[:, 0, :, 2], maps[:, 0, :, :2])
            worst = max(worst, float(off.abs().max() / (1 + maps.abs().max())))
    return worst


def planted_map_is_found(_: Evidence) -> float:
    """The largest error of aligned affinities where one picture is an affine copy of a smooth function, in pixels at
    the border of the patch."""
    rows, columns = torch.meshgrid(torch.arange(160).double(), torch.arange(200).double(), indexing="ij")

    def texture(x: Tensor, y: Tensor) -> Tensor:
        return torch.sin(x / 7) + torch.cos(y / 9 + x / 23) + 0.5 * torch.sin((x + 2 * y) / 11)

    true = torch.tensor([[1.06, 0.05, 4.0], [-0.04, 0.97, 3.0]]).double()
    back = torch.linalg.inv(torch.cat([true, torch.tensor([[0.0, 0.0, 1.0]]).double()]))
    x, y = (back[i, 0] * columns + back[i, 1] * rows + back[i, 2] for i in range(2))
    stack = Pictures.of([texture(columns, rows), texture(x, y)], blur=0.0)
    centre = torch.tensor([[100.0, 80.0], [70.0, 60.0], [120.0, 100.0]]).double()
    frame = (12 * torch.eye(2).double()).expand(3, 2, 2)
    template = torch.cat([frame, centre.unsqueeze(-1)], -1)
    place = centre @ true[:, :2].mT + true[:, 2]
    family = InPixels(affinities(place), frame, torch.eye(3).double().expand(3, 1, 3, 3))
    start = torch.eye(2).double().reshape(1, 4).expand(3, 4)
    others = torch.ones(3, 1).long()
    found = align(stack, torch.zeros(3).long(), template, others, family, start, Alignment(tolerance=1e-6))
    return float(12 * (found.p - true[:, :2].reshape(4)).abs().max())


def one_bad_row(_: Evidence) -> float:
    """How many of ten thousand results change when one correspondence is not a number."""
    scene = _scene(3, count=10_000)
    s = scene.tracks
    broken = s.A.clone()
    broken[1234, 0, 0, 0] = torch.nan
    changed = 0
    runs: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda A: correct_views(s.R, s.t, s.x, s.inverse_depth, A).plane,
        lambda A: estimate_plane(s.R, s.t, s.x, s.y, A),
        lambda A: correct_correspondence(essential(s.R, s.t)[:, 0], s.x, s.y[:, 0], A[:, 0])[1].flatten(1),
    )
    for run in runs:
        changed += abs(int((run(broken) != run(s.A)).any(1).sum()) - 1)
    return float(changed)


def _check(id: str, statement: str, source: str, measure: Callable[[Evidence], float], most: float = ROUNDING) -> Claim:
    return Claim(id, statement, source, "check", measure, most)


def _exact(
    id: str, statement: str, source: str, measure: Callable[[Evidence], float | Sequence[float]], **how: object
) -> Claim:
    return Claim(id, statement, source, "exact", measure, **{"threshold": 1e-8, **how})  # type: ignore[arg-type]


CHECKS = (
    _check("exact-agree", "Exact correspondences satisfy the constraints, in our form and in the paper's.", "Eq. 2, 3",
           exact_ones_agree),
    _check("forms", "All forms of a consistent affinity hold the true one: Q, λ and that of a plane through the point.",
           "Eq. 7, 8", forms_hold_the_truth, 1e-8),
    _check("two-views-scipy", "Corrections with 2 and 3 degrees of freedom are those of SciPy's constrained "
           "minimisation.", "Eq. 4, 6", two_views_are_scipys, 1e-6),
    _check("projection", "Corrected affinities satisfy the constraints, and stay as they are when corrected again.",
           "Sec. 2", corrections_are_projections, 1e-8),
    _check("all-pairs", "Multi-view correction equals the paper's stacked system and the projection on the constraints "
           "of all pairs; with two views, that of the pair.", "Eq. 9, 10", many_views_are_all_pairs, 1e-6),
    _check("free-depth", "Multi-view correction with 3 degrees of freedom reaches SciPy's minimum.", "Eq. 12",
           free_depth_is_the_minimum, 1e-6),
    _check("plane-stack", "The plane solver equals the stacked system with scales, and finds plane and point exactly "
           "without noise.", "Eq. 13", plane_is_the_stack, 1e-7),
    _check("rectified", "Horizontal epipolar lines are no special case of the correction.", "Eq. 6",
           upright_in_rectified_pairs),
    _check("freedom", "Families of maps have 2, 3, 4 and 6 degrees of freedom.", "Sec. 4", freedom, 0),
    _check("derivatives", "Derivatives of warps are those of automatic differentiation.", "Eq. 17", derivatives),
    _check("any-parameters", "Maps with 2 and 3 degrees of freedom agree with the poses for any parameters.",
           "Eq. 4, 6", any_parameters_agree),
    _check("planted", "Alignment finds an affinity that was planted, within 0.05 pixels.", "Eq. 14",
           planted_map_is_found, 0.05),
    _check("one-bad-row", "One correspondence of ten thousand that is not a number changes no other result.", "",
           one_bad_row, 0),
)  # fmt: skip
EXACT = (
    _exact("closer", "Correction never moves affinities away from the true ones.", "Sec. 5.1, Fig. 2a",
           closer_to_the_truth, threshold=1e-9, unit="growth of the error"),
    _exact("correct-first", "Correcting affinities before normals are estimated is systematically the best option: for "
           "2, 5 and 10 views and noise of 0.2, 1 and 2.", "Sec. 5.1, Fig. 2c", least_gain, threshold=0.0,
           sense="above", unit="° median error less, at the least"),
    _exact("same-as-all-frames", "The solution is exactly that of correcting the frames of all views by the "
           "constraints of all pairs (a 2N x C(N, 2) matrix).", "Sec. 5.1", same_as_all_frames,
           unit="largest difference", paper="identical"),
    _exact("printed-plane", "Eq. 13 as printed, with n and j as unknowns, gives the normal.", "Sec. 3", printed_plane,
           threshold=1e-6, unit="degrees, without noise"),
    _exact("printed-basis", "Q of Eq. 7 exists for every epipolar geometry.", "Eq. 7", printed_basis, threshold=0,
           unit="share without one in rectified pairs"),
)  # fmt: skip
