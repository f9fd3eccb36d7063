"""What the line integral transform must satisfy: on exact chords of polygons and ellipses, and on pixels."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, uniform
from vergence.core.seeding import generator
from vergence.metrics.classes import class_scores
from vergence.ops.lines import (
    binding_integrals,
    directions,
    fourier_invariants,
    line_offsets,
    normalise_rows,
    polar_moments,
    signature,
    square_root,
    supports,
)
from vergence.reference import lines as plain
from vergence.retrieval.lineintegral.model import describe, describe_image, ratios, transform
from vergence.retrieval.lineintegral.settings import ModelConfig
from vergence.retrieval.masks import Cameras, homography, seen
from vergence.retrieval.silhouettes import KINDS, silhouette
from vergence.search import Index

PUBLISHED = ModelConfig()
MAPS = (
    ([[1.6, 0.7], [-0.4, 0.9]], [0.3, -2.0]),
    ([[-1.0, 0.2], [0.5, 1.4]], [5.0, 1.0]),  # with a mirror
    ([[0.0, -3.0], [1.1, 0.4]], [0.0, 0.0]),
)
"""Affine maps: a matrix and a shift."""


def _star() -> list[plain.Floats]:
    """A star with unequal points and a square hole."""
    turns = np.arange(10) * math.pi / 5
    radii = np.array([1.0, 0.4, 0.8, 0.5, 1.1, 0.45, 0.9, 0.35, 1.2, 0.5])
    hole = np.array([[0.1, 0.1], [0.3, 0.1], [0.3, 0.25], [0.1, 0.25]])
    return [np.stack([radii * np.cos(turns), radii * np.sin(turns)], 1), hole - 0.1]


def _maps() -> list[tuple[plain.Floats, plain.Floats]]:
    return [(np.array(matrix), np.array(shift)) for matrix, shift in MAPS]


@cache
def _chords(number: int | None, rows: int, angles: int) -> Tensor:
    """Exact chords (K, N) of the star, or of its image under a map."""
    shape = _star() if number is None else plain.affine(_star(), *_maps()[number])
    values = [
        [plain.binding_chord(shape, (i + 0.5) / rows, 2 * math.pi * j / angles) for j in range(angles)]
        for i in range(rows)
    ]
    return torch.tensor(values, dtype=torch.float64)


def _normalised(rows: Tensor) -> Tensor:
    return fourier_invariants(normalise_rows(rows, square_root(polar_moments(rows))))


# Equations of the paper -----------------------------------------------------------------------------------------------


def lines_follow_the_shape(_: Evidence) -> float:
    """Eq. 14 on exact chords: ``Ψ_g(μ, θ) = |det A| / ‖Aᵀθ‖ Ψ_f(μ, ∠Aᵀθ)``."""
    worst = 0.0
    for matrix, shift in _maps():
        moved = plain.affine(_star(), matrix, shift)
        for ratio in (0.05, 0.4, 0.83):
            for angle in np.linspace(0.03, 6.2, 17):
                pulled = matrix.T @ np.array([math.cos(angle), math.sin(angle)])
                length = float(np.hypot(*pulled))
                theirs = plain.binding_chord(_star(), ratio, math.atan2(pulled[1], pulled[0]))
                ours = plain.binding_chord(moved, ratio, float(angle))
                worst = max(worst, abs(ours - abs(float(np.linalg.det(matrix))) / length * theirs))
    return worst


def _ellipse(matrix: Tensor, angles: int) -> Tensor:
    """Chords (K, N) of the image of the unit disc under a matrix, in closed form."""
    turns = directions(angles, matrix)
    stretched = (matrix.mT @ torch.stack([turns.cos(), turns.sin()])).norm(dim=0)
    return 2 * torch.linalg.det(matrix).abs() * (1 - ratios(PUBLISHED)[:, None] ** 2).sqrt() / stretched


def moments_follow_the_map(_: Evidence) -> float:
    """Eq. 18, ``M_g = |det A|³ A⁻ᵀ M_f A⁻¹``, on ellipses; and Eq. 21: ``E Eᵀ = I / |det A|``."""
    worst = 0.0
    for matrix, _shift in _maps():
        a = torch.from_numpy(matrix)
        size, inverse = torch.linalg.det(a).abs(), torch.linalg.inv(a)
        before = polar_moments(_ellipse(torch.eye(2, dtype=torch.float64), 1440))
        after = polar_moments(_ellipse(a, 1440))
        expected = size**3 * inverse.mT @ before @ inverse
        worst = max(worst, apart(after, expected, relative=True))
        similar = torch.linalg.inv(square_root(after)) @ (size * inverse.mT) @ square_root(before)
        worst = max(worst, apart(similar @ similar.mT, torch.eye(2).double() / size, relative=True))
    return worst


def invariants_of_exact_chords(_: Evidence) -> float:
    """The L1 change of the whole matrix under three affine maps, over its L1 norm: interpolation between angles and
    corners of the polygon are all that is left."""
    one = signature(_normalised(_chords(None, 6, 180)), 180)
    others = [signature(_normalised(_chords(number, 6, 180)), 180) for number in range(len(MAPS))]
    return max(float((one - other).abs().sum() / one.abs().sum()) for other in others)


def invariants_converge(_: Evidence) -> float:
    """The same error of the first frequencies with 360 angles over that with 90."""
    errors = []
    for angles in (90, 360):
        one, other = (_normalised(_chords(number, 3, angles))[:, :20] for number in (None, 0))
        errors.append(float((one - other).abs().sum()))
    return errors[1] / errors[0]


def ellipses_are_discs(_: Evidence) -> float:
    """The sum of all invariants but the zeroth, the largest of a disc and two ellipses in pixels."""
    worst = 0.0
    for matrix in ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.3], [0.0, 0.6]], [[0.5, 0.4], [-0.4, 0.9]]):
        inverse = torch.linalg.inv(torch.tensor(matrix, dtype=torch.float64))
        place = (torch.arange(256 * 4, dtype=torch.float64) + 0.5) / 512 - 1
        x, y = torch.meshgrid(1.1 * place, 1.1 * place, indexing="xy")
        inside = (torch.stack([x, y], -1) @ inverse.mT).square().sum(-1) <= 1
        image = torch.nn.functional.avg_pool2d(inside.double()[None], 4)[0]
        worst = max(worst, float(describe_image(image, PUBLISHED).abs().sum()))
    return worst


def root_does_not_matter(_: Evidence) -> float:
    """Invariants by the symmetric root of M against those by Cholesky's, on ellipses with a wave, at 4,000 angles."""
    matrix = torch.from_numpy(_maps()[0][0])
    rows = _ellipse(matrix, 4000)[:4] * (1 + 0.3 * torch.cos(3 * directions(4000, matrix) + 0.4))
    moments = polar_moments(rows)
    one, other = (
        fourier_invariants(normalise_rows(rows, root))
        for root in (square_root(moments), torch.linalg.cholesky(moments))
    )
    return apart(one, other)


