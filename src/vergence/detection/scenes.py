"""Rendered streets, rooms and table tops with things of six classes and their exact boxes: embedded data of detectors.

Two domains share the classes and differ in how often each occurs. Pictures come with depth, so that
:mod:`vergence.detection.styles` can fill them with fog or darken them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import SURFACES
from vergence.data.rendered import rendered
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import SMALL, box, chair, lamp, mug, plant, table
from vergence.rendering.outdoors import animal, bench, car, person, sign, tree
from vergence.rendering.places import Place
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.solids import BOX
from vergence.rendering.textures import Atlas, photographic
from vergence.rendering.things import GLASS, Maker, Material, Vector, choice, random_material, uniform
from vergence.rendering.things import place as put
from vergence.rendering.views import exposed, render

CLASSES = ("person", "car", "dog", "chair", "potted plant", "cup")
MAKERS: dict[str, Maker] = {
    "person": person, "car": car, "dog": animal, "chair": chair, "potted plant": plant, "cup": mug,
}  # fmt: skip
Domain = Literal["source", "target"]
PRIORS: dict[str, tuple[float, ...]] = {
    "source": (0.16, 0.14, 0.16, 0.18, 0.18, 0.18),
    "target": (0.28, 0.28, 0.16, 0.10, 0.09, 0.09),
}
"""How often the classes occur in each domain."""
FURS: tuple[Vector, ...] = (
    (0.45, 0.3, 0.17), (0.62, 0.46, 0.28), (0.2, 0.15, 0.12), (0.75, 0.7, 0.62), (0.4, 0.38, 0.36), (0.55, 0.27, 0.13)
)  # fmt: skip
FLOOR = 1.5
"""The floor is this far below the eye, in metres."""
LEAST_SIDE = 6
"""An object counts if its visible box has sides of at least this many pixels, of a picture 64 high."""
HEIGHT, WIDTH = 64, 80
CODE = ("vergence.detection.scenes", "vergence.rendering")


class Picture(NamedTuple):
    """A rendered picture with its objects."""

    image: Tensor
    """(3, H, W), from 0 to 1."""
    depth: Tensor
    """(H, W), in metres; infinite in the sky."""
    boxes: Tensor
    """(n, 4): left, top, right, bottom in pixels."""
    labels: Tensor
    """(n,), from 1."""


# Places ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A kind of place: the classes that occur in it, what else may stand there, and how it is laid out."""

    classes: tuple[str, ...]
    others: tuple[Maker, ...]
    begin: Callable[[Place, torch.Generator], None]
    near: float
    far: float
    floor: float
    focal: float
    """In heights of the picture."""
    size: dict[str, tuple[float, float]]
    """Least and largest size of a class, where it is not that of its maker."""
    most: int = 3


def _surface(place: Place, centre: Sequence[float], half: Sequence[float], source: torch.Generator) -> None:
    """A wall or a floor."""
    atlas = place.builder.atlas
    look = random_material(source, atlas.named(SURFACES), 0.6)
    place.builder.add(BOX, centre, half, colour=look.colour, texture=look.texture, blend=uniform(source, 0.15, 0.7),
                      density=uniform(source, 40, 120), offset=look.offset)  # fmt: skip


def _street(place: Place, source: torch.Generator) -> None:
    builder, half = place.builder, uniform(source, 4.0, 6.5)
    ground = random_material(source, builder.atlas.named(SURFACES), 1.0)
    grey = uniform(source, 0.28, 0.45)
    builder.add(BOX, (0, FLOOR + 0.1, 20), (40, 0.1, 40), colour=(grey, grey, grey), texture=ground.texture, blend=0.5,
                density=70, offset=ground.offset)  # fmt: skip
    for side in (-1, 1):
        z = uniform(source, 3, 6)
        while z < 22:
            deep, high = uniform(source, 1.6, 3.2), uniform(source, 1.6, 3.4)
            x = side * (half + 3.0)
            _surface(place, (x, FLOOR - high, z), (2.6, high, deep), source)
            for level in (0.7, 1.5):
                for shift in (-0.5, 0.5):
                    builder.add(BOX, (x - side * 2.62, FLOOR - level * high, z + shift * deep),
                                (0.03, 0.22 * high, 0.2 * deep), colour=GLASS)  # fmt: skip
            z += 2 * deep + uniform(source, 0.2, 2.5)


def _room(place: Place, source: torch.Generator) -> None:
    wide, deep = uniform(source, 2.2, 3.4), uniform(source, 4.8, 6.5)
    _surface(place, (0, FLOOR + 0.1, deep / 2), (wide + 3, 0.1, deep + 1), source)
    _surface(place, (0, 0, deep + 0.1), (wide + 3, 4.0, 0.1), source)
    for side in (-1, 1):
        _surface(place, (side * (wide + 0.1), 0, deep / 2), (0.1, 4.0, deep + 1), source)


def _desk(place: Place, source: torch.Generator) -> None:
    _surface(place, (0, 0.45, 1.0), (1.8, 0.03, 1.0), source)
    _surface(place, (0, 0, uniform(source, 2.0, 2.8)), (4.0, 4.0, 0.05), source)


SETTINGS = {
    "street": Setting(("person", "car", "dog"), (tree, sign, bench), _street, 3.8, 9.5, FLOOR, 1.0,
                      {"dog": (1.3, 1.7)}, 3),
    "room": Setting(("person", "dog", "chair", "potted plant"), (table, box, lamp), _room, 2.4, 4.4, FLOOR, 1.15,
                    {"potted plant": (0.9, 1.3), "dog": (1.0, 1.3)}, 3),
    "desk": Setting(("potted plant", "cup"), (SMALL["bottle"], SMALL["book"], SMALL["ball"]), _desk, 0.55, 1.25, 0.42,
                    1.05, {"potted plant": (0.3, 0.42), "cup": (1.3, 2.1)}, 4),
}  # fmt: skip


