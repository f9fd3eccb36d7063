"""Counts, identities and closed forms that decide claims and checks without training."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.dense.camera360.model import GSCNN, Regressor, build
from vergence.dense.camera360.settings import SETTINGS, SMALL
from vergence.dense.verticals import axis_of, generalised_dice, pitch_roll, tilted_again, up_of, upright
from vergence.metrics.angles import axis_errors
from vergence.nn.inception import InceptionV3
from vergence.ops import sphere

PARTS = {"backbone": 21_785_568, "stream": 105_549, "aspp": 3_073_792, "low": 9_216, "logits": 1_292_386}
"""Parameters of the parts of the published network."""
CLASSIFIER = 27_161_264 - 3_326_696
"""InceptionV3 for ImageNet, without its auxiliary classifier."""
TOP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64, device="cpu")
ZERO = torch.zeros((), dtype=torch.float64, device="cpu")


def _rotations(count: int, seed: str) -> Tensor:
    q, r = torch.linalg.qr(noise(count, 3, 3, seed=seed))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return q * torch.linalg.det(q).view(-1, 1, 1)


def _ups(count: int, seed: str) -> Tensor:
    """Verticals of the upper hemisphere: random ones, the pole, some near it, some on the seam and the equator."""
    special = torch.tensor([[0, 0, 1], [0.01, 0, 1], [0, -0.05, 1], [0.1, 1e-9, 1], [1, 0, 0.5], [1, -1e-3, 0.02],
                            [1, 1e-3, 0.02], [-1, 0, 0.3]], dtype=torch.float64)  # fmt: skip
    every = F.normalize(torch.cat([special, noise(count - len(special), 3, seed=seed)]), dim=1)
    return every * torch.where(every[:, 2:] < 0, -1, 1)


def _smooth(directions: Tensor) -> Tensor:
    """A smooth function (2, ...) of directions (..., 3)."""
    x, y, z = directions.unbind(-1)
    return torch.stack([x * y + 0.5 * z * z * x, torch.sin(2 * x + y) * z])


# Coordinates ----------------------------------------------------------------------------------------------------------


def coordinates_return(_: Evidence) -> float:
    """Pixels to the sphere, to vectors and back, in pixels; and against the definition."""
    height, width = 64, 128
    x = uniform(2000, seed="x") * width - 0.5
    y = uniform(2000, seed="y") * (height - 0.02) - 0.49
    again = sphere.vector_to_pixel(sphere.pixel_to_vector(x, y, height, width), height, width)
    around = (again[0] - x + width / 2).remainder(width) - width / 2  # the seam is one place
    colatitude, longitude = math.pi * (y + 0.5) / height, 2 * math.pi - 2 * math.pi * (x + 0.5) / width
    plain = torch.stack([longitude.cos() * colatitude.sin(), longitude.sin() * colatitude.sin(), colatitude.cos()], 1)
    off = apart(sphere.pixel_to_vector(x, y, height, width), plain)
    return max(float(around.abs().max()), apart(again[1], y), off)


def printed_longitudes(_: Evidence) -> float:
    """The share of the circle that the columns cover by Eq. 1 as printed, φ = 2π − πx/w."""
    width = 1024
    x = torch.arange(width, dtype=torch.float64) + 0.5
    longitude = 2 * math.pi - math.pi * x / width
    return float(longitude.max() - longitude.min() + math.pi / width) / (2 * math.pi)


def areas_are_the_sphere(_: Evidence) -> float:
    """Pixel areas against the difference of cosines, and their sum against 4π."""
    areas = sphere.pixel_areas(90, 180, ZERO)
    borders = torch.arange(91, dtype=torch.float64) * (math.pi / 90)
    plain = (borders[:-1].cos() - borders[1:].cos()) * (2 * math.pi / 180)
    return max(apart(areas, plain), abs(float(areas.sum()) * 180 / (4 * math.pi) - 1))


def points_are_uniform(_: Evidence) -> float:
    """Means of polynomials over the spiral's 16,384 points against their integrals over the sphere."""
    x, y, z = sphere.fibonacci_sphere(16_384, ZERO).unbind(1)
    integrals = {x: 0, y: 0, z: 0, x * x: 1 / 3, y * y: 1 / 3, z * z: 1 / 3, x * y: 0, x * z: 0, z**4: 1 / 5,
                 x * x * y * y: 1 / 15}  # fmt: skip
    return max(abs(float(values.mean()) - truth) for values, truth in integrals.items())


