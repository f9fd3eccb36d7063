"""From maps to the vertical: the dice loss on the sphere, the centroid of the more probable spot, test-time tilts."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.dense.camera360.model import COARSE, FINE, CoarseToFine, Network
from vergence.dense.camera360.settings import Objective
from vergence.dense.vanishing import vanishing_image
from vergence.dense.verticals import Centroid, axis_of, generalised_dice, pitch_roll, up_of, upright
from vergence.ops.sphere import caps, fibonacci_sphere, rotate, sample, yaw

# Loss -----------------------------------------------------------------------------------------------------------------


def dice_loss(logits: Tensor, up: Tensor, objective: Objective, turn: Tensor | None = None) -> Tensor:
    """The loss of logits (B, 2, H, W) for verticals (B, 3): over points that are uniform on the sphere, turned about
    the vertical axis by an angle (), or over pixels."""
    height, width = logits.shape[-2:]
    predicted = logits.float().softmax(1)[:, 1:]
    truth = caps(up.float(), height, width, objective.radius).float().unsqueeze(1)
    if objective.loss == "plane":
        return generalised_dice(predicted.flatten(1), truth.flatten(1))
    points = fibonacci_sphere(objective.points, predicted)
    if turn is not None:
        points = points @ yaw(turn.to(points)).mT
    both = sample(torch.cat([predicted, truth], 1), points.view(1, 1, -1, 3))  # (B, 2, 1, M)
    return generalised_dice(both[:, 0, 0], both[:, 1, 0])


def log_cosh(found: Tensor, up: Tensor) -> Tensor:
    """The mean of ``log cosh`` of the angles in radians between unit vectors (B, 3)."""
    cosine = (found * up).sum(1)
    angle = torch.atan2((1 - cosine * cosine).clamp(min=1e-12).sqrt(), cosine)
    return (angle + F.softplus(-2 * angle) - math.log(2)).mean()


# Pitch and roll -------------------------------------------------------------------------------------------------------


def bins(up: Tensor, count: int, width: float) -> Tensor:
    """The bins (B, 2) of pitch and roll, ``count`` of ``width`` degrees around 0."""
    angles = torch.stack(pitch_roll(up), -1)
    return (angles / width + count / 2).floor().clamp(0, count - 1).long()


def middles(index: Tensor, count: int, width: float) -> Tensor:
    """The verticals (B, 3) in the middle of bins (B, 2)."""
    angles = (index.to(torch.get_default_dtype()) + 0.5 - count / 2) * width
    return up_of(*angles.unbind(-1))


def coarse_to_fine(model: CoarseToFine, images: Tensor, votes: Tensor) -> Tensor:
    """The verticals (B, 3): the likeliest coarse bins, then the fine bins of the pictures turned by them."""
    coarse = model(images, votes).unflatten(1, (2, COARSE)).argmax(2)
    rough = middles(coarse, COARSE, 10.0).to(images)
    turns = upright(rough)
    fine = model.fine(rotate(images, turns)).unflatten(1, (2, FINE)).argmax(2)
    rest = middles(fine, FINE, 1.0).to(images)
    return (turns @ rest.unsqueeze(-1)).squeeze(-1)


# Whole pictures -------------------------------------------------------------------------------------------------------


def network_input(pictures: Tensor, votes: Tensor, height: int) -> tuple[Tensor, Tensor]:
    """Pictures (B, 3, H, W) and votes (B, H, W) of bytes, as the networks take them: of a height, from -1 to 1 and from
    0 to 1."""
    size = (height, 2 * height)
    both = [pictures.float() / 127.5 - 1, votes.unsqueeze(1).float() / 255]
    both = [F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False) for x in both]
    return both[0], both[1]


def verticals(model: Network, images: Tensor, votes: Tensor, centroid: Centroid) -> tuple[Tensor, Tensor | None]:
    """The verticals (B, 3) that a network finds, and the probabilities (B, H, W) of the spots if it segments."""
    if isinstance(model, CoarseToFine):
        axes, maps = coarse_to_fine(model, images, votes), None
    else:
        found = model(images, votes).float()
        maps = found.softmax(1)[:, 1] if found.dim() == 4 else None
        axes = found if maps is None else torch.stack([axis_of(own, centroid) for own in maps]).to(images)
    return axes * torch.where(axes[:, 2:] < 0, -1, 1), maps


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
