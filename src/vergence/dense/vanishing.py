"""The vanishing point image: line segments of the cube's faces vote for great circles (Sec. 2.3).

Segments come from scikit-image's Canny detector and probabilistic Hough transform, with a fixed seed.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.sphere import circle_votes, cube_faces, cube_rotations, pixel_directions, sample

FACE = 0.75
"""Pixels along a face, as a share of the panorama's height; half of it would keep the resolution of the equator."""
SMOOTH = 1.0
"""Standard deviation of the Canny detector's filter, in pixels of a face."""
LENGTH, GAP, VOTES = 0.14, 2, 8
"""Shortest segment as a share of a face, longest gap in pixels, and the Hough transform's threshold."""
REACH = 1.5
"""Half the width of a circle of votes, in degrees."""
PEAKS, STEPS = 48, 45
"""Directions that are tried as the first of three orthogonal ones, and angles at which the second one is tried."""


def line_normals(picture: Tensor) -> tuple[Tensor, Tensor]:
    """Normals (N, 3) of the planes through the centre and the line segments of a panorama (3, H, W) of bytes, and the
    segments' lengths (N,) in radians, about."""
    from skimage.feature import canny
    from skimage.transform import probabilistic_hough_line

    grey = picture.float().mean(0, keepdim=True).unsqueeze(0) / 255
    side = max(round(FACE * picture.shape[-2]), 8)
    faces = cube_faces(grey, side)[0, :, 0].numpy()
    normals, lengths = [], []
    for face, turn in zip(faces, cube_rotations(torch.zeros((), dtype=torch.float64)), strict=True):
        edges = canny(face.astype(np.float64), SMOOTH)  # type: ignore[no-untyped-call]
        if not edges.any():
            continue
        least = max(round(LENGTH * side), 3)
        found = probabilistic_hough_line(edges, VOTES, least, GAP, rng=0)  # type: ignore[no-untyped-call]
        if not found:
            continue
        ends = (torch.tensor(found, dtype=torch.float64) + 0.5) * (2 / side) - 1  # (N, 2 ends, right and down)
        rays = torch.stack([torch.ones_like(ends[..., 0]), -ends[..., 0], -ends[..., 1]], -1) @ turn.mT
        cross = torch.linalg.cross(rays[:, 0], rays[:, 1])
        size = cross.norm(dim=1)
        normals.append(cross / size.unsqueeze(1))
        lengths.append(torch.asin((size / rays.norm(dim=2).prod(1)).clamp(max=1)))
    if not normals:
        return torch.zeros(0, 3, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
    return torch.cat(normals), torch.cat(lengths)


def vanishing_image(picture: Tensor, height: int, width: int, reach: float = REACH) -> Tensor:
    """V (height, width) of a panorama (3, H, W) of bytes, from 0 to 255 as bytes (Eq. 3)."""
    return as_bytes(circle_votes(line_normals(picture)[0], height, width, reach))


def as_bytes(votes: Tensor) -> Tensor:
    """Votes scaled so that the most are 255."""
    return (votes * (255 / votes.max().clamp(min=1))).round().to(torch.uint8)


def most_voted_axis(votes: Tensor) -> Tensor:
    """The vertical (3,) by votes (H, W) alone: of three directions at right angles with the most votes together, the
    upmost. The first is among the strongest directions, the second at any angle around it."""
    height, width = votes.shape
    map_ = F.avg_pool2d(votes.float()[None, None], 3, 1, 1, count_include_pad=False)
    upper = map_[0, 0, : (height + 1) // 2]
    peak = F.max_pool2d(upper[None, None], 5, 1, 2)[0, 0] == upper
    strength = torch.where(peak, upper, -1.0).flatten()
    index = strength.topk(min(PEAKS, len(strength))).indices
    first = pixel_directions(height, width, upper)[: len(upper)].flatten(0, 1)[index]  # (K, 3)
    least = F.one_hot(first.abs().argmin(1), 3).to(first)
    right = F.normalize(torch.linalg.cross(first, least), dim=1)
    other = torch.linalg.cross(first, right)
    angle = torch.arange(STEPS) * (math.pi / 2 / STEPS)
    second = angle.cos().view(-1, 1) * right.unsqueeze(1) + angle.sin().view(-1, 1) * other.unsqueeze(1)  # (K, S, 3)
    third = torch.linalg.cross(first.unsqueeze(1).expand_as(second), second)
    triples = torch.stack([first.unsqueeze(1).expand_as(second), second, third], 2)  # (K, S, 3 axes, 3)
    total = sample(map_, triples.flatten(1, 2).unsqueeze(0))[0, 0].unflatten(1, (STEPS, 3)).sum(2)
    best = triples.flatten(0, 1)[total.argmax()]
    axis = best[best[:, 2].abs().argmax()]
    return axis * (1 if axis[2] > 0 else -1)


def refined_axis(up: Tensor, normals: Tensor, lengths: Tensor, within: float = 6.0, rounds: int = 5) -> Tensor | None:
    """The vertical (3,) nearest to ``up`` that the lines agree on, in the least squares sense: those whose planes pass
    within some degrees of it count, less the farther away, in rounds. None if fewer than 6 lines do, or if they do not
    determine it."""
    axis = up.to(normals)
    for round_ in range(rounds):
        near = within / (1 + round_)
        off = torch.rad2deg(torch.asin((normals @ axis).abs().clamp(max=1)))
        weight = lengths * (1 - (off / near) ** 2).clamp(min=0) ** 2
        if int((weight > 0).sum()) < 6:
            return None
        values, vectors = torch.linalg.eigh((normals * weight.unsqueeze(1)).mT @ normals)
        if values[1] < 0.05 * values[2]:  # lines of one plane
            return None
        axis = vectors[:, 0] * torch.sign(vectors[:, 0] @ axis)
        near = max(near, 2.0)
    return axis.to(up)
