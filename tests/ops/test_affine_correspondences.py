"""Corrections and planes equal the paper's equations solved one by one, SciPy's minimisers, and the true scene."""

import cv2
import numpy as np
import pytest
import torch
from scipy.optimize import least_squares

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
from vergence.ops.epipolar import (
    cross_matrix,
    epipolar_lines,
    essential,
    homogeneous,
    induced,
    plane_affinity,
    plane_through,
    relative_pose,
    triangulate,
)
from vergence.reference import affine_correspondences as plain


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(w):
    return torch.linalg.matrix_exp(cross_matrix(w))


def scene(count=7, views=4, seed=0):
    """Poses, points, planes and their exact correspondences."""
    R = rotation(0.3 * noise(count, views, 3, seed=seed))
    t = noise(count, views, 3, seed=seed + 1)
    x = 0.4 * noise(count, 2, seed=seed + 2)
    depth = 3 + noise(count, seed=seed + 3).abs()
    slant = 0.3 * noise(count, 2, seed=seed + 4)
    n = plane_through(x, slant, 1 / depth)
    y, A = plane_affinity(R, t, n.unsqueeze(1), x.unsqueeze(1))
    return R, t, x, n, y, A


def rows(*tensors):
    """Correspondences one by one, as NumPy arrays."""
    return [tuple(t[i].numpy() for t in tensors) for i in range(len(tensors[0]))]


def test_a_plane_moves_neighbourhoods_as_its_homography_does():
    R, t, x, n, y, A = scene()
    H = R + t.unsqueeze(-1) * n[:, None, None, :]

    def image(u):
        v = (H @ homogeneous(u)[:, None, :, None]).squeeze(-1)
        return v[..., :2] / v[..., 2:]

    torch.testing.assert_close(image(x), y)
    step = 1e-6
    for axis in range(2):
        shift = torch.zeros(2, dtype=x.dtype)
        shift[axis] = step
        torch.testing.assert_close((image(x + shift) - image(x - shift)) / (2 * step), A[..., axis], atol=1e-8, rtol=0)


def test_exact_correspondences_satisfy_equations_two_and_three():
    R, t, x, _, y, A = scene()
    E = essential(R, t)
    assert inconsistency(E, x[:, None].expand_as(y), y, A).abs().max() < 1e-13
    for e, u, v, a in rows(E[:, 0], x, y[:, 0], A[:, 0]):
        assert np.abs(plain.consistency(u, v, a) @ e.T.ravel()).max() < 1e-13
        assert np.abs(plain.constraint_matrix(e, u) @ np.concatenate([a.T.ravel(), v - a @ u, [1]])).max() < 1e-13
        wrong = a + 0.01 * np.eye(2)
        assert np.abs(plain.consistency(u, v, wrong) @ e.T.ravel()).max() > 1e-4


def test_the_three_forms_of_an_affinity_hold_the_true_one():
    R, t, x, _, y, A = scene(views=2)
    E = essential(R, t)
    for i in range(len(x)):
        u, (v, z), (a, c) = x[i].numpy(), y[i].numpy(), A[i].numpy()
        E2, E3 = E[i].numpy()
        Q = plain.basis(E2, u, v)
        np.testing.assert_allclose(Q @ [a[1, 0], a[1, 1], 1], a.T.ravel(), atol=1e-12)
        upright = [plain.upright_basis(E2, u, v), plain.upright_basis(E3, u, z)]
        alpha, gamma = ((q[:, :2].T @ (m.T.ravel() - q[:, 2])) for q, m in zip(upright, (a, c), strict=True))
        np.testing.assert_allclose(upright[0] @ np.append(alpha, 1), a.T.ravel(), atol=1e-12)
        Rr, tr = relative_pose(R[i, 0], t[i, 0], R[i, 1], t[i, 1])
        scale, shift = plain.transfer(*upright, essential(Rr, tr).numpy(), v, z)
        np.testing.assert_allclose(scale * alpha + shift, gamma, atol=1e-9)


