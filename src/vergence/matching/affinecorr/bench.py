"""Whole batches against loops: over SciPy's minimisers, over the same formulas in NumPy, and over OpenCV's aligner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.matching.affinecorr.model import estimate, patch_frames, track
from vergence.matching.affinecorr.settings import Method, Patch
from vergence.matching.cameras import Camera
from vergence.matching.frames import opencv
from vergence.matching.synth import sphere
from vergence.matching.tracks import Observed, of_planes
from vergence.ops.affine_correspondences import correct_affinity, correct_correspondence, correct_views, estimate_plane
from vergence.ops.epipolar import cross_matrix, essential, triangulate
from vergence.ops.photoconsistency import Pictures
from vergence.reference import affine_correspondences as plain

MANY, SOME, PATCHES = 2000, 300, 200
SIZE = (240, 320)
PATCH = Patch(coarse=1)


def contests() -> Iterator[Contest]:
    """Corrections and planes of thousands of tracks, then patches aligned and tracked."""
    yield from _corrections()
    yield from _many_views()
    yield _triangulation()
    for views in (2, 5):
        yield _refinement(views)
    yield _tracking()


def _looped(function: Callable[..., Any], count: int, *parts: Tensor) -> Callable[[], Any]:
    arrays = [part.numpy() for part in parts]
    return lambda: [function(*(array[i] for array in arrays)) for i in range(count)]


def _corrections() -> Iterator[Contest]:
    s = sphere(MANY, 2, generator("bench")).tracks
    E, x, y = essential(s.R, s.t)[:, 0], s.x, s.y[:, 0]
    A = s.A[:, 0] + 0.2 * torch.randn(MANY, 2, 2, generator=generator("noise"), dtype=torch.float64)
    yield Contest(
        "correct-2", f"affinities of {MANY} pairs corrected, 2 degrees of freedom",
        partial(correct_affinity, E, x, y, A),
        {"SciPy": _looped(plain.correct_by_scipy, MANY, E, x, y, A),
         "NumPy": _looped(plain.correct_affinity, MANY, E, x, y, A)},
    )  # fmt: skip
    yield Contest(
        "correct-3", f"points and affinities of {MANY} pairs corrected, 3 degrees of freedom",
        partial(correct_correspondence, E, x, y, A),
        {"SciPy": _looped(plain.correct_jointly_by_scipy, MANY, E, x, y, A),
         "NumPy": _looped(plain.correct_as_printed, MANY, E, x, y, A)},
    )  # fmt: skip


def _many_views() -> Iterator[Contest]:
    s = sphere(SOME, 10, generator("bench")).tracks
    A = s.A + 0.2 * torch.randn(s.A.shape, generator=generator("noise"), dtype=torch.float64)
    parts = (s.R, s.t, s.x, s.y, A)
    stacked, pairs = (_looped(f, SOME, *parts) for f in (plain.correct_views, plain.correct_all_pairs))
    yield Contest(
        "correct-10", f"affinities of {SOME} tracks of 10 views corrected",
        partial(correct_views, s.R, s.t, s.x, s.inverse_depth, A), {"NumPy": stacked, "NumPy, all pairs": pairs},
    )  # fmt: skip
    yield Contest("solvers-10", "the paper's stack of 36 x 3 against all pairs, 20 x 45, both in NumPy, 10 views",
                  stacked, {"all pairs": pairs})  # fmt: skip
    yield Contest("planes-10", f"planes of {SOME} tracks of 10 views", partial(estimate_plane, *parts),
                  {"NumPy": _looped(plain.plane, SOME, *parts)})  # fmt: skip


def _triangulation() -> Contest:
    """Hartley and Sturm's optimum for two views."""
    cv2 = opencv()
    s = sphere(1, 2, generator("bench")).tracks
    R, t = s.R[0, 0], s.t[0, 0]
    X = torch.randn(MANY, 3, generator=generator("points"), dtype=torch.float64) + torch.tensor([0.0, 0.0, 5.0])
    Y = X @ R.mT + t
    noise = 0.005 * torch.randn(MANY, 2, 2, generator=generator("noise"), dtype=torch.float64)
    both = torch.stack([X[:, :2] / X[:, 2:], Y[:, :2] / Y[:, 2:]], 1) + noise
    Rs = torch.stack([torch.eye(3).double(), R]).expand(MANY, 2, 3, 3)
    ts = torch.stack([torch.zeros(3).double(), t]).expand(MANY, 2, 3)
    E, P = essential(R, t).numpy(), [np.eye(3, 4), np.column_stack([R.numpy(), t.numpy()])]
    first, second = (both[:, i].numpy()[None] for i in range(2))

    def theirs() -> Any:
        a, b = cv2.correctMatches(E, first, second)
        return cv2.triangulatePoints(P[0], P[1], a[0].T, b[0].T)

    return Contest("triangulate", f"{MANY} points of two views triangulated optimally",
                   partial(triangulate, Rs, ts, both), {"OpenCV": theirs})  # fmt: skip


