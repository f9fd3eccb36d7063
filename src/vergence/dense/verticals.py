"""The vertical of a panorama: as pitch and roll, as a rotation, as the centroid of a spot; and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import Tensor

from vergence.dense.vanishing import vanishing_image
from vergence.ops.sphere import (
    caps,
    fibonacci_sphere,
    pixel_areas,
    pixel_to_vector,
    rotate,
    sample,
    shortest_arc,
    yaw,
)

Centroid = Literal["spherical", "pixel"]


def generalised_dice(predicted: Tensor, truth: Tensor) -> Tensor:
    """``1 − 2 Σ_c w_c Σ y ŷ / Σ_c w_c Σ (y + ŷ)`` with ``w_c = 1 / (Σ y)²``, of a spot's probabilities (B, M) and their
    truth; the mean over the batch. A class that is nowhere has no weight."""
    top, bottom = predicted.new_zeros(len(predicted)), predicted.new_zeros(len(predicted))
    for own, true in ((predicted, truth), (1 - predicted, 1 - truth)):
        size = true.sum(1)
        weight = torch.where(size > 0, size.clamp(min=1e-12) ** -2, 0)
        top = top + weight * (own * true).sum(1)
        bottom = bottom + weight * (own + true).sum(1)
    return (1 - 2 * top / bottom).mean()


def dice_loss(logits: Tensor, up: Tensor, radius: float, points: int, turn: Tensor | None = None) -> Tensor:
    """The loss of logits (B, 2, H, W) for verticals (B, 3) and spots of a radius in degrees: over a number of points
    that are uniform on the sphere, turned about the vertical axis by an angle (), or, if that is 0, over pixels."""
    height, width = logits.shape[-2:]
    predicted = logits.float().softmax(1)[:, 1:]
    truth = caps(up.float(), height, width, radius).float().unsqueeze(1)
    if not points:
        return generalised_dice(predicted.flatten(1), truth.flatten(1))
    places = fibonacci_sphere(points, predicted)
    if turn is not None:
        places = places @ yaw(turn.to(places)).mT
    both = sample(torch.cat([predicted, truth], 1), places.view(1, 1, -1, 3))  # (B, 2, 1, M)
    return generalised_dice(both[:, 0, 0], both[:, 1, 0])


def log_cosh(found: Tensor, up: Tensor) -> Tensor:
    """The mean of ``log cosh`` of the angles in radians between unit vectors (B, 3)."""
    cosine = (found * up).sum(1)
    angle = torch.atan2((1 - cosine * cosine).clamp(min=1e-12).sqrt(), cosine)
    return (angle + F.softplus(-2 * angle) - math.log(2)).mean()


def pitch_roll(up: Tensor) -> tuple[Tensor, Tensor]:
    """Pitch and roll (...) in degrees of a camera that sees the vertical at ``up`` (..., 3), as GPano has them: the
    elevation of the picture's middle, and positive if the right side is lower."""
    x, y, z = up.unbind(-1)
    return torch.rad2deg(torch.asin(-x.clamp(-1, 1))), torch.rad2deg(torch.atan2(-y, z))


def up_of(pitch: Tensor, roll: Tensor) -> Tensor:
    """The vertical (..., 3) of pitch and roll in degrees."""
    a, b = torch.deg2rad(pitch), torch.deg2rad(roll)
    return torch.stack([-a.sin(), -b.sin() * a.cos(), b.cos() * a.cos()], -1)


def bins(up: Tensor, count: int, width: float) -> Tensor:
    """The bins (B, 2) of pitch and roll, ``count`` of ``width`` degrees around 0."""
    angles = torch.stack(pitch_roll(up), -1)
    return (angles / width + count / 2).floor().clamp(0, count - 1).long()


def middles(index: Tensor, count: int, width: float) -> Tensor:
    """The verticals (B, 3) in the middle of bins (B, 2)."""
    angles = (index.to(torch.get_default_dtype()) + 0.5 - count / 2) * width
    return up_of(*angles.unbind(-1))