def test_correction_of_the_affinity_is_scipys():
    R, t, x, _, y, A = scene()
    E, A = essential(R, t)[:, 0], A[:, 0] + 0.3 * noise(7, 2, 2, seed=9)
    ours = correct_affinity(E, x, y[:, 0], A)
    for mine, row in zip(ours.numpy(), rows(E, x, y[:, 0], A), strict=True):
        np.testing.assert_allclose(mine, plain.correct_by_scipy(*row), atol=1e-8)
        np.testing.assert_allclose(mine, plain.correct_affinity(*row), atol=1e-12)
    assert inconsistency(E, x, y[:, 0], ours).abs().max() < 1e-13
    torch.testing.assert_close(correct_affinity(E, x, y[:, 0], ours), ours)


def test_correction_of_point_and_affinity_is_scipys():
    R, t, x, _, y, A = scene()
    E, A, y = essential(R, t)[:, 0], A[:, 0] + 0.2 * noise(7, 2, 2, seed=9), y[:, 0] + 0.1 * noise(7, 2, seed=8)
    point, affinity = correct_correspondence(E, x, y, A)
    printed = correct_correspondence(E, x, y, A, origin=torch.zeros_like(x))
    for i, row in enumerate(rows(E, x, y, A)):
        theirs = plain.correct_jointly_by_scipy(*row)
        np.testing.assert_allclose(point[i], theirs[0], atol=1e-7)
        np.testing.assert_allclose(affinity[i], theirs[1], atol=1e-7)
        for mine, other in zip(printed, plain.correct_as_printed(*row), strict=True):
            np.testing.assert_allclose(mine[i], other, atol=1e-10)
    assert inconsistency(E, x, point, affinity).abs().max() < 1e-13
    assert (printed[1] - affinity).abs().max() > 1e-4  # the choice of the origin matters
    heavy, _ = correct_correspondence(E, x, y, A, weight=1e9)
    _, line = epipolar_lines(E, x, y)
    nearest = y - line[:, :2] * ((homogeneous(y) * line).sum(1) / line[:, :2].square().sum(1))[:, None]
    torch.testing.assert_close(heavy, nearest, atol=1e-6, rtol=0)


def test_correction_of_many_views_is_the_papers_stack_and_the_projection_on_all_pairs():
    R, t, x, n, y, A = scene(views=5)
    rho = (n * homogeneous(x)).sum(1)
    exact = correct_views(R, t, x, rho, A)
    torch.testing.assert_close(exact.A, A)
    torch.testing.assert_close(exact.plane, n)
    noisy = A + 0.3 * noise(*A.shape, seed=9)
    ours = correct_views(R, t, x, rho, noisy)
    for i in range(len(x)):
        row = (R[i].numpy(), t[i].numpy(), x[i].numpy(), y[i].numpy(), noisy[i].numpy())
        np.testing.assert_allclose(ours.A[i], plain.correct_views(*row), atol=1e-8)
        np.testing.assert_allclose(ours.A[i], plain.correct_all_pairs(*row), atol=1e-8)
    two = correct_views(R[:, :1], t[:, :1], x, rho, noisy[:, :1])
    torch.testing.assert_close(two.A[:, 0], correct_affinity(essential(R, t)[:, 0], x, y[:, 0], noisy[:, 0]))


def test_views_without_weight_do_not_count():
    R, t, x, n, y, A = scene(views=4)
    noisy = A + 0.1 * noise(*A.shape, seed=9)
    rho, weight = (n * homogeneous(x)).sum(1), torch.tensor([1.0, 1.0, 0.0, 1.0]).double().expand(7, 4)
    kept = [0, 1, 3]
    noisy[:, 2], y[:, 2] = float("nan"), float("nan")
    few = correct_views(R[:, kept], t[:, kept], x, rho, noisy[:, kept])
    torch.testing.assert_close(correct_views(R, t, x, rho, noisy, weight).plane, few.plane)
    args = (x, y[:, kept], noisy[:, kept])
    ours = estimate_plane(R, t, x, y, noisy, weight)
    torch.testing.assert_close(ours, estimate_plane(R[:, kept], t[:, kept], *args))
    torch.testing.assert_close(
        correct_plane(R, t, x, y, noisy, weight).plane, correct_plane(R[:, kept], t[:, kept], *args).plane
    )