# Rotation and views ---------------------------------------------------------------------------------------------------


def plain_sample(panorama: Tensor, directions: Tensor) -> Tensor:
    """A panorama (C, H, W) at directions (P, 3) by the definition: four neighbours, columns modulo W, rows beyond a
    pole half a turn away."""
    height, width = panorama.shape[-2:]
    x, y = sphere.vector_to_pixel(directions, height, width)
    left, above = x.floor(), y.floor()
    total = torch.zeros(panorama.shape[0], len(directions), dtype=panorama.dtype)
    for right in (0, 1):
        for down in (0, 1):
            column, row = (left + right).long(), (above + down).long()
            over = (row < 0) | (row >= height)
            row = torch.where(row < 0, -1 - row, torch.where(row >= height, 2 * height - 1 - row, row))
            column = (column + torch.where(over, width // 2, 0)).remainder(width)
            weight = (1 - (x - left - right).abs()) * (1 - (y - above - down).abs())
            total = total + weight * panorama[:, row, column]
    return total


def rotation_is_its_definition(_: Evidence) -> float:
    """One grid_sample against four neighbours by hand, forward and backward in picture and rotation; and by tiles."""
    height, width = 14, 28
    picture = uniform(2, 3, height, width, seed="picture").requires_grad_()
    turns = _rotations(2, "turns").requires_grad_()
    ours = sphere.rotate(picture, turns)
    directions = sphere.pixel_directions(height, width, ZERO).flatten(0, 1)
    theirs = torch.stack(
        [
            plain_sample(own, directions @ turn.mT).unflatten(1, (height, width))
            for own, turn in zip(picture, turns, strict=True)
        ]
    )
    tiles = sphere.rotate_tiles(picture[1].detach(), turns[1].detach(), tile=5)
    return max(apart_with_gradients(ours, theirs, [picture, turns], relative=True), apart(tiles, ours[1]))


def yaw_is_a_roll(_: Evidence) -> float:
    """Turning about the vertical by k columns is rolling the picture by k columns."""
    picture = uniform(1, 3, 16, 32, seed="picture")
    off = []
    for columns in (1, 7, 16, 31):
        turn = sphere.yaw(torch.tensor(2 * math.pi * columns / 32, dtype=torch.float64))
        off.append(apart(sphere.rotate(picture, turn), picture.roll(columns, -1)))
    return max(off)


def round_trip(_: Evidence) -> float:
    """The lowest PSNR (dB) of smooth panoramas of 256 x 128 that were turned by R, then by its inverse."""
    picture = _smooth(sphere.pixel_directions(128, 256, ZERO)).unsqueeze(0)
    turns = _rotations(5, "trips")
    worst = math.inf
    for turn in turns:
        again = sphere.rotate(sphere.rotate(picture, turn), turn.mT)
        span = float(picture.max() - picture.min())
        worst = min(worst, 10 * math.log10(span**2 / float((again - picture).square().mean())))
    return worst


def views_see_their_directions(_: Evidence) -> float:
    """Cube faces and perspective pictures of a smooth function against the function at their directions, as a multiple
    of the bound of bilinear interpolation."""
    height, side = 128, 24
    picture = _smooth(sphere.pixel_directions(height, 2 * height, ZERO)).unsqueeze(0)
    views = sphere.view_directions(side, 90.0, ZERO)
    faces = sphere.cube_faces(picture, side)[0]
    off = []
    for face, turn in zip(faces, sphere.cube_rotations(ZERO), strict=True):
        truth = _smooth(F.normalize(views @ turn.mT, dim=-1))
        off += [apart(face, truth), apart(sphere.perspective(picture, turn, 90.0, side)[0], truth)]
    return max(off) / (2 * 6 * (math.pi / height) ** 2 / 8)  # second derivatives below 6 in both coordinates


# Spots and votes ------------------------------------------------------------------------------------------------------


def caps_have_their_area(_: Evidence) -> float:
    """The largest relative difference of a spot's area on the sphere from 1 − cos 5°, over verticals."""
    height, width = 512, 1024
    weight = sphere.pixel_areas(height, width, ZERO).unsqueeze(1) / (4 * math.pi)
    label = sphere.caps(_ups(16, "caps"), height, width, 5.0)
    return float(((label * weight).sum((1, 2)) / (1 - math.cos(math.radians(5))) - 1).abs().max())


def pixels_of_a_cap(_: Evidence) -> float:
    """The share of pixels in the spots of a level picture, relative to that of a vertical on the equator."""
    ends = torch.stack([TOP, torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)])
    shares = sphere.caps(ends, 512, 1024, 5.0).double().mean((1, 2))
    return float(shares[0] / shares[1])


def votes_are_their_definition(_: Evidence) -> float:
    """Votes by runs of columns against Eq. 3 pixel by pixel, with weights; and of opposite normals."""
    normals = F.normalize(torch.cat([noise(60, 3, seed="normals"), torch.eye(3, dtype=torch.float64)]), dim=1)
    weights = uniform(63, seed="weights")
    off = []
    for reach in (1.0, 4.0, 30.0):
        ours = sphere.circle_votes(normals, 48, 96, reach, weights)
        near = (sphere.pixel_directions(48, 96, ZERO) @ normals.mT).abs() < math.sin(math.radians(reach))
        off += [
            apart(ours, near.double() @ weights),
            apart(sphere.circle_votes(-normals, 48, 96, reach, weights), ours),
        ]
    return max(off)


def parallel_lines_meet(_: Evidence) -> float:
    """The largest angle, in pixels, between the direction of parallel lines in space and the most voted one."""
    height, width = 90, 180
    off = []
    for axis in _ups(8, "axes"):
        start = 4 * noise(40, 3, seed="starts")
        normals = F.normalize(torch.linalg.cross(start, start + axis), dim=1)
        votes = sphere.circle_votes(normals, height, width, 2.0)
        best = sphere.pixel_directions(height, width, ZERO).flatten(0, 1)[(votes == votes.max()).flatten()]
        off.append(float(axis_errors(best, axis.expand_as(best)).min()) / (180 / height))
    return max(off)


def dice_has_closed_forms(_: Evidence) -> float:
    """Dice of a perfect prediction against 0, of an empty one against ``1 − 2 w_b B / (w_f F + w_b (2 B + F))``, and of
    a random one against the sum by hand."""
    truth = (uniform(2, 400, seed="truth") < 0.1).double()
    guess = uniform(2, 400, seed="guess")
    front, back = truth.sum(1), 400 - truth.sum(1)
    heavy, light = front**-2, back**-2
    empty = 1 - 2 * light * back / (heavy * front + light * (2 * back + front))
    top = heavy * (truth * guess).sum(1) + light * ((1 - truth) * (1 - guess)).sum(1)
    bottom = heavy * (truth + guess).sum(1) + light * (2 - truth - guess).sum(1)
    pairs = (
        (truth, truth.new_zeros(())),
        (torch.zeros_like(truth), empty.mean()),
        (guess, (1 - 2 * top / bottom).mean()),
    )
    return max(abs(float(generalised_dice(own, truth) - value)) for own, value in pairs)


def dice_ignores_the_pose(_: Evidence) -> float:
    """The change of the dice on the sphere if both maps are turned."""
    points = sphere.fibonacci_sphere(16_384, ZERO)
    values = []
    for turn in torch.cat([torch.eye(3, dtype=torch.float64)[None], _rotations(4, "poses")]):
        d = points @ turn.mT
        spot, guess = (torch.sigmoid(12 * (d[:, 2].abs() - level)) for level in (0.9, 0.85))
        values.append(float(generalised_dice(guess[None], spot[None])))
    return max(values) - min(values)


def axis_of_a_perfect_spot(_: Evidence) -> float:
    """The largest error, in degrees, of the spherical centroid of spots of 5 degrees, poles and the seam included."""
    ups = _ups(24, "spots")
    label = sphere.caps(ups, 512, 1024, 5.0)
    return float(axis_errors(torch.stack([axis_of(own.double()) for own in label]), ups).max())


def _pixel_centroid(tilt: float) -> float:
    up = torch.tensor([[math.sin(math.radians(tilt)), 0.0, math.cos(math.radians(tilt))]], dtype=torch.float64)
    spot = sphere.caps(up, 512, 1024, 5.0)[0].double()
    return float(axis_errors(axis_of(spot, "pixel")[None], up)[0])


def pixel_centroid_of_level(_: Evidence) -> float:
    """The error, in degrees, of the centroid of pixels for a level picture and a perfect spot of 5 degrees."""
    return _pixel_centroid(0.0)


def pixel_centroid_of_tilted(_: Evidence) -> float:
    """The same for a tilt of 20 degrees."""
    return _pixel_centroid(20.0)


def tilting_an_oracle_changes_nothing(_: Evidence) -> float:
    """The angle, in degrees, by which the test-time tilt moves the vertical of a method that is always right."""
    ups = _ups(8, "oracle")[:4]
    a = math.radians(20)
    turn = torch.tensor([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]], dtype=torch.float64)
    pictures = torch.zeros(4, 3, 32, 64, dtype=torch.uint8)
    near = ups[:, 2] > math.cos(math.radians(10))
    again = tilted_again(lambda _p, _v: ups[near] @ turn, pictures, ups, 20.0, 10.0)
    return float(axis_errors(again, ups).max())


