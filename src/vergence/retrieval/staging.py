"""Rendered scenes with a place for a figure, and figures cut out: embedded data whose rule of fit is known.

Three things decide which figures fit, and no two of them suffice:

* what stands there tells the motion: a chair is for sitting, a ball for kicking, a board for riding it, a dog for a
  walk; in half of the scenes it stands inside the box, in the others elsewhere;
* shading and shadows tell from which side the figure must be lit; in overcast scenes either side fits;
* the box tells the view (a figure that walks, sits or kicks is wider from the side, one on a board from the front) and
  the truncation: at the lower edge of the picture only the upper body fits, whatever its motion and view.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.data.photographs import SURFACES
from vergence.reid.people import Person
from vergence.rendering.cameras import Pinhole, grid, look_at
from vergence.rendering.furniture import chair, lamp, plant, sofa, table
from vergence.rendering.outdoors import animal, bench, sign, tree
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX, CYLINDER, ELLIPSOID, cast
from vergence.rendering.textures import photographic
from vergence.rendering.things import (
    DARK,
    Maker,
    Material,
    Part,
    Vector,
    about,
    choice,
    place,
    random_material,
    uniform,
)
from vergence.rendering.views import exposed, shade
from vergence.retrieval.actors import MOTIONS, Stance, add_figure, extent

UPPER = len(MOTIONS)
"""Stands for a motion where a figure is cut by the lower edge."""
INSIDE, ELSEWHERE, NOWHERE = 1, 0, -1
"""Where the thing stands that tells the motion: in the box, elsewhere, or it does not matter."""
FINER = 2
"""Rays along a pixel."""


# Rendering ------------------------------------------------------------------------------------------------------------


def _light(side: int | None, source: torch.Generator) -> Light:
    """The sun at the left (0) or at the right (1); None for an overcast sky."""
    warm = uniform(source, -0.06, 0.06)
    colour = (1 + warm, 1.0, 1 - warm)
    if side is None:
        return Light(torch.tensor([0.0, -1.0, -0.3]), 0.12, uniform(source, 0.75, 0.9), colour)
    towards = torch.tensor([(2 * side - 1) * uniform(source, 1.2, 1.8), -1.0, uniform(source, -0.7, -0.2)])
    return Light(towards, uniform(source, 0.75, 0.95), uniform(source, 0.28, 0.4), colour)


def _rendered(builder: SceneBuilder, camera: Pinhole, lights: Sequence[Light], shadows: bool) -> tuple[Tensor, Tensor]:
    """One picture for each light (L, 3, H, W), and the share of each pixel that is covered (H, W): rays are cast once
    for all lights."""
    scene = builder.scene()
    rays = camera.rays(grid(camera, FINER))
    hits = cast(scene.solids, camera.position, rays)
    size = (camera.height * FINER, camera.width * FINER)
    shades = [shade(replace(scene, light=light), camera, rays, hits, FINER, shadows) for light in lights]
    pictures = torch.stack([colours.mT.reshape(3, *size) for colours in shades])
    covered = hits.any.float().reshape(1, 1, *size)
    return F.avg_pool2d(pictures, FINER), F.avg_pool2d(covered, FINER)[0, 0]


def _bounds(builder: SceneBuilder, thing: int, camera: Pinhole) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a thing in the picture, in pixels; it may reach beyond."""
    places, _ = camera.project(extent(builder, thing))
    (left, top), (right, bottom) = places.amin(0).tolist(), places.amax(0).tolist()
    return left + 0.5, top + 0.5, right + 0.5, bottom + 0.5


# Scenes ---------------------------------------------------------------------------------------------------------------


def _board(source: torch.Generator) -> list[Part]:
    across = about("z", math.pi / 2)
    wheels = [
        Part(CYLINDER, (x, -0.05, z), (0.05, 0.035, 0.05), DARK, across) for x in (-0.08, 0.08) for z in (-0.27, 0.27)
    ]
    return [Part(BOX, (0, -0.115, 0), (0.13, 0.015, 0.42)), *wheels]


def _ball(source: torch.Generator) -> list[Part]:
    radius = uniform(source, 0.17, 0.23)
    return [Part(ELLIPSOID, (0, -radius, 0), (radius,) * 3, gloss=0.3)]


PROPS: dict[str, Maker] = {"walk": animal, "sit": chair, "kick": _ball, "ride": _board}
"""What calls for each motion."""
TINTS: dict[str, tuple[Vector, ...]] = {
    "walk": ((0.42, 0.28, 0.16), (0.62, 0.5, 0.36), (0.12, 0.1, 0.09)),
    "sit": ((0.45, 0.3, 0.17), (0.2, 0.2, 0.22), (0.75, 0.7, 0.62)),
    "kick": ((0.85, 0.35, 0.08), (0.9, 0.9, 0.88), (0.85, 0.1, 0.12)),
    "ride": ((0.1, 0.6, 0.3), (0.1, 0.35, 0.8), (0.8, 0.75, 0.1)),
}
"""Usual colours of these things."""
OTHERS: dict[str, Sequence[Maker]] = {
    "room": (plant, lamp, table, sofa), "street": (sign, bench, tree, plant), "park": (tree, tree, bench, sign)
}  # fmt: skip


