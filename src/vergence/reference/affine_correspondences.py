"""Affine correspondences one at a time, as the paper's equations have them, and by SciPy's constrained minimisers.

Arrays are NumPy's in float64; ``E``, ``R``, ``t``, ``x``, ``y`` and ``A`` are those of one correspondence (or lists of
them, one per view), in normalised coordinates. ``A`` as a vector is read by columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def skew(t: Array) -> Array:
    return np.array([[0.0, -t[2], t[1]], [t[2], 0.0, -t[0]], [-t[1], t[0], 0.0]])


def lines(E: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """The lines ``Eᵀ ỹ`` in the first and ``E x̃`` in the second image."""
    return E.T @ np.append(y, 1.0), E @ np.append(x, 1.0)


# Equations ------------------------------------------------------------------------------------------------------------


def consistency(x: Array, y: Array, A: Array) -> Array:
    """Eq. 2: the matrix (3, 9) that is zero times E by columns."""
    (x1, x2), (y1, y2), (a1, a2, a3, a4) = x, y, A.T.ravel()
    return np.array([
        [x1 * y1, x1 * y2, x1, x2 * y1, x2 * y2, x2, y1, y2, 1],
        [a3 * x1, a4 * x1, 0, y1 + a3 * x2, y2 + a4 * x2, 1, a3, a4, 0],
        [y1 + a1 * x1, y2 + a2 * x1, 1, a1 * x2, a2 * x2, 0, a1, a2, 0],
    ])  # fmt: skip


def constraint_matrix(E: Array, x: Array) -> Array:
    """Eq. 3: M (3, 7) with ``M [A b 1] = 0`` for ``b = y - A x``."""
    e, (x1, x2) = E @ np.append(x, 1.0), x
    return np.array([
        [x1 * e[0], x1 * e[1], x2 * e[0], x2 * e[1], e[0], e[1], e[2]],
        [e[0] + x1 * E[0, 0], e[1] + x1 * E[1, 0], x2 * E[0, 0], x2 * E[1, 0], E[0, 0], E[1, 0], E[2, 0]],
        [x1 * E[0, 1], x1 * E[1, 1], e[0] + x2 * E[0, 1], e[1] + x2 * E[1, 1], E[0, 1], E[1, 1], E[2, 1]],
    ])  # fmt: skip


def basis(E: Array, x: Array, y: Array) -> Array:
    """Eq. 7: Q (4, 3) with ``A = Q [α 1]``. Divides by the first entry of a line: infinite where it is horizontal."""
    first, e = lines(E, x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        q1, q2, q3 = -e[1] / e[0], -first[0] / e[0], -first[1] / e[0]
    return np.array([[q1, 0, q2], [1, 0, 0], [0, q1, q3], [0, 1, 0]])


def upright_basis(E: Array, x: Array, y: Array) -> Array:
    """As :func:`basis`, for lines in any direction: ``A = -e lᵀ / |e|² + d αᵀ`` with a unit vector d along the line."""
    first, second = lines(E, x, y)
    e = second[:2]
    d = np.array([-e[1], e[0]]) / np.linalg.norm(e)
    particular = -np.outer(e, first[:2]) / (e @ e)
    return np.column_stack([np.append(d, [0, 0]), np.append([0, 0], d), particular.T.ravel()])


def transfer(QA: Array, QC: Array, E23: Array, y: Array, z: Array) -> tuple[float, Array]:
    """Eq. 8: λ₈ and (λ₉, λ₁₀) with ``γ = λ₈ α + (λ₉, λ₁₀)``, where A = QA [α 1] leads to the second and C = QC [γ 1] to
    the third view. Both bases are upright ones. Zero divided by zero if the three centres are on a line."""
    second, third = lines(E23, y, z)
    A0, C0 = QA[:, 2].reshape(2, 2).T, QC[:, 2].reshape(2, 2).T
    below = QC[:2, 0] @ third[:2]
    return float(-(QA[:2, 0] @ second[:2]) / below), -(A0.T @ second[:2] + C0.T @ third[:2]) / below


# Corrections ----------------------------------------------------------------------------------------------------------


def correct_affinity(E: Array, x: Array, y: Array, A: Array) -> Array:
    """Two degrees of freedom: the projection, for one correspondence."""
    first, second = lines(E, x, y)
    e = second[:2]
    return np.asarray(A - np.outer(e, A.T @ e + first[:2]) / (e @ e))


def correct_by_scipy(E: Array, x: Array, y: Array, A: Array) -> Array:
    """Two degrees of freedom: the nearest affinity under Eq. 5, by SciPy's sequential least squares."""
    first, second = lines(E, x, y)
    e = second[:2]
    Q = np.array([[e[0], e[1], 0, 0], [0, 0, e[0], e[1]]])
    return _nearest(A.T.ravel(), Q, -first[:2]).reshape(2, 2).T