def compose(source: torch.Generator, atlas: Atlas, domain: Domain) -> tuple[Place, Setting]:
    """A random place with things in it. The first thing's class is drawn by how often classes occur in the domain, and
    the place is one where it belongs."""
    prior = torch.tensor(PRIORS[domain])
    first = CLASSES[int(torch.multinomial(prior, 1, generator=source))]
    fitting = [setting for setting in SETTINGS.values() if first in setting.classes]
    setting = fitting[choice(source, len(fitting))]
    towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.1)])
    warm = uniform(source, -0.1, 0.1)
    light = Light(towards, uniform(source, 0.5, 0.8), uniform(source, 0.4, 0.55), (1 + warm, 1.0, 1 - warm))
    blue = uniform(source, 0.5, 0.85)
    place = Place(SceneBuilder(atlas, light, (blue, blue + 0.05, 0.95)))
    place.builder.begin()
    setting.begin(place, source)
    here = torch.tensor([PRIORS[domain][CLASSES.index(name)] for name in setting.classes])
    drawn = torch.multinomial(here, setting.most, replacement=True, generator=source).tolist()
    names = [first, *(setting.classes[n] for n in drawn[: choice(source, setting.most)])]
    makers = [(name, MAKERS[name], setting.size.get(name, (0.95, 1.1))) for name in names]
    makers += [("", setting.others[choice(source, len(setting.others))], (1.0, 1.2)) for _ in range(choice(source, 3))]
    taken: list[float] = []
    for name, maker, sizes in makers:
        for _ in range(6):
            z = setting.near + (setting.far - setting.near) * uniform(source, 0, 1) ** 1.3
            z = max(z, 5.5) if name == "car" else z
            x = uniform(source, -0.48, 0.48) * z / setting.focal
            if all(abs(x / z - other) > 0.19 for other in taken):
                break
        else:
            continue
        taken.append(x / z)
        _put(place, name, maker, (x, setting.floor, z), uniform(source, *sizes), source)
    place.eye = (uniform(source, -0.1, 0.1), uniform(source, -0.2, 0.15), 0.0)
    place.target = (0.0, setting.floor * uniform(source, 0.45, 0.75), (setting.near + setting.far) / 2)
    return place, setting


def _put(
    place: Place, name: str, maker: Maker, at: tuple[float, float, float], size: float, source: torch.Generator
) -> None:
    """Add a thing with random materials; dogs and trees have colours of their own. What is nameless is no object."""
    main, second = (random_material(source, range(place.builder.atlas.count), share) for share in (0.4, 0.2))
    if name == "dog":
        main = second = Material(FURS[choice(source, len(FURS))])
    if maker is tree:
        main = Material((uniform(source, 0.15, 0.4), uniform(source, 0.3, 0.5), uniform(source, 0.08, 0.2)))
    number = put(place.builder, maker(source), at, uniform(source, 0, 2 * math.pi), size, main, second)
    if name:
        place.names[number] = name


def picture(
    source: torch.Generator, domain: Domain, height: int = HEIGHT, width: int = WIDTH, finer: int = 2
) -> Picture:
    """A random picture of a domain with at least one visible object, as a camera takes it by day."""
    atlas = photographic("train")
    while True:
        place, setting = compose(source, atlas, domain)
        eye, target = place.viewpoint
        camera = Pinhole(height, width, setting.focal * height, eye, look_at(eye, target))
        view = render(place.scene, camera, finer, shadows=True)
        boxes, labels = _objects(view.thing, place, LEAST_SIDE * height / 64)
        if len(labels):
            image = exposed(view.image, source, gain=0.15, blur=0.3, noise=0.012)
            return Picture(image.clamp(0, 1), view.depth, boxes, labels)


def _objects(thing: Tensor, place: Place, least: float) -> tuple[Tensor, Tensor]:
    """Boxes and classes of the things that are seen."""
    numbers = list(place.names)
    masks = thing == torch.tensor(numbers)[:, None, None]
    sides = []
    for axis in (1, 2):  # columns, then rows
        hit = masks.any(axis).to(torch.uint8)
        sides += [hit.argmax(1), hit.shape[1] - hit.flip(1).argmax(1)]
    boxes = torch.stack([sides[0], sides[2], sides[1], sides[3]], 1).float()
    labels = torch.tensor([1 + CLASSES.index(place.names[number]) for number in numbers])
    size = boxes[:, 2:] - boxes[:, :2]
    seen = masks.any(2).any(1) & (size >= least).all(1) & (masks.sum((1, 2)) > 0.2 * size.prod(1))
    return boxes[seen], labels[seen]


# Many of them ---------------------------------------------------------------------------------------------------------


@cache
def pictures(domain: Domain, split: str, count: int, height: int = HEIGHT, width: int = WIDTH) -> dict[str, Tensor]:
    """Pictures (count, 3, H, W) as bytes, inverse depths, and objects of all pictures with their numbers."""

    def draw() -> dict[str, Tensor]:
        drawn = [picture(generator("detection", domain, split, n), domain, height, width) for n in range(count)]
        return {
            "images": torch.stack([(255 * each.image).round().to(torch.uint8) for each in drawn]),
            "nearness": torch.stack([(1 / each.depth).half() for each in drawn]),
            "boxes": torch.cat([each.boxes for each in drawn]),
            "labels": torch.cat([each.labels for each in drawn]),
            "counts": torch.tensor([len(each.labels) for each in drawn]),
        }

    asked = {"domain": domain, "split": split, "count": count, "size": (height, width)}
    return rendered("detection", asked, CODE, draw)