def levelling_undoes_a_known_tilt(_: Evidence) -> float:
    """The largest part of a level picture's vertical that is not up after a tilt and its levelling; and pitch and roll
    back to the vertical."""
    ups = _ups(40, "tilts")
    seen = (upright(ups).mT @ ups.unsqueeze(-1)).squeeze(-1)
    return max(apart(seen, TOP.expand_as(seen)), apart(up_of(*pitch_roll(ups)), ups))


# Networks -------------------------------------------------------------------------------------------------------------


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def parts_have_their_counts(_: Evidence) -> float:
    """The largest difference of the parameters of parts from those counted by hand."""
    with torch.device("meta"):
        network = build(SETTINGS.configure("paper").model)
        off = [abs(_count(getattr(network, name)) - count) for name, count in PARTS.items()]
        off.append(abs(_count(InceptionV3()) - CLASSIFIER))
    return float(max(off))


def segmentation_rolls_with_the_picture(_: Evidence) -> float:
    """The segmentation of a rolled panorama against the rolled segmentation: circular padding has no seam."""
    network = filled(GSCNN(SMALL))
    images, votes = uniform(1, 3, 64, 128, seed="images"), uniform(1, 1, 64, 128, seed="votes")
    out = network(images, votes)
    return max(apart(network(images.roll(k, -1), votes.roll(k, -1)), out.roll(k, -1)) for k in (8, 40))


def means_cannot_tell_yaw(_: Evidence) -> float:
    """The change of a regressed vector if the panorama is rolled, with circular padding and the mean of the last map:
    why regression has neither here."""
    config = replace(SMALL, method="regression", cells=(1, 1), regressed=0)
    network = filled(Regressor(config))
    images, votes = uniform(1, 3, 64, 128, seed="images"), uniform(1, 1, 64, 128, seed="votes")
    return apart(network(images.roll(40, -1), votes), network(images, votes))