def correct_jointly_by_scipy(E: Array, x: Array, y: Array, A: Array) -> tuple[Array, Array]:
    """Three degrees of freedom around x: the nearest point and affinity, by SciPy."""
    shifted = E.copy()
    shifted[:, 2] = E @ np.append(x, 1.0)  # coordinates of the first image that begin at x
    M = constraint_matrix(shifted, np.zeros(2))
    found = _nearest(np.append(A.T.ravel(), y), M[:, :6], -M[:, 6])
    return found[4:], found[:4].reshape(2, 2).T


def correct_as_printed(E: Array, x: Array, y: Array, A: Array) -> tuple[Array, Array]:
    """Three degrees of freedom by Eq. 3 and 4: [A b] projected, with b = y - A x."""
    M = constraint_matrix(E, x)
    m = np.append(A.T.ravel(), y - A @ x)
    m = m - np.linalg.pinv(M[:, :6]) @ (M @ np.append(m, 1.0))
    A = m[:4].reshape(2, 2).T
    return A @ x + m[4:], A


def _nearest(wanted: Array, rows: Array, right: Array) -> Array:
    from scipy.optimize import minimize

    found: Any = minimize(
        lambda m: 0.5 * ((m - wanted) ** 2).sum(), wanted, jac=lambda m: m - wanted, method="SLSQP",
        constraints={"type": "eq", "fun": lambda m: rows @ m - right, "jac": lambda m: rows},
        options={"ftol": 1e-15, "maxiter": 50},
    )  # fmt: skip
    return np.asarray(found.x)


def correct_views(
    R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array], A: Sequence[Array]
) -> list[Array]:
    """Eq. 9 and 10: one α for all views, from a stack of 4 V rows; views after the second follow by Eq. 8."""
    essentials = [skew(b) @ a for a, b in zip(R, t, strict=True)]
    bases = [upright_basis(E, x, point) for E, point in zip(essentials, y, strict=True)]
    stack = [bases[0]]
    for number in range(1, len(bases)):
        Rr = R[number] @ R[0].T
        E23 = skew(t[number] - Rr @ t[0]) @ Rr
        scale, shift = transfer(bases[0], bases[number], E23, y[0], y[number])
        Q = bases[number]
        stack.append(np.column_stack([scale * Q[:, :2], Q @ np.append(shift, 1.0)]))
    L = np.concatenate(stack)
    wanted = np.concatenate([a.T.ravel() for a in A])
    alpha = np.linalg.lstsq(L[:, :2], wanted - L[:, 2], rcond=None)[0]
    return [(Q[:, :2] @ alpha + Q[:, 2]).reshape(2, 2).T for Q in stack]


def pair_constraints(
    R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array]
) -> tuple[Array, list[tuple[int, int]]]:
    """The constraints of all pairs of views on frames, (C(N, 2), N, 2): for a column u_i of the frame of each view,
    ``l · u_i + e · u_j = 0``. The first view has the pose (I, 0)."""
    rotations, shifts, points = [np.eye(3), *R], [np.zeros(3), *t], [x, *y]
    pairs = list(combinations(range(len(points)), 2))
    rows = np.zeros((len(pairs), len(points), 2))
    for row, (i, j) in zip(rows, pairs, strict=True):
        Rr = rotations[j] @ rotations[i].T
        E = skew(shifts[j] - Rr @ shifts[i]) @ Rr
        first, second = lines(E, points[i], points[j])
        row[i], row[j] = first[:2], second[:2]
    return rows, pairs


