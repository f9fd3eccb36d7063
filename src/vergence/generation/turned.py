"""Rendered objects on a turntable: chairs, sofas, cars, animals and mugs, lit, before a white ground.

Every object is seen by the same camera from a number of yaws, view 0 from its front. Training shows one view of each
object, so that no two pictures of training show the same one; held-out objects are seen from all views, with textures
from photographs that training does not use.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.generation.turntables import Turntable
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import chair, mug, sofa
from vergence.rendering.outdoors import animal, car
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX
from vergence.rendering.textures import photographic
from vergence.rendering.things import Maker, Part, place, random_material, uniform
from vergence.rendering.views import render

KINDS: dict[str, Maker] = {"chair": chair, "car": car, "animal": animal, "sofa": sofa, "mug": mug}
CODE = ("vergence.generation.turned", "vergence.rendering")
LIFT = math.radians(20)
"""Elevation of the camera."""
FILL = 0.86
"""Share of the picture that the longest diagonal of an object takes."""


def view_names(views: int) -> tuple[str, ...]:
    """Yaws in whole degrees, where they are."""
    return tuple(f"{360 * view / views:g}" for view in range(views))


@cache
def turned(kinds: tuple[str, ...], count: int, views: int, size: int, split: str) -> Turntable:
    """Pictures of ``count`` objects: one view of each in training, all of them elsewhere."""
    asked = {"kinds": kinds, "count": count, "views": views, "size": size, "split": split}
    tensors = rendered("generation", asked, CODE, lambda: _render_all(kinds, count, views, size, split))
    return Turntable(
        tensors["images"], tensors["views"], tensors["objects"], view_names(views), (tuple(range(views)),), True
    )


def _render_all(kinds: tuple[str, ...], count: int, views: int, size: int, split: str) -> dict[str, Tensor]:
    images, labels, objects = [], [], []
    for number in range(count):
        source = generator("turned", split, number)
        seen = [int(torch.randint(views, (), generator=source))] if split == "train" else list(range(views))
        images += pictures(kinds[number % len(kinds)], seen, views, size, split, source)
        labels += seen
        objects += [number] * len(seen)
    return {"images": torch.stack(images), "views": torch.tensor(labels), "objects": torch.tensor(objects)}


def pictures(kind: str, seen: list[int], views: int, size: int, split: str, source: torch.Generator) -> list[Tensor]:
    """One object of a kind from some of its views, bytes (3, size, size)."""
    atlas = photographic("train" if split == "train" else "test")
    parts = KINDS[kind](source)
    looks = [random_material(source, range(atlas.count), 0.35) for _ in range(2)]
    towards = torch.tensor([uniform(source, -0.8, 0.8), -1.3, -uniform(source, 0.4, 1.2)])
    light = Light(towards, uniform(source, 0.5, 0.7), uniform(source, 0.4, 0.5))
    middle, radius = extent(parts)
    distance = 4.0 * radius
    target = torch.tensor([0.0, middle, 0.0])
    eye = target + distance * torch.tensor([0.0, -math.sin(LIFT), -math.cos(LIFT)])
    camera = Pinhole(size, size, FILL * size * 4.0 / 2, eye, look_at(eye, target))
    made = []
    for view in seen:
        builder = SceneBuilder(atlas, light, (1.0, 1.0, 1.0))
        # The object's front looks along +z, and the camera stands at -z: turned by half a turn, view 0 shows it.
        place(builder, parts, (0, 0, 0), math.pi + 2 * math.pi * view / views, main=looks[0], second=looks[1])
        made.append((render(builder.scene(), camera, 2).image.clamp(0, 1) * 255).round().to(torch.uint8))
    return made


def extent(parts: list[Part]) -> tuple[float, float]:
    """The height of the middle of a thing, and the radius of a ball around that point that holds the thing."""
    corners = []
    for part in parts:
        signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)
        if part.shape != BOX:
            signs = signs * 0.8  # a ball or a cylinder does not fill the corners of its box
        at = signs * torch.tensor(part.half)
        corners.append((at if part.turn is None else at @ part.turn.mT) + torch.tensor(part.centre))
    points = torch.cat(corners)
    middle = float(points[:, 1].min() + points[:, 1].max()) / 2
    return middle, float((points - torch.tensor([0.0, middle, 0.0])).norm(dim=1).max())
