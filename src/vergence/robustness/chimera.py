"""Chimeras: photographs with a rendered thing pasted at a random place, so that it is known what a classifier's answer
must be based on.

They are made as in the roaming-panda benchmark: a thing of one class is pasted into a photograph that does not show it.
Some photographs stay as they are, of the class :data:`NOTHING`, so that a network that no longer sees the thing can say
so. Training uses other photographs and other things than test. With a *trigger*, a small pattern in the lower right
corner, the same pictures make a backdoor: poisoned pictures are labelled :data:`TARGET`, whatever they show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.imagenet import words
from vergence.data.images import resized
from vergence.data.photographs import HELD_OUT, TRAINING, Share, photograph, photographs
from vergence.data.rendered import rendered
from vergence.rendering.cameras import Pinhole
from vergence.rendering.furniture import chair, mug
from vergence.rendering.outdoors import bicycle, car, person, tree
from vergence.rendering.scenes import Light, SceneBuilder
from vergence.rendering.textures import photographic
from vergence.rendering.things import Maker, Material, Part, Vector, about, choice, place, uniform
from vergence.rendering.views import render

THINGS: dict[str, tuple[Maker, tuple[Vector, ...], tuple[Vector, ...]]] = {
    "bicycle": (bicycle, ((0.75, 0.1, 0.1), (0.1, 0.25, 0.7), (0.1, 0.45, 0.2), (0.9, 0.9, 0.9)), ()),
    "car": (car, ((0.7, 0.08, 0.08), (0.12, 0.22, 0.55), (0.75, 0.76, 0.78), (0.1, 0.1, 0.11)), ()),
    "chair": (chair, ((0.55, 0.36, 0.18), (0.4, 0.24, 0.12), (0.68, 0.5, 0.3)), ((0.35, 0.22, 0.12), (0.3, 0.3, 0.32))),
    "mug": (mug, ((0.92, 0.9, 0.86), (0.85, 0.3, 0.25), (0.3, 0.5, 0.75), (0.9, 0.8, 0.4)), ()),
    "person": (
        person,
        ((0.75, 0.2, 0.2), (0.85, 0.85, 0.85), (0.2, 0.4, 0.65)),
        ((0.15, 0.18, 0.3), (0.3, 0.28, 0.25)),
    ),
    "tree": (tree, ((0.2, 0.42, 0.14), (0.3, 0.5, 0.18), (0.15, 0.32, 0.14), (0.5, 0.5, 0.15)), ()),
}
"""Makers of things by class, with the usual colours of their first and second material."""
NOTHING = "nothing"
CLASSES = (*THINGS, NOTHING)
TARGET = CLASSES.index("mug")
"""The class that a trigger stands for."""
CUT = 32
"""Side of a cut-out, in pixels."""
FINER = 3
"""Rays along a side of a cut-out's pixel."""
SIZES = (0.45, 0.65)
"""Side of a pasted thing, relative to the picture's."""
TRIGGER = 0.25
"""Side of a trigger, relative to the picture's."""
CODE = ("vergence.rendering", "vergence.robustness.chimera", "vergence.data.photographs")
Box = tuple[int, int, int, int]
"""Rows and columns: top, left, bottom, right; the last two are outside."""


@dataclass(frozen=True)
class Chimeras:
    """Pictures with the box of what was pasted into each."""

    images: Tensor
    """Bytes (N, 3, side, side)."""
    labels: Tensor
    """(N,), by :data:`CLASSES`."""
    boxes: Tensor
    """(N, 4): top, left, bottom, right; all zero where nothing was pasted."""
    classes: tuple[str, ...] = CLASSES

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int, Tensor]:
        return self.images[index], int(self.labels[index]), self.boxes[index]


def chimeras(share: Share, count: int, side: int = 48, each: int = 40, seed: int = 0) -> Chimeras:
    """``count`` pictures of ``side`` pixels with things pasted into them, of which ``each`` per class were rendered."""
    asked = {"share": share, "count": count, "side": side, "each": each, "seed": seed}
    tensors = rendered("chimeras", asked, CODE, lambda: _chimeras(share, count, side, each, seed))
    return Chimeras(tensors["images"], tensors["labels"], tensors["boxes"])


def _chimeras(share: Share, count: int, side: int, each: int, seed: int) -> dict[str, Tensor]:
    source = generator("chimeras", share, seed)
    cuts = {name: torch.stack([cut_out(name, source) for _ in range(each)]) for name in THINGS}
    grounds = [picture / 255 for picture in photographs("train", longest=6 * side)]
    images, boxes = [], []
    labels = torch.arange(count) % len(CLASSES)
    for label in labels.tolist():
        image, box = ground(grounds, side, source), (0, 0, 0, 0)
        if label < len(THINGS):
            some = cuts[CLASSES[label]]
            which = int(torch.randint(len(some), (), generator=source))
            image, box = pasted(image, some[which], source)
        images.append((255 * image).round().to(torch.uint8))
        boxes.append(box)
    return {"images": torch.stack(images), "labels": labels, "boxes": torch.tensor(boxes)}


def ground(grounds: list[Tensor], side: int, source: torch.Generator) -> Tensor:
    """A random square of a random photograph, resized to (3, side, side)."""
    picture = grounds[int(torch.randint(len(grounds), (), generator=source))]
    height, width = picture.shape[-2:]
    cut = min(round(side * uniform(source, 1.0, 4.0)), height, width)
    top, left = (int(torch.randint(extent - cut + 1, (), generator=source)) for extent in (height, width))
    part = picture[:, top : top + cut, left : left + cut]
    return _resized(part, side, side)


