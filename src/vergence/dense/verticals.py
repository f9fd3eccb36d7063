"""The vertical of a panorama: as pitch and roll, as a rotation, as the centroid of a spot; and the dice of spots."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage
from torch import Tensor

from vergence.ops.sphere import pixel_areas, pixel_to_vector, shortest_arc

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


def pitch_roll(up: Tensor) -> tuple[Tensor, Tensor]:
    """Pitch and roll (...) in degrees of a camera that sees the vertical at ``up`` (..., 3), as GPano has them: the
    elevation of the picture's middle, and positive if the right side is lower."""
    x, y, z = up.unbind(-1)
    return torch.rad2deg(torch.asin(-x.clamp(-1, 1))), torch.rad2deg(torch.atan2(-y, z))


def up_of(pitch: Tensor, roll: Tensor) -> Tensor:
    """The vertical (..., 3) of pitch and roll in degrees."""
    a, b = torch.deg2rad(pitch), torch.deg2rad(roll)
    return torch.stack([-a.sin(), -b.sin() * a.cos(), b.cos() * a.cos()], -1)


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