def _surroundings(source: torch.Generator) -> tuple[SceneBuilder, str]:
    """A room, a street or a park, without anything in it."""
    atlas = photographic("train")
    kind = ("room", "street", "park")[choice(source, 3)]
    sky = (uniform(source, 0.55, 0.75), uniform(source, 0.68, 0.82), uniform(source, 0.85, 0.95))
    builder = SceneBuilder(atlas, _light(None, source), sky)
    builder.begin()
    floors = {"room": ("brick.png",), "street": ("gravel.png", "brick.png"), "park": ("grass.png",)}[kind]
    textures = atlas.named(floors)
    shade_ = uniform(source, 0.4, 0.65)
    floor = (shade_ * uniform(source, 0.8, 1.2), shade_ * uniform(source, 0.9, 1.15), shade_ * uniform(source, 0.6, 1))
    builder.add(BOX, (0, 0.1, 20), (40, 0.1, 40), colour=floor, texture=textures[choice(source, len(textures))],
                blend=uniform(source, 0.3, 0.8), density=uniform(source, 60, 140))  # fmt: skip
    walls: list[tuple[tuple[float, float, float], tuple[float, float, float]]] = []
    if kind == "room":
        deep, wide = uniform(source, 5.5, 8), uniform(source, 2.6, 4)
        walls = [((0, -3, deep), (8, 6, 0.1)), ((-wide, -3, 4), (0.1, 6, 8)), ((wide, -3, 4), (0.1, 6, 8))]
    elif kind == "street":
        deep = uniform(source, 7, 12)
        for k in range(4):
            x = -6 + 4 * k + uniform(source, -1, 1)
            walls.append(((x, 0, deep), (uniform(source, 1.2, 1.9), uniform(source, 2, 5), 1.5)))
    surfaces = atlas.named(SURFACES)
    for centre, half in walls:
        look = random_material(source, surfaces, 0.5)
        builder.add(BOX, centre, half, colour=look.colour, texture=look.texture, blend=0.5, density=70)
    return builder, kind


def _put(
    builder: SceneBuilder, maker: Maker, at: Sequence[float], source: torch.Generator, yaw: float, size: float,
    tint: Vector | None = None,
) -> int:  # fmt: skip
    look = Material(tint) if tint else random_material(source, range(builder.atlas.count), 0.3)
    return place(builder, maker(source), at, yaw, size, look, random_material(source))


@dataclass(frozen=True)
class Stage:
    """A scene under several lights, with a box for a figure."""

    pictures: Tensor
    """(lights, 3, side, side), from 0 to 1."""
    box: Tensor
    """(4,): left, top, width and height in pixels, inside the picture."""
    prop: int
    """The motion that something in the scene calls for."""
    where: int
    """INSIDE, ELSEWHERE or NOWHERE."""


def stage(motion: int, view: int, lights: Sequence[int | None], side: int, source: torch.Generator) -> Stage:
    """A scene that calls for a figure with this motion (or truncation) seen from the front or from the side, under
    each of the lights (0 left, 1 right, None overcast)."""
    while True:
        made = _stage(motion, view, lights, side, source)
        if made is not None:
            return made


def _stage(motion: int, view: int, lights: Sequence[int | None], side: int, source: torch.Generator) -> Stage | None:
    builder, kind = _surroundings(source)
    upper = motion == UPPER
    high, far = uniform(source, 1.2, 1.8), uniform(source, 1.1, 1.45) if upper else uniform(source, 2.2, 3.2)
    eye = torch.tensor([0.0, -high, 0.0])
    middle = uniform(source, -0.3, 0.0) - high if upper else uniform(source, -1.1, -0.8)
    camera = Pinhole(side, side, 0.95 * side, eye, look_at(eye, torch.tensor([0.0, middle, far])))
    at = (uniform(source, -0.3, 0.3) * far, 0.0, far)
    person = Person.drawn(source)
    box = _place_of_figure(builder, person, 0 if upper else motion, view, at, camera, source)
    if box is None or (upper != (box[3] >= side)):
        return None
    prop = choice(source, len(MOTIONS)) if upper else motion
    inside = not upper and choice(source, 2) == 0
    if not _add_prop(builder, MOTIONS[prop], at, box, inside, camera, source):
        return None
    others = OTHERS[kind]
    for _ in range(2):
        z = uniform(source, far + 0.8, far + 3)
        where = (uniform(source, -0.5, 0.5) * z, 0.0, z)
        _put(builder, others[choice(source, len(others))], where, source, uniform(source, 0, 6.28), 1.0)
    suns = [_light(light, source) for light in lights]
    pictures = _rendered(builder, camera, suns, shadows=True)[0]
    pictures = torch.stack([exposed(picture, source, gain=0.15, blur=0.3, noise=0.01) for picture in pictures])
    left, top, right, bottom = (min(max(value, 0.0), float(side)) for value in box)
    size = torch.tensor([left, top, right - left, bottom - top])
    return Stage(pictures, size, prop, NOWHERE if upper else INSIDE if inside else ELSEWHERE)