# Pixels ---------------------------------------------------------------------------------------------------------------


def affine_copies_are_near(_: Evidence) -> float:
    """The farthest of 3 affine copies of a silhouette, over the nearest silhouette of another kind; the largest ratio
    over all kinds."""
    originals = {kind: silhouette(kind, "claim") >= 0.5 for kind in KINDS}
    descriptors = {kind: describe(mask) for kind, mask in originals.items()}
    cameras, worst = Cameras(stretch=3.0, tilt=0.0, side=256), 0.0
    for kind, mask in originals.items():
        own = descriptors[kind]
        views = [homography(cameras, generator("claims", kind, number)) for number in range(3)]
        far = max(float((describe(seen(mask, view, cameras.side)) - own).abs().sum()) for view in views)
        near = min(float((d - own).abs().sum()) for other, d in descriptors.items() if other != kind)
        worst = max(worst, far / near)
    return worst


def integrals_are_sums_along_lines(_: Evidence) -> float:
    """Supports, offsets and integrals against one line at a time in plain Python, on noise."""
    image = uniform(17, 23, seed="image")
    angles = directions(20, image)
    support = supports(image[None], angles)
    ours = binding_integrals(image[None], ratios(PUBLISHED)[::4], 20)[0]
    offsets = line_offsets(support, ratios(PUBLISHED)[::4])[0]
    theirs = torch.tensor(
        [
            [plain.image_integral(image.numpy(), float(o), float(a)) for o, a in zip(row, angles, strict=True)]
            for row in offsets
        ],
        dtype=torch.float64,
    )
    return apart(ours, theirs)


