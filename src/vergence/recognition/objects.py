"""Rendered pictures of 16 kinds of things in four groups, one thing in each, before photographic grounds.

The groups make the classes a hierarchy: a sofa resembles a bench more than a bottle. Shapes, materials, views, lights
and grounds vary; those of the test pictures come from photographs that training does not use.
"""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import Share
from vergence.data.rendered import rendered
from vergence.recognition.data import Labelled
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import FURNITURE, SMALL
from vergence.rendering.outdoors import OUTDOORS
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX
from vergence.rendering.textures import photographic
from vergence.rendering.things import Maker, Part, choice, place, random_material, uniform
from vergence.rendering.views import exposed, render

GROUPS = {
    "furniture": ("chair", "table", "sofa", "bench"),
    "tableware": ("mug", "bottle", "bowl", "lamp"),
    "street": ("car", "bus", "bicycle", "sign"),
    "living": ("person", "animal", "tree", "plant"),
}
"""The classes, by group."""
CLASSES = tuple(name for names in GROUPS.values() for name in names)
MAKERS: dict[str, Maker] = {name: (OUTDOORS | FURNITURE | SMALL)[name] for name in CLASSES}
CODE = ("vergence.recognition.objects", "vergence.rendering")


@cache
def objects(count: int, size: int, split: str) -> Labelled:
    """``count`` pictures of ``size`` pixels, as many of each class as of any other (give or take one)."""
    asked = {"count": count, "size": size, "split": split}
    tensors = rendered("recognition", asked, CODE, lambda: _render_all(count, size, split))
    return Labelled(tensors["images"], tensors["labels"], CLASSES)


def _render_all(count: int, size: int, split: str) -> dict[str, Tensor]:
    share: Share = "train" if split == "train" else "test"
    labels = torch.arange(count) % len(CLASSES)
    images = [picture(CLASSES[int(k)], size, share, generator("objects", split, n)) for n, k in enumerate(labels)]
    return {"images": torch.stack(images), "labels": labels}


def picture(name: str, size: int, share: Share, source: torch.Generator) -> Tensor:
    """A thing of a class, bytes (3, size, size)."""
    atlas = photographic(share)
    towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.2)])
    light = Light(towards, uniform(source, 0.45, 0.8), uniform(source, 0.35, 0.55))
    builder = SceneBuilder(atlas, light, choice(source, atlas.count))
    parts = MAKERS[name](source)
    middle, radius = _extent(parts)
    builder.begin()
    ground = random_material(source, range(atlas.count), 0.7)
    builder.add(
        BOX, (0, 0.1 * radius, 0), (12 * radius, 0.1 * radius, 12 * radius), colour=ground.colour,
        texture=ground.texture, blend=0.8, density=60 / radius, offset=ground.offset,
    )  # fmt: skip
    looks = [random_material(source, range(atlas.count), 0.3) for _ in range(2)]
    place(builder, parts, (0, 0, 0), uniform(source, 0, 2 * math.pi), main=looks[0], second=looks[1])
    focal, distance = 1.6 * size, radius * uniform(source, 3.2, 4.4)
    lift, target = uniform(source, 0.08, 0.5), torch.tensor([0.0, middle, 0.0])
    eye = target + distance * torch.tensor([0.0, -math.sin(lift), -math.cos(lift)])
    eye[1] = min(float(eye[1]), -0.05 * radius)  # above the ground
    aim = target + 0.2 * radius * (2 * torch.rand(3, generator=source) - 1)
    camera = Pinhole(size, size, focal, eye, look_at(eye, aim, uniform(source, -0.15, 0.15)))
    taken = exposed(render(builder.scene(), camera, 2).image, source, gain=0.2, noise=0.03)
    return (taken * 255).round().to(torch.uint8)


def _extent(parts: list[Part]) -> tuple[float, float]:
    """The height of the middle of a thing, and the radius of a ball around it that holds it, nearly."""
    centres = torch.tensor([part.centre for part in parts])
    reach = torch.tensor([max(part.half) if part.turn is not None else math.hypot(*part.half) for part in parts])
    low, high = float((centres[:, 1] - reach).min()), 0.0
    middle = (max(low, 1.15 * float(centres[:, 1].min())) + high) / 2
    offset = centres - torch.tensor([0.0, middle, 0.0])
    return middle, float((offset.norm(dim=1) + 0.6 * reach).max())
