"""Rendered animals and vehicles with named keypoints: pictures for matching what is the same in two of a kind.

Every picture has a thing of its own shape, colours and pose in its own surroundings, seen from another side under
another light, among other things. Keypoints are points of its parts; they are projected by the camera, and known to be
seen or hidden by what the ray through their pixel meets first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import SURFACES, Share
from vergence.data.rendered import rendered
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import box, chair, plant
from vergence.rendering.outdoors import animal, bench, bicycle, bus, car, sign, tree
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX
from vergence.rendering.textures import photographic
from vergence.rendering.things import Maker, Part, about, choice, place, random_material, uniform
from vergence.rendering.views import exposed, render

Place = tuple[int, tuple[float, float, float]]
"""A part by its number, and a point in its own axes: its surface is 1 from the centre."""
UP, DOWN, FRONT, BACK = (0.0, -1.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, -1.0)


def _animal() -> dict[str, Place]:
    places: dict[str, Place] = {"nose": (3, DOWN), "neck": (1, (0.0, -0.8, -0.9)), "back": (0, UP), "head": (2, UP),
                                "rump": (0, (0.0, -0.6, -0.75)), "tail": (10, DOWN), "chest": (0, FRONT)}  # fmt: skip
    for side, first in (("left", 4), ("right", 7)):
        places[f"{side} ear"] = (first, UP)
        places[f"{side} hind paw"] = (first + 1, (0.0, 0.9, 0.0))
        places[f"{side} front paw"] = (first + 2, (0.0, 0.9, 0.0))
    return places


def _car() -> dict[str, Place]:
    places: dict[str, Place] = {"roof": (2, (0.0, -1.0, 0.0)), "bonnet": (0, (0.0, -1.0, 0.85))}
    for side, x, first in (("left", -1.0, 3), ("right", 1.0, 9)):
        outside = (0.0, -x, 0.0)  # wheels lie on their side
        places |= {f"{side} hind wheel": (first + 1, outside), f"{side} front wheel": (first + 3, outside),
                   f"{side} head light": (first + 4, FRONT), f"{side} tail light": (first + 5, BACK),
                   f"{side} roof front": (2, (x, -1.0, 1.0)), f"{side} roof back": (2, (x, -1.0, -1.0))}  # fmt: skip
    return places


def _bus() -> dict[str, Place]:
    places: dict[str, Place] = {}
    for side, x, first in (("left", -1.0, 3), ("right", 1.0, 5)):
        places |= {f"{side} hind wheel": (first, (0.0, -x, 0.0)), f"{side} front wheel": (first + 1, (0.0, -x, 0.0))}
        for name, z in (("front", 1.0), ("back", -1.0)):
            places[f"{side} {name} top"] = (0, (x, -1.0, z))
            places[f"{side} {name} bottom"] = (0, (x, 0.95, z))
    return places


def _bicycle() -> dict[str, Place]:
    # Two rims of 16 rods with 8 spokes each; then the frame, the saddle, the handle bar and its stem.
    frame = 2 * (16 + 8)
    return {
        "hind rim top": (11, DOWN), "hind rim end": (7, DOWN), "hind rim bottom": (3, DOWN),
        "front rim top": (24 + 11, DOWN), "front rim end": (24 + 15, DOWN), "front rim bottom": (24 + 3, DOWN),
        "hind hub": (frame + 3, UP), "front hub": (frame + 5, DOWN), "crank": (frame, UP), "saddle": (frame + 6, UP),
        "left handle": (frame + 7, UP), "right handle": (frame + 7, DOWN),
    }  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of thing: how its parts are built and what its keypoints are."""

    make: Maker
    places: Mapping[str, Place]
    height: float
    """About, in metres; the camera looks at half of it."""
    length: float


KINDS: dict[str, Kind] = {
    "animal": Kind(animal, _animal(), 0.8, 1.1),
    "bicycle": Kind(bicycle, _bicycle(), 1.0, 1.7),
    "bus": Kind(bus, _bus(), 3.0, 9.5),
    "car": Kind(car, _car(), 1.5, 4.2),
}
FAR, THICK = 0.04, 0.06
"""A keypoint is seen if what its ray meets is at most this share of its distance (or of the thing) in front of it."""


def points_of(kind: Kind, parts: list[Part]) -> Tensor:
    """The keypoints (K, 3) of a thing in its own axes."""
    rows = []
    for number, local in kind.places.values():
        part = parts[number]
        own = torch.tensor(part.half) * torch.tensor(local)
        rows.append(torch.tensor(part.centre, dtype=torch.float32) + (own if part.turn is None else part.turn @ own))
    return torch.stack(rows)


@dataclass(frozen=True)
class Shot:
    """One picture of a thing."""

    picture: Tensor
    """(3, S, S), bytes."""
    points: Tensor
    """(K, 2), x and y of the kind's keypoints in pixels."""
    seen: Tensor
    """(K,), whether each is inside the picture and nothing is in front of it."""