def correct_all_pairs(
    R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array], A: Sequence[Array], first: bool = False
) -> list[Array]:
    """The frames of all N views that satisfy the constraints of all pairs and are nearest to the measured ones, by a
    singular value decomposition of a 2N x C(N, 2) matrix (Eichhardt and Barath, BMVC 2019, as the paper describes it).

    With ``first`` the frame of the first view moves too, and affinities are frames relative to it; otherwise it stays
    the identity.
    """
    rows, _ = pair_constraints(R, t, x, y)
    frames = np.concatenate([np.eye(2), *A])  # (2N, 2)
    matrix = rows.reshape(len(rows), -1)
    free = matrix if first else matrix[:, 2:]
    U, S, V = np.linalg.svd(free.T, full_matrices=False)
    rank = int(np.count_nonzero(S / S[0] > 1e-10))
    missed = matrix @ frames
    step = U[:, :rank] @ (V[:rank] @ missed / S[:rank, None])
    frames = frames - step if first else np.concatenate([frames[:2], frames[2:] - step])
    found = frames.reshape(-1, 2, 2)
    return [frame @ np.linalg.inv(found[0]) for frame in found[1:]]


# Planes ---------------------------------------------------------------------------------------------------------------


def _stacked(
    R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array], A: Sequence[Array], scaled: bool
) -> tuple[Array, Array]:
    """Eq. 13 for all views: 9 V rows, and unknowns n, and σ j and σ of each view; without ``scaled``, σ is 1."""
    count, own = len(y), 3 if scaled else 2
    F, right = np.zeros((9 * count, 3 + own * count)), np.zeros(9 * count)
    for view in range(count):
        rows, at = slice(9 * view, 9 * view + 9), 3 + own * view
        H = np.zeros((3, 3))
        H[:2, :2], H[:2, 2], H[2, 2] = A[view], y[view] - A[view] @ x, 1
        y_ = np.append(y[view], 1.0)
        for column in range(3):
            F[rows, column] = np.outer(-t[view], np.eye(3)[column]).ravel()
        for column in range(2):
            F[rows, at + column] = np.outer(y_, np.append(np.eye(2)[column], -x[column])).ravel()
        if scaled:
            F[rows, at + 2] = H.ravel()
        right[rows] = R[view].ravel() - (0 if scaled else H.ravel())
    return F, right


def plane(R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array], A: Sequence[Array]) -> Array:
    """The plane by Eq. 13 with the scale of every homography as an unknown."""
    F, right = _stacked(R, t, x, y, A, scaled=True)
    return np.asarray(np.linalg.lstsq(F, right, rcond=None)[0][:3])


def plane_as_printed(R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array], A: Sequence[Array]) -> Array:
    """The plane by Eq. 13 as it is printed, with unknowns n and j alone."""
    F, right = _stacked(R, t, x, y, A, scaled=False)
    return np.asarray(np.linalg.lstsq(F, right, rcond=None)[0][:3])


def plane_by_rows(R: Sequence[Array], t: Sequence[Array], x: Array, y: Sequence[Array], A: Sequence[Array]) -> Array:
    """The plane by another linear system: ``A s = base + direction νᵀ`` without division (4 rows per view), and two
    rows for the point."""
    x_ = np.append(x, 1.0)
    rows, right = [], []
    for a, b, point, M in zip(R, t, y, A, strict=True):
        along = b[:2] - point * b[2]
        block = a[:2, :2] - np.outer(point, a[2, :2])
        for r in range(2):
            for c in range(2):
                rows.append(M[r, c] * b[2] * x_ - along[r] * np.eye(3)[c])
                right.append(block[r, c] - M[r, c] * (a[2] @ x_))
            rows.append(along[r] * x_)
            right.append(point[r] * (a[2] @ x_) - a[r] @ x_)
    return np.asarray(np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0])