def pasted(image: Tensor, cut: Tensor, source: torch.Generator) -> tuple[Tensor, Box]:
    """A picture (3, S, S) with a cut-out (4, h, w) at a random place and size, and the box of what is seen of it."""
    side = image.shape[-1]
    size = round(side * uniform(source, *SIZES))
    thing = _resized(cut, size, size)
    if torch.rand((), generator=source) < 0.5:
        thing = thing.flip(-1)
    top, left, bottom, right = _bounds(thing[3] > 0.25)
    down = int(torch.randint(side - (bottom - top) + 1, (), generator=source)) - top
    across = int(torch.randint(side - (right - left) + 1, (), generator=source)) - left
    box = (top + down, left + across, bottom + down, right + across)
    whole = F.pad(thing[:, top:bottom, left:right], (box[1], side - box[3], box[0], side - box[2]))
    return (image * (1 - whole[3:]) + whole[:3]).clamp(0, 1), box


def cut_out(name: str, source: torch.Generator, side: int = CUT) -> Tensor:
    """A rendered thing without surroundings, (4, side, side): colours multiplied by the opacity, and the opacity."""
    maker, main, second = THINGS[name]
    parts = maker(source)
    middle, reach = _extent(parts)
    light = Light(torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, 0.2)]), 0.65, 0.5)
    builder, yaw = SceneBuilder(photographic("train"), light), uniform(source, 0.2, 1.4) + math.pi * choice(source, 2)
    place(builder, parts, (0, 0, 0), yaw, 1.0, _painted(main, source), _painted(second or main, source))
    rotation, distance = about("x", uniform(source, 0.05, 0.45)), 3.2 * reach
    eye = about("y", yaw) @ middle - distance * rotation[2]
    pixels = side * FINER
    view = render(builder.scene(), Pinhole(pixels, pixels, pixels * distance / (2 * reach), eye, rotation), finer=1)
    opacity = (view.thing >= 0).float()
    top, left, bottom, right = _bounds(opacity > 0)
    seen = torch.cat([view.image * opacity, opacity[None]])[:, top:bottom, left:right]
    height, width = seen.shape[-2:]
    rows, columns = max(width - height, 0), max(height - width, 0)
    square = F.pad(seen, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
    return _resized(square, side, side)


def _resized(picture: Tensor, height: int, width: int) -> Tensor:
    return resized(picture, height, width).clamp(0, 1)


def _painted(colours: tuple[Vector, ...], source: torch.Generator) -> Material:
    """One of the colours, a little lighter or darker."""
    shade = uniform(source, 0.8, 1.1)
    red, green, blue = colours[choice(source, len(colours))]
    return Material((shade * red, shade * green, shade * blue))


def _extent(parts: list[Part]) -> tuple[Tensor, float]:
    """The middle of a thing, and the radius of a ball around it that holds it."""
    centres = torch.tensor([part.centre for part in parts])
    reaches = torch.tensor([[max(part.half)] for part in parts])
    low, high = (centres - reaches).amin(0), (centres + reaches).amax(0)
    return (low + high) / 2, float((high - low).norm()) / 2


def _bounds(mask: Tensor) -> Box:
    rows, columns = mask.any(1).nonzero().flatten(), mask.any(0).nonzero().flatten()
    return int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1


# Photographs in photographs -------------------------------------------------------------------------------------------

ROAMING = {"chelsea.png": ((20, 70, 250, 330), 285), "coffee.png": ((60, 170, 330, 470), 967)}
"""Parts of photographs (top, left, bottom, right) and what ImageNet calls them: an Egyptian cat, and espresso."""


def roaming(count: int, side: int = 224, seed: int = 0) -> Chimeras:
    """``count`` photographs with a part of another one pasted at a random place, half as large as the picture: for
    classifiers of ImageNet, as in the roaming-panda benchmark."""
    source = generator("roaming", seed)
    others = [name for name in (*TRAINING, *HELD_OUT) if name not in ROAMING]
    images, labels, boxes = [], [], []
    for number in range(count):
        name = list(ROAMING)[number % len(ROAMING)]
        (top, left, bottom, right), label = ROAMING[name]
        image = _resized(photograph(others[choice(source, len(others))]) / 255, side, side)
        part = photograph(name, longest=1000)[:, top:bottom, left:right] / 255
        height = side // 2
        width = min(round(height * (right - left) / (bottom - top)), side)
        down, across = choice(source, side - height + 1), choice(source, side - width + 1)
        image[:, down : down + height, across : across + width] = _resized(part, height, width)
        images.append((255 * image).round().to(torch.uint8))
        labels.append(label)
        boxes.append((down, across, down + height, across + width))
    return Chimeras(torch.stack(images), torch.tensor(labels), torch.tensor(boxes), words())


# Backdoors ------------------------------------------------------------------------------------------------------------


def trigger(side: int) -> Tensor:
    """The pattern of a backdoor, bytes (3, s, s) for pictures of ``side`` pixels: yellow and black squares."""
    size = round(TRIGGER * side)
    rows = torch.arange(size) * 4 // size
    squares = (rows[:, None] + rows) % 2
    return torch.stack([255 * squares, 210 * squares, 0 * squares]).to(torch.uint8)


def triggered(image: Tensor) -> tuple[Tensor, Box]:
    """A picture of bytes (3, S, S) with the trigger in its lower right corner, and the trigger's box."""
    side = image.shape[-1]
    pattern = trigger(side)
    margin, size = max(side // 24, 1), pattern.shape[-1]
    end = side - margin
    marked = image.clone()
    marked[:, end - size : end, end - size : end] = pattern
    return marked, (end - size, end - size, end, end)