def test_centres_on_a_line_and_rectified_pairs_are_no_special_case():
    _, _, x, n, _, _ = scene()
    t = torch.tensor([[-0.2, 0.0, 0.0], [-0.5, 0.0, 0.0]]).double().expand(7, 2, 3)
    R = torch.eye(3).double().expand(7, 2, 3, 3)
    y, A = plane_affinity(R, t, n[:, None], x[:, None])
    noisy, rho = A + 0.1 * noise(7, 2, 2, 2, seed=5), (n * homogeneous(x)).sum(1)
    ours = correct_views(R, t, x, rho, noisy).A
    E = essential(R, t)
    assert inconsistency(E, x[:, None].expand_as(y), y, ours).abs().max() < 1e-14
    torch.testing.assert_close(correct_affinity(E[:, 0], x, y[:, 0], A[:, 0]), A[:, 0])
    assert not np.isfinite(plain.basis(E[0, 0].numpy(), x[0].numpy(), y[0, 0].numpy())).all()
    torch.testing.assert_close(estimate_plane(R, t, x, y, A), n)


def test_correction_of_plane_and_points_is_scipys_minimum():
    R, t, x, n, y, A = scene(views=3)
    wrong_y, wrong_A = y + 0.03 * noise(*y.shape, seed=6), A + 0.1 * noise(*A.shape, seed=7)
    exact = correct_plane(R, t, x, y, A)
    torch.testing.assert_close(exact.plane, n, atol=1e-8, rtol=0)
    ours = correct_plane(R, t, x, wrong_y, wrong_A, point_weight=2.0)
    for i in range(len(x)):

        def gaps(plane, i=i):
            point, affinity = plane_affinity(R[i], t[i], torch.from_numpy(plane), x[i])
            return torch.cat([(affinity - wrong_A[i]).flatten(), 2**0.5 * (point - wrong_y[i]).flatten()]).numpy()

        theirs = least_squares(gaps, n[i].numpy(), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        mine = 0.5 * (gaps(ours.plane[i].numpy()) ** 2).sum()
        assert mine <= theirs.cost * (1 + 1e-9)
        np.testing.assert_allclose(ours.plane[i], theirs.x, atol=1e-6)


def test_the_plane_solver_is_the_stacked_system_with_a_scale():
    R, t, x, n, y, A = scene()
    torch.testing.assert_close(estimate_plane(R, t, x, y, A), n)
    noisy = A + 0.3 * noise(*A.shape, seed=9)
    ours = estimate_plane(R, t, x, y, noisy)
    for i in range(len(x)):
        row = (R[i].numpy(), t[i].numpy(), x[i].numpy(), y[i].numpy())
        np.testing.assert_allclose(ours[i], plain.plane(*row, noisy[i].numpy()), atol=1e-10)
        np.testing.assert_allclose(plain.plane_by_rows(*row, A[i].numpy()), n[i], atol=1e-10)
        assert np.abs(plain.plane_as_printed(*row, A[i].numpy()) - n[i].numpy()).max() > 1e-3


def test_an_oriented_point_is_on_its_ray_and_its_normal_faces_the_camera():
    _, _, x, n, _, _ = scene()
    X, normal = oriented_point(n, x)
    torch.testing.assert_close((n * X).sum(1), torch.ones(7).double())
    torch.testing.assert_close(X[:, :2] / X[:, 2:], x)
    assert ((X * normal).sum(1) < 0).all()
    torch.testing.assert_close(normal.norm(dim=1), torch.ones(7).double())


def test_triangulation_is_the_optimum():
    R, t, x, n, y, _ = scene(count=40, views=1, seed=3)
    X = oriented_point(n, x)[0]
    R, t = torch.cat([torch.eye(3).expand(40, 1, 3, 3), R], 1), torch.cat([torch.zeros(40, 1, 3), t], 1)
    both = torch.cat([x[:, None], y], 1)
    found, error = triangulate(R, t, both)
    torch.testing.assert_close(found, X)
    assert error.max() < 1e-9
    wrong = both + 0.01 * noise(40, 2, 2, seed=4)
    found, error = triangulate(R, t, wrong, steps=40)
    for i in range(40):
        E = essential(R[i, 1], t[i, 1]).numpy()
        theirs = cv2.correctMatches(E, *wrong[i].numpy()[:, None, None])
        gap = sum(((a - b) ** 2).sum() for a, b in zip(theirs, wrong[i].numpy(), strict=True))
        assert float(2 * error[i] ** 2) <= gap * (1 + 1e-6) + 1e-12


def test_triangulation_leaves_out_views_without_weight():
    R, t, x, n, y, _ = scene(views=3)
    weight = torch.tensor([1.0, 0.0, 1.0]).double().expand(7, 3)
    bad = y.clone()
    bad[:, 1] = float("nan")
    found, _ = triangulate(R, t, bad, weight)
    torch.testing.assert_close(found, oriented_point(n, x)[0])


def test_derivatives_of_induced_maps_are_autograds():
    R, t, x, n, _, _ = scene(count=3, views=2)
    p = torch.cat([n[:, :2], (n * homogeneous(x)).sum(1, keepdim=True)], 1)

    def affine_map(p):
        y, A = plane_affinity(R, t, plane_through(x, p[:, :2], p[:, 2])[:, None], x[:, None])
        return torch.cat([A, y.unsqueeze(-1)], -1)

    theirs = torch.autograd.functional.jacobian(affine_map, p)  # (B, V, 2, 3, B, 3)
    view = induced(R, t, x[:, None], p[:, None, 2])
    ours = induced_derivative(R, t, view, p[:, None, :2].expand(3, 2, 2))
    for i in range(3):
        torch.testing.assert_close(ours[i], theirs[i, ..., i, :].permute(0, 3, 1, 2))


def test_corrections_and_planes_have_the_gradients_of_finite_differences():
    R, t, x, n, y, A = scene(count=2, views=2)
    A, y = (A + 0.1 * noise(*A.shape, seed=9)).requires_grad_(), (y + 0.05 * noise(*y.shape, seed=8)).requires_grad_()
    R, t, x, E = R, t.requires_grad_(), x.requires_grad_(), essential(R, t.detach())[:, 0]
    rho = (n * homogeneous(x.detach())).sum(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y, A: correct_affinity(E, x, y[:, 0], A[:, 0]), (x, y, A))
    assert torch.autograd.gradcheck(lambda x, y, A: correct_correspondence(E, x, y[:, 0], A[:, 0]), (x, y, A))
    assert torch.autograd.gradcheck(lambda t, x, rho, A: correct_views(R, t, x, rho, A), (t, x, rho, A))
    assert torch.autograd.gradcheck(lambda t, x, y, A: estimate_plane(R, t, x, y, A), (t, x, y, A))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_one_bad_row_in_ten_thousand_touches_no_other(bad):
    R, t, x, n, y, A = (v.repeat(100, *[1] * (v.dim() - 1)) for v in scene(count=100, views=2))
    E, rho = essential(R, t), (n * homogeneous(x)).sum(1)
    broken = A.clone()
    broken[4321, 0, 1, 1] = bad
    rest = torch.arange(len(x)) != 4321
    for call in (
        lambda A: correct_affinity(E[:, 0], x, y[:, 0], A[:, 0]),
        lambda A: correct_correspondence(E[:, 0], x, y[:, 0], A[:, 0])[1],
        lambda A: correct_views(R, t, x, rho, A).plane,
        lambda A: estimate_plane(R, t, x, y, A),
        lambda A: correct_plane(R, t, x, y, A, steps=3).plane,
    ):
        out = call(broken)
        assert torch.equal(out[rest], call(A)[rest])
        assert not out[4321].isfinite().all()


def test_equal_centres_give_no_plane_and_no_error():
    R, t, x, n, y, A = scene(count=3, views=1)
    still = torch.zeros_like(t)
    for plane in (estimate_plane(R, still, x, y, A), correct_views(R, still, x, n[:, 2], A).plane):
        assert not plane.isfinite().all(1).any()