def upright(up: Tensor) -> Tensor:
    """Rotations R (..., 3, 3) for :func:`vergence.ops.sphere.rotate` that bring verticals (..., 3) to the top."""
    return shortest_arc(torch.tensor([0.0, 0.0, 1.0]).to(up).expand_as(up), up)


def components(mask: np.ndarray) -> np.ndarray:
    """Labels (H, W) of the connected parts of a mask, which continue from the last column to the first; 0 outside."""
    labels, count = ndimage.label(np.concatenate([mask, mask[:, :1]], 1), np.ones((3, 3)))
    parent = np.arange(count + 1)
    for one, other in np.unique(np.stack([labels[:, -1], labels[:, 0]], 1), axis=0):  # one column, labelled twice
        low, high = sorted((parent[one], parent[other]))
        parent[parent == high] = low
    return parent[labels[:, :-1]]


def axis_of(spots: Tensor, centroid: Centroid = "spherical") -> Tensor:
    """The vertical (3,) of a map (H, W) of a spot's probabilities: the centroid of the connected part with the most
    probability on the sphere, in the upper hemisphere. Where nothing is above one half, all above half the largest
    value count."""
    height, width = spots.shape
    values = spots.detach().double().cpu()
    mask = values > min(0.5, 0.5 * float(values.max()))
    rows, columns = mask.nonzero(as_tuple=True)
    labels = torch.from_numpy(components(mask.numpy()))[rows, columns]
    weights = values[rows, columns] * pixel_areas(height, width, values)[rows]
    mass = torch.bincount(labels, weights, minlength=1)
    own = labels == int(mass.argmax())
    rows, columns, weights = rows[own], columns[own], weights[own]
    if centroid == "spherical":
        axis = (pixel_to_vector(columns.double(), rows.double(), height, width) * weights.unsqueeze(1)).sum(0)
    else:
        reached = torch.zeros(width, dtype=torch.bool)
        reached[columns] = True
        start = int((~reached).long().argmax())  # unrolled at a column that the part does not reach
        across = ((columns - start) % width).double().mean() + start
        axis = pixel_to_vector(across, rows.double().mean(), height, width)
    axis = F.normalize(axis, dim=0)
    return axis * (1 if axis[2] >= 0 else -1)


def network_input(pictures: Tensor, votes: Tensor, height: int) -> tuple[Tensor, Tensor]:
    """Pictures (B, 3, H, W) and votes (B, H, W) of bytes, as the networks take them: of a height, from -1 to 1 and from
    0 to 1."""
    size = (height, 2 * height)
    both = [pictures.float() / 127.5 - 1, votes.unsqueeze(1).float() / 255]
    both = [F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False) for x in both]
    return both[0], both[1]


def tilted_again(
    find: Callable[[Tensor, Tensor], Tensor], pictures: Tensor, axes: Tensor, tilt: float, level: float
) -> Tensor:
    """Verticals (B, 3) after the test-time tilt: pictures (B, 3, H, W) of bytes that seem to be within ``level``
    degrees of upright are tilted by ``tilt`` degrees, all at once, and ``find(pictures, votes)`` is asked again."""
    near = torch.rad2deg(torch.acos(axes[:, 2].clamp(-1, 1))) < level
    if not tilt or not bool(near.any()):
        return axes
    a = math.radians(tilt)
    turn = torch.tensor([[math.cos(a), 0.0, math.sin(a)], [0.0, 1.0, 0.0], [-math.sin(a), 0.0, math.cos(a)]])
    turned = rotate(pictures[near].float(), turn.to(pictures.device)).round().to(torch.uint8)
    votes = torch.stack([vanishing_image(own.cpu(), *own.shape[-2:]) for own in turned]).to(pictures.device)
    again = find(turned, votes) @ turn.to(axes).mT
    found = axes.clone()
    found[near] = again * torch.where(again[:, 2:] < 0, -1, 1)
    return found
