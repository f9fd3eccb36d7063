"""Generated data with exact surfaces: rendered still lifes, faint ones filmed by a moving camera, and bare geometry.

A still life has boards (planes), balls and columns (curved) with textures from photographs, seen by several cameras.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import Share
from vergence.data.rendered import rendered
from vergence.matching.cameras import Camera
from vergence.matching.data import Shot
from vergence.matching.surfaces import Rendered
from vergence.matching.tracks import Observed, of_planes
from vergence.ops.affine_correspondences import oriented_point
from vergence.ops.epipolar import homogeneous, plane_affinity, relative_pose
from vergence.rendering import (
    BOX,
    CYLINDER,
    ELLIPSOID,
    Light,
    Pinhole,
    Scene,
    SceneBuilder,
    look_at,
    photographic,
    render,
)
from vergence.rendering.things import about, choice, uniform
from vergence.rendering.views import exposed

MIDDLE = (0.0, 0.0, 3.0)
"""The middle of a still life, in metres."""


def still_life(source: torch.Generator, share: Share = "train", blend: float = 1.0, wall: bool = False) -> Scene:
    """A wall, a floor, two or three boards, a ball and a column, with photographs on them; or the ``wall`` alone,
    nearer. ``blend`` below 1 makes them faint."""
    atlas = photographic(share, side=512)
    light = Light(torch.tensor([uniform(source, -1, 1), -1.2, -1.0]), 0.55, 0.5)
    builder = SceneBuilder(atlas, light)

    def add(shape: int, at: Sequence[float], half: Sequence[float], turn: Tensor | None = None) -> None:
        builder.begin()
        builder.add(
            shape, at, half, turn, colour=[uniform(source, 0.5, 0.62) for _ in range(3)],
            texture=choice(source, atlas.count), blend=blend, density=uniform(source, 170, 300),
            offset=(uniform(source, 0, 512), uniform(source, 0, 512)),
        )  # fmt: skip

    if wall:
        lean = about("y", uniform(source, -0.4, 0.4)) @ about("x", uniform(source, -0.3, 0.3))
        add(BOX, (0, 0, 3.0), (4, 3, 0.01), lean)
        return builder.scene()
    add(BOX, (0, 0, 4.9), (4, 3, 0.1))
    add(BOX, (0, 1.15, 3.5), (4, 0.1, 2.5))
    for side in (-1, 1, 0)[: 2 + choice(source, 2)]:
        lean = about("y", uniform(source, 0.2, 0.9) * (-side or 1)) @ about("x", uniform(source, -0.5, 0.3))
        place = (0.62 * side + uniform(source, -0.1, 0.1), uniform(source, -0.3, 0.1), uniform(source, 2.9, 3.5))
        add(BOX, place, (uniform(source, 0.35, 0.5), uniform(source, 0.35, 0.5), 0.03), lean)
    size = uniform(source, 0.3, 0.42)
    add(ELLIPSOID, (uniform(source, -0.35, 0.35), 0.55, 2.65), (size, size * uniform(source, 0.8, 1.1), size))
    width = uniform(source, 0.16, 0.26)
    add(CYLINDER, (uniform(source, -1.1, 1.1), 0.4, uniform(source, 2.7, 3.3)), (width, 0.7, width),
        about("z", uniform(source, -0.3, 0.3)))  # fmt: skip
    return builder.scene()


def around(source: torch.Generator, count: int, size: tuple[int, int], spread: float = 14.0) -> list[Pinhole]:
    """The first camera from the front, and others about ``spread`` degrees away from it, all looking at the middle."""
    height, width = size
    middle = torch.tensor(MIDDLE)
    cameras = []
    turn = uniform(source, 0, 2 * math.pi)
    for number in range(count):
        angle = 0.0 if number == 0 else math.radians(spread * uniform(source, 0.7, 1.3))
        way = turn + 2.4 * number  # the golden angle: no two others at the same place
        across = torch.tensor([math.cos(way), 0.45 * math.sin(way), 0.0])
        away = F.normalize(math.tan(angle) * across + torch.tensor([0.0, -0.12, -1.0]), dim=0)
        position = middle + uniform(source, 2.7, 3.1) * away
        rotation = look_at(position, middle, uniform(source, -0.08, 0.08))
        cameras.append(Pinhole(height, width, 1.15 * width, position, rotation))
    return cameras


def along(source: torch.Generator, count: int, size: tuple[int, int], reach: float = 0.5) -> list[Pinhole]:
    """Frames of a camera that moves along an arc of about ``reach`` metres, while it looks at the middle. (On a
    straight line all rays to a point are in one plane, and no two pictures could disagree about its place.)"""
    height, width = size
    way = uniform(source, 0, 2 * math.pi)
    ahead = torch.tensor([math.cos(way), 0.6 * math.sin(way), uniform(source, -0.3, 0.3)])
    aside = torch.tensor([-math.sin(way), 0.6 * math.cos(way), uniform(source, -0.3, 0.3)])
    cameras = []
    for number in range(count):
        share = number / max(count - 1, 1)
        position = torch.tensor([0.0, -0.3, 0.1]) + reach * ((share - 0.5) * ahead + 1.2 * (share - 0.5) ** 2 * aside)
        cameras.append(Pinhole(height, width, 1.15 * width, position, look_at(position, torch.tensor(MIDDLE))))
    return cameras


def shoot(source: torch.Generator, film: Film) -> dict[str, Tensor]:
    """Pictures of one still life with what is known of them: ``pictures`` (N, 3, H, W) of bytes, ``depth`` (N, H, W),
    ``normal`` (3, H, W) of the first, and cameras ``K``, ``R`` and ``t``."""
    scene = still_life(source, film.share, film.contrast, film.wall)
    lenses = (along if film.moving else around)(source, film.views, film.size)
    seen = [render(scene, own) for own in lenses]
    gain = 0.02 if film.moving else 0.1
    pictures = [exposed(view.image, source, gain=gain, blur=0.5, noise=film.noise) for view in seen]
    poses = [_pose(own) for own in lenses]
    return {
        "pictures": torch.stack([(picture * 255).round().to(torch.uint8) for picture in pictures]),
        "depth": torch.stack([view.depth for view in seen]),
        "normal": seen[0].normal,
        **{name: torch.stack([pose[number] for pose in poses]) for number, name in enumerate("KRt")},
    }


@dataclass(frozen=True)
class Film:
    """What is rendered."""

    views: int
    moving: bool = False
    """Frames of a camera that moves, instead of cameras around the scene."""
    contrast: float = 1.0
    """Of textures; below 1 they are faint."""
    wall: bool = False
    """A wall alone."""
    noise: float = 0.01
    """Largest deviation of the noise of pixels, from 0 to 1."""
    size: tuple[int, int] = (240, 320)
    share: Share = "train"


def shots(count: int, film: Film, seed: tuple[int | str, ...]) -> list[Shot]:
    """Still lifes with exact surfaces, rendered once and kept."""

    def render_all() -> dict[str, Tensor]:
        each = [shoot(generator("still life", *seed, number), film) for number in range(count)]
        return {name: torch.stack([one[name] for one in each]).contiguous() for name in each[0]}

    code = ("vergence.rendering", "vergence.data.photographs", "vergence.matching.synth")
    kept = rendered("affinecorr", {"count": count, "film": film, "seed": seed}, code, render_all)
    return [
        _shot(f"still life {number}", {name: part[number] for name, part in kept.items()}) for number in range(count)
    ]


def _shot(name: str, parts: dict[str, Tensor]) -> Shot:
    poses = zip(*(parts[key] for key in "KRt"), strict=True)
    cameras = [Camera(f"{number}.png", *pose) for number, pose in enumerate(poses)]
    surface = Rendered(cameras[0], parts["depth"][0], parts["normal"])
    return Shot(name, list(parts["pictures"]), cameras, surface, parts["depth"])


def _pose(own: Pinhole) -> tuple[Tensor, Tensor, Tensor]:
    """Intrinsics and pose of a camera of the renderer."""
    (cx, cy), R = own.middle, own.rotation.double()
    U, _, V = torch.linalg.svd(R)  # exactly a rotation, not only in single precision
    K = torch.tensor([[own.focal, 0, cx], [0, own.focal, cy], [0, 0, 1]], dtype=torch.float64)
    return K, U @ V, -(U @ V) @ own.position.double()


@dataclass(frozen=True)
class Exact:
    """Correspondences as they should be: tracks, and their true planes (B, 3)."""

    tracks: Observed
    plane: Tensor


def places(shot: Shot, count: int, source: torch.Generator, radius: float = 12.0) -> Exact:
    """``count`` random patches of the first picture with texture, on smooth surfaces that all cameras see whole."""
    assert shot.depths is not None and shot.surface is not None  # noqa: PT018
    height, width = shot.depths.shape[-2:]
    margin = int(radius) + 2
    many = 20 * count
    x = torch.randint(margin, width - margin, (many,), generator=source)
    y = torch.randint(margin, height - margin, (many,), generator=source)
    pixels = torch.stack([x, y], 1).double()
    plane = shot.surface.planes(pixels)
    good = plane.isfinite().all(1) & (_contrast(shot.pictures[0], margin)[y, x] > 0.02)
    good &= _smooth(shot, pixels, plane, radius)
    pixels, plane = pixels[good][:count], plane[good][:count]
    return Exact(of_planes(shot.cameras, pixels, plane, radius / 3), plane)


def _contrast(picture: Tensor, window: int) -> Tensor:
    """Standard deviations of windows of a picture of bytes, (H, W) from 0 to 1."""
    grey = picture.float().mean(0)[None, None] / 255
    size = 2 * window + 1
    mean, square = (F.avg_pool2d(v, size, 1, window, count_include_pad=False)[0, 0] for v in (grey, grey**2))
    return (square - mean**2).clamp(min=0).sqrt()


def _smooth(shot: Shot, pixels: Tensor, plane: Tensor, radius: float, tolerance: float = 0.01) -> Tensor:
    """Whether the tangent plane explains the depth at the corners of a patch in the first picture, and the depth of its
    centre in the others: that nothing is in front of it, and no edge within."""
    assert shot.depths is not None
    first = shot.cameras[0]
    good = torch.ones(len(pixels), dtype=torch.bool)
    for corner in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        at = pixels + radius * torch.tensor(corner)
        wanted = (plane * homogeneous(first.normalised(at))).sum(1)
        good &= ((_looked_up(shot.depths[0], at) * wanted - 1).abs() < 3 * tolerance).nan_to_num(0).bool()
    point, _ = oriented_point(plane, first.normalised(pixels))
    world = (point - first.t) @ first.R
    for own, depth in zip(shot.cameras[1:], shot.depths[1:], strict=True):
        at, far = own.project(world)
        size = torch.tensor([depth.shape[1], depth.shape[0]])
        good &= ((at > radius + 4) & (at < size - radius - 4)).all(1)
        good &= (_looked_up(depth, at) / far - 1).abs() < tolerance
    return good


def _looked_up(values: Tensor, pixels: Tensor) -> Tensor:
    at = pixels.nan_to_num(0).round().long()
    return values[at[:, 1].clamp(0, values.shape[0] - 1), at[:, 0].clamp(0, values.shape[1] - 1)].double()


# Geometry alone -------------------------------------------------------------------------------------------------------


def sphere(count: int, views: int, source: torch.Generator) -> Exact:
    """The paper's synthetic set-up: ``views`` cameras at random places on a sphere of radius 5 that look at its centre,
    and a random oriented point near it, anew for each of ``count`` tracks. Intrinsics are the identity."""
    centres = 5 * F.normalize(torch.randn(count, views, 3, generator=source, dtype=torch.float64), dim=-1)
    forward = -F.normalize(centres, dim=-1)
    side = torch.randn(count, views, 3, generator=source, dtype=torch.float64)
    right = F.normalize(torch.linalg.cross(side, forward), dim=-1)
    R = torch.stack([right, torch.linalg.cross(forward, right), forward], -2)
    t = -(R @ centres.unsqueeze(-1)).squeeze(-1)
    point = 0.5 * torch.randn(count, 3, generator=source, dtype=torch.float64)
    normal = F.normalize(torch.randn(count, 3, generator=source, dtype=torch.float64), dim=1)
    own = (R[:, 0] @ point.unsqueeze(-1)).squeeze(-1) + t[:, 0]
    facing = (R[:, 0] @ normal.unsqueeze(-1)).squeeze(-1)
    plane = facing / (facing * own).sum(1, keepdim=True)
    x = own[:, :2] / own[:, 2:]
    turn, shift = relative_pose(R[:, :1], t[:, :1], R[:, 1:], t[:, 1:])
    y, A = plane_affinity(turn, shift, plane[:, None], x[:, None])
    eye = torch.eye(3, dtype=torch.float64)
    tracks = Observed(
        torch.zeros(count).long(), torch.arange(1, views).expand(count, -1), torch.ones(count, views - 1).double(),
        eye.expand(count, 3, 3), eye.expand(count, views - 1, 3, 3), turn, shift, x, y, A,
        0.01 * eye[:2, :2].expand(count, 2, 2), 1 / own[:, 2],
    )  # fmt: skip
    return Exact(tracks, plane)