# Patches --------------------------------------------------------------------------------------------------------------


def textured_plane(views: int, count: int, step: float = 0.35) -> tuple[Observed, Pictures, list[Any]]:
    """Tracks on a textured plane, its pictures, and the same as arrays."""
    from scipy.ndimage import gaussian_filter, map_coordinates

    random = np.random.default_rng(0)
    texture = gaussian_filter(random.normal(size=SIZE), 2.0)
    texture = (texture - texture.min()) / np.ptp(texture)
    plane = torch.tensor([0.08, -0.05, 0.3], dtype=torch.float64)
    K = torch.tensor([[350.0, 0, 160], [0, 350.0, 120], [0, 0, 1]], dtype=torch.float64)
    cameras, pictures = [], []
    rows, columns = np.mgrid[: SIZE[0], : SIZE[1]]
    flat = np.stack([columns.ravel(), rows.ravel(), np.ones(rows.size)])
    for number in range(views):
        way = torch.tensor([np.cos(2.4 * number), np.sin(2.4 * number), 0.1]) * step * (number > 0)
        R = torch.linalg.matrix_exp(cross_matrix(torch.tensor([0.1, -0.1, 0.05]).double() * way))
        cameras.append(Camera(f"{number}.png", K, R, way.double()))
        H = K @ (R + way[:, None] * plane) @ torch.linalg.inv(K)
        back = np.linalg.inv(H.numpy()) @ flat
        pictures.append(map_coordinates(texture, (back[:2] / back[2])[::-1], order=3, mode="reflect").reshape(SIZE))
    pixels = torch.from_numpy(random.uniform([60, 50], [260, 190], (count, 2)))
    tracks = of_planes(cameras, pixels, plane.expand(count, 3), 4.0)
    return tracks, Pictures.of([torch.from_numpy(picture) for picture in pictures], blur=PATCH.blur), pictures


def _refinement(views: int) -> Contest:
    """Ref2DoF against Ref4DoF, and against OpenCV's aligner, which has 6 degrees of freedom."""
    tracks, stack, pictures = textured_plane(views, PATCHES)
    noise = torch.randn(tracks.A.shape, generator=generator("noise"), dtype=torch.float64)
    tracks = replace(tracks, A=tracks.A + 0.1 * noise)

    def by(method: Method) -> Callable[[], Any]:
        return partial(estimate, tracks, stack, method, PATCH)

    rivals: dict[str, Callable[[], Any]] = {"Ref4DoF": by("ref4"), "OpenCV, ECC": partial(_ecc, tracks, pictures)}
    return Contest(f"refine-{views}", f"{PATCHES} patches refined in {views} views", by("ref2"), rivals)


def _ecc(tracks: Observed, pictures: list[Any]) -> list[Any]:
    """Every patch in every other picture, by ``findTransformECC`` from the same start, in a crop of it."""
    cv2 = opencv()
    images: list[Any] = [picture.astype(np.float32) for picture in pictures]
    frames = patch_frames(tracks, PATCH)
    centre, places = tracks.pixels()
    side, half = PATCH.side, (PATCH.side - 1) / 2
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, PATCH.steps, 1e-5)
    found = []
    for row in range(len(tracks)):
        M = (frames[row] / half).numpy()
        at = np.column_stack([M, centre[row].numpy() - M @ [half, half]])
        template = cv2.warpAffine(images[0], at, (side, side), flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP)
        for view in range(places.shape[1]):
            A = tracks.A[row, view].numpy() @ M
            place = places[row, view].numpy()
            low = np.maximum(np.floor(place).astype(int) - 32, 0)
            crop = images[view + 1][low[1] : low[1] + 64, low[0] : low[0] + 64]
            warp = np.float32(np.column_stack([A, place - low - A @ [half, half]]))
            try:
                found.append(cv2.findTransformECC(template, crop, warp, cv2.MOTION_AFFINE, criteria, None, 3)[1])
            except cv2.error:  # it gives up where patches do not correlate
                found.append(None)
    return found


def _tracking() -> Contest:
    tracks, stack, _ = textured_plane(6, PATCHES, step=0.02)
    runs = {freedom: partial(track, tracks, stack, freedom, PATCH) for freedom in (3, 6)}
    return Contest("track", f"{PATCHES} patches tracked through 5 frames, 3 degrees of freedom", runs[3],
                   {"Track6DoF": runs[6]})  # fmt: skip