def _half_widths(image: Tensor, count: int) -> Tensor:
    support = supports(image[None], directions(count, image))[0]
    return (-support.roll(-(count // 2)) - support) / 2


def pencils_add_up_to_the_area(_: Evidence) -> float:
    """``h(θ) mean_μ [Ψ(μ, θ) + Ψ(μ, θ + π)]`` over the area, the largest deviation from 1 over kinds and angles."""
    worst = 0.0
    places = (torch.arange(200, dtype=torch.float64) + 0.5) / 200
    for kind in list(KINDS)[:6]:
        image = (silhouette(kind, "area", 128) >= 0.5).double()
        rows = binding_integrals(image[None], places, 24)[0]
        areas = _half_widths(image, 24) * (rows + rows.roll(-12, -1)).mean(0)
        worst = max(worst, float((areas / image.sum() - 1).abs().max()))
    return worst


def centre_lines_are_their_opposites(_: Evidence) -> float:
    """``Ψ(0, θ) = Ψ(0, θ + π)``."""
    image = silhouette("hand", "centre", 96).double()
    row = binding_integrals(image[None], torch.zeros(1, dtype=torch.float64), 60)[0, 0]
    return apart(row, row.roll(30))


def turns_and_mirrors_shift_rows(_: Evidence) -> float:
    """A quarter turn rolls all rows by N / 4, a mirror reverses them, a shift changes nothing."""
    image, config = silhouette("key", "turn", 96).double(), ModelConfig(angles=60)
    rows = transform(image, config)
    pairs = (
        (transform(image.rot90(-1), config), rows.roll(15, -1)),
        (transform(image.flip(0), config), rows.flip(-1).roll(1, -1)),
        (transform(torch.nn.functional.pad(image, (7, 0, 0, 3)), config), rows),
    )
    return max(apart(one, other) for one, other in pairs)


def the_vector_has_the_distance_of_the_matrix(_: Evidence) -> float:
    """L1 of two vectors against L1 of the whole K x N magnitudes, by a plain discrete Fourier transform."""
    rows = uniform(2, 3, 24, seed="rows")
    whole = [np.stack([plain.invariants(row.numpy()) for row in shape]) for shape in rows]
    one, other = (signature(fourier_invariants(shape), 24) for shape in rows)
    return abs(float((one - other).abs().sum()) - float(np.abs(whole[0] - whole[1]).sum()))


def the_index_ranks_by_l1(_: Evidence) -> float:
    """The number of places at which a ranking by FAISS differs from sorting all distances."""
    gallery, queries = uniform(60, 40, seed="gallery").float(), uniform(5, 40, seed="queries").float()
    _far, places = Index(gallery, tuple(map(str, range(60))), "claims", metric="l1").search(queries, 60)
    order = (queries.double()[:, None] - gallery.double()).abs().sum(-1).argsort(dim=1)
    return float((places != order).sum())


def scores_in_closed_form(_: Evidence) -> float:
    """Knee point and bull's eye of classes that are apart (100), and of one class whose shapes are nearer to another's:
    two pairs, each query beside one of the other class (50 and 100)."""
    labels = torch.arange(4).repeat_interleave(5)
    perfect = class_scores(labels[:, None].double(), labels)
    crossed = class_scores(torch.tensor([[0.0, 0], [9, 9], [0, 1], [9, 8]]), torch.tensor([0, 0, 1, 1]))
    wanted = ((perfect.knee, 100), (perfect.bullseye, 100), (crossed.knee, 50), (crossed.bullseye, 100))
    return max(abs(value - expected) for value, expected in wanted)