def _place_of_figure(
    builder: SceneBuilder, person: Person, motion: int, view: int, at: tuple[float, float, float], camera: Pinhole,
    source: torch.Generator,
) -> tuple[float, float, float, float] | None:  # fmt: skip
    """The bounds of the figure that would stand there; None if the picture cuts it at a side."""
    alone = SceneBuilder(builder.atlas, builder.light)
    thing = add_figure(alone, person, Stance.drawn(MOTIONS[motion], source), at, _turn(view, source))
    box = _bounds(alone, thing, camera)
    return box if box[0] >= 1 and box[2] <= camera.width - 1 and box[1] >= 1 else None


def _turn(view: int, source: torch.Generator) -> float:
    """Towards the camera or away from it, or to one of the sides."""
    return (2 * choice(source, 2) + view) * math.pi / 2 + uniform(source, -0.25, 0.25)


def _add_prop(
    builder: SceneBuilder, motion: str, at: tuple[float, float, float], box: tuple[float, float, float, float],
    inside: bool, camera: Pinhole, source: torch.Generator,
) -> bool:  # fmt: skip
    """Add what calls for the motion: wholly inside the box, or wholly outside and inside the picture."""
    side = camera.width
    for _ in range(12):
        trial = SceneBuilder(builder.atlas, builder.light)
        state, size = source.get_state(), uniform(source, 0.75, 1.15)
        z = at[2] + uniform(source, -0.15, 0.3) if inside else uniform(source, 2.2, 3.6)
        x = at[0] + uniform(source, -0.1, 0.1) if inside else uniform(source, -0.5, 0.5) * z
        tints = TINTS[motion]
        tint = tints[choice(source, len(tints))]
        arguments = (PROPS[motion], (x, 0.0, z), source, uniform(source, 0, 6.28), size, tint)
        kept = source.get_state()
        left, top, right, bottom = _bounds(trial, _put(trial, *arguments), camera)
        within = left >= box[0] and right <= box[2] and top >= box[1] and bottom <= min(box[3] + 1, side)
        apart = (left > box[2] + 1 or right < box[0] - 1) and left > 0 and right < side and bottom < side
        if within if inside else apart:
            source.set_state(kept)
            _put(builder, *arguments)
            return True
        del state
    return False


# Figures --------------------------------------------------------------------------------------------------------------


def cut_out(motion: int, view: int, side: int, source: torch.Generator) -> Tensor:
    """A figure of a pattern lit from the left and from the right, (2, 4, side, side) with alpha, from 0 to 1. Its
    longer side fills the picture but for a margin; the upper body ends at the lower edge of what is seen."""
    upper = motion == UPPER
    builder = SceneBuilder(photographic("train"), _light(None, source))
    builder.begin()
    own = 0 if upper else motion
    person, far = Person.drawn(source), uniform(source, 2.9, 4.6)
    thing = add_figure(builder, person, Stance.drawn(MOTIONS[own], source), (0.0, 0.0, far), _turn(view, source))
    eye = torch.tensor([0.0, -uniform(source, 1.2, 1.8), 0.0])
    straight = Pinhole(2, 2, 1.0, eye, look_at(eye, torch.tensor([0.0, -0.9, far])), (0.0, 0.0))
    left, top, right, bottom = (value - 0.5 for value in _bounds(builder, thing, straight))
    if upper:
        bottom = top + uniform(source, 0.42, 0.55) * (bottom - top)
    focal = 0.94 * side / max(right - left, bottom - top)
    middle = ((side - 1) / 2 - focal * (left + right) / 2, (side - 1) / 2 - focal * (top + bottom) / 2)
    camera = replace(straight, height=side, width=side, focal=focal, centre=middle)
    pictures, covered = _rendered(builder, camera, [_light(light, source) for light in (0, 1)], shadows=True)
    if upper:
        rows = torch.arange(side) + 0.5
        covered = covered * (rows <= side / 2 + focal * (bottom - top) / 2).float().unsqueeze(1)
    pictures = torch.stack([exposed(picture, source, gain=0.15, blur=0.3, noise=0.01) for picture in pictures])
    return torch.cat([pictures, covered.expand(2, 1, -1, -1)], 1)