def shot(name: str, side: int, source: torch.Generator, share: Share = "train", clutter: int = 3) -> Shot:
    """A picture of a thing of this kind, ``side`` pixels square, among ``clutter`` others."""
    kind = KINDS[name]
    yaw = (math.pi if choice(source, 2) else 0.0) + uniform(source, -0.95, 0.95) + math.pi / 2  # from either side
    builder = _surroundings(kind, source, share, clutter)
    parts = kind.make(source)
    textures = range(builder.atlas.count)
    own = place(builder, parts, (0.0, 0.0, 0.0), yaw, 1.0, random_material(source, textures, 0.5),
                random_material(source, textures, 0.4))  # fmt: skip
    camera = _camera(kind, side, source)
    view = render(builder.scene(), camera, 2, shadows=True)
    world = points_of(kind, parts) @ about("y", yaw).mT
    places, depth = camera.project(world)
    inside = ((places >= 0) & (places <= side - 1)).all(1)
    slack = torch.maximum(FAR * depth, torch.tensor(THICK * kind.length))
    around = torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2))  # thin parts are easily missed
    column, row = (places.round().long().unsqueeze(1) + around).clamp(0, side - 1).unbind(2)
    met = (view.thing[row, column] == own) & (view.depth[row, column] > (depth - slack).unsqueeze(1))
    seen = inside & met.any(1)
    image = exposed(view.image, source, gain=0.3, blur=0.5, noise=0.02)
    return Shot((image * 255).round().to(torch.uint8), places, seen)


def _surroundings(kind: Kind, source: torch.Generator, share: Share, clutter: int) -> SceneBuilder:
    """Ground, a wall, and other things beside and behind the place in the middle."""
    towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.3)])
    atlas = photographic(share)
    light = Light(towards, uniform(source, 0.35, 0.85), uniform(source, 0.4, 0.7))
    sky = (uniform(source, 0.5, 0.9), uniform(source, 0.6, 0.9), uniform(source, 0.6, 0.95))
    builder = SceneBuilder(atlas, light, sky)
    builder.begin()
    size = kind.length
    surfaces = atlas.named(SURFACES) or range(atlas.count)
    back = size * uniform(source, 0.8, 2.0)
    for half, at in (((60.0, 0.1, 60.0), (0.0, 0.1, 0.0)), ((60.0, size, 0.2), (0.0, -size, back))):
        shade = uniform(source, 0.3, 0.7)
        colour = (shade * uniform(source, 0.85, 1.15), shade, shade * uniform(source, 0.85, 1.15))
        builder.add(BOX, at, half, colour=colour, texture=surfaces[choice(source, len(surfaces))],
                    blend=uniform(source, 0.4, 0.9), density=uniform(source, 100, 250) / size)  # fmt: skip
    makers: tuple[Callable[[torch.Generator], list[Part]], ...] = (tree, bench, sign, plant, box, chair)
    for _ in range(clutter):
        at = (uniform(source, -0.9, 0.9) * size, 0.0, uniform(source, 0.35, 0.8) * min(back, size))
        look, other = random_material(source, range(atlas.count)), random_material(source)
        small = 0.3 * size * uniform(source, 0.5, 1.0)
        place(builder, makers[choice(source, len(makers))](source), at, uniform(source, 0, 6.28), small, look, other)
    return builder


def _camera(kind: Kind, side: int, source: torch.Generator) -> Pinhole:
    """A crop around the thing, as a detector would cut it out."""
    reach = kind.length * uniform(source, 1.8, 2.6)
    up = reach * uniform(source, 0.12, 0.45)
    position = torch.tensor([reach * uniform(source, -0.15, 0.15), -up - kind.height / 2, -reach])
    target = torch.tensor([0.0, -0.45 * kind.height, 0.0])
    focal = side * float((position - target).norm()) / kind.length * uniform(source, 0.65, 0.85)
    shift = [(side - 1) / 2 + uniform(source, -0.05, 0.05) * side for _ in range(2)]
    rotation = look_at(position, target, uniform(source, -0.15, 0.15))
    return Pinhole(side, side, focal, position, rotation, (shift[0], shift[1]))


@dataclass(frozen=True)
class Creatures:
    """Pictures of things, as many of each kind, in the order of the kinds."""

    pictures: Tensor
    """(N, 3, S, S), bytes."""
    points: Tensor
    """(N, K, 2); kinds with fewer keypoints have zeros at the end."""
    seen: Tensor
    """(N, K)."""
    count: int
    """Pictures of each kind."""


def creatures(count: int, side: int, seed: tuple[int | str, ...], share: Share = "train") -> Creatures:
    """``count`` pictures of each kind; rendered once and kept."""

    def render_all() -> dict[str, Tensor]:
        shots = [
            shot(name, side, generator("creature", *seed, name, number), share)
            for name in KINDS
            for number in range(count)
        ]
        most = max(len(kind.places) for kind in KINDS.values())
        points, seen = torch.zeros(len(shots), most, 2), torch.zeros(len(shots), most, dtype=torch.bool)
        for row, one in enumerate(shots):
            points[row, : len(one.points)], seen[row, : len(one.seen)] = one.points, one.seen
        return {"pictures": torch.stack([one.picture for one in shots]), "points": points, "seen": seen}

    asked = {"count": count, "side": side, "seed": seed, "share": share}
    code = ("vergence.rendering", "vergence.matching.creatures", "vergence.data.photographs")
    tensors = rendered("creatures", asked, code, render_all)
    return Creatures(tensors["pictures"], tensors["points"], tensors["seen"], count)
