"""Rendered pictures with depth and the mask of one salient thing, for training and test.

There are three kinds, in known shares. In *alike* pictures several things have one shape and one texture, and sizes
that make them look equally large: only depth tells which is the nearest, the salient one. In *useless* pictures the
depth map is flat or noise, and one thing has another texture than the others. In all *other* pictures, desks and rooms,
a thing of its own look stands before the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import Share
from vergence.data.rendered import rendered
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.furniture import FURNITURE, SMALL
from vergence.rendering.places import FLOOR, desk, room
from vergence.rendering.scenes import Light, Scene, SceneBuilder
from vergence.rendering.solids import BOX, CYLINDER
from vergence.rendering.textures import photographic
from vergence.rendering.things import DARK, Maker, Material, choice, place, random_material, uniform
from vergence.rendering.views import View, exposed, render

ALIKE, USELESS, OTHER = range(3)
KINDS = ("alike", "useless", "other")
AREA = (0.015, 0.4)
"""Least and largest share of a picture that the salient thing covers."""
TRIES = 12
SKETCH = 40
"""Side of the pictures by which scenes are chosen."""
EXHIBITS: dict[str, Maker] = {name: SMALL[name] for name in ("mug", "bottle", "bowl", "ball", "lamp")} | {
    name: FURNITURE[name] for name in ("box", "plant", "sofa")
}


@dataclass(frozen=True)
class RGBD:
    """A picture with depth and the mask of its salient thing."""

    image: Tensor
    """(3, H, W), bytes."""
    depth: Tensor
    """(H, W), bytes; near is bright."""
    mask: Tensor
    """(H, W), whether a pixel is of the salient thing."""
    kind: int


def rgbd_picture(source: torch.Generator, kind: int, height: int, width: int, share: Share = "train") -> RGBD:
    """A random picture of one kind."""
    for _ in range(TRIES):
        scene, camera, salient = (_exhibition if kind != OTHER else _place)(source, kind, height, width, share)
        small = replace(camera, height=SKETCH, width=SKETCH, focal=camera.focal * SKETCH / width)
        if _stands_out(render(scene, small, 1), salient, nearest=kind != USELESS):
            break
    view = render(scene, camera, 2, shadows=choice(source, 2) == 0)
    image = (exposed(view.image, source) * 255).round().to(torch.uint8)
    depth = _sensed(view.depth, source) if kind != USELESS else _useless(source, height, width)
    return RGBD(image, (depth * 255).round().to(torch.uint8), view.thing == salient, kind)


def _stands_out(view: View, salient: int, nearest: bool) -> bool:
    """Whether a thing covers enough of a picture, is not cut in half by its border, and, if asked for, is nearer than
    all other things; the first thing are walls, floor and ledge."""
    mask = view.thing == salient
    edge = mask[0].sum() + mask[-1].sum() + mask[:, 0].sum() + mask[:, -1].sum()
    if not AREA[0] <= float(mask.float().mean()) <= AREA[1] or float(edge) > 0.25 * math.sqrt(float(mask.sum())):
        return False
    depth = float(view.depth[mask].median())
    others = view.depth[(view.thing > 0) & ~mask & view.depth.isfinite()]
    return not nearest or float((others < 1.02 * depth).sum()) < 0.1 * float(mask.sum())


# Scenes ---------------------------------------------------------------------------------------------------------------


def _light(source: torch.Generator) -> Light:
    towards = torch.tensor([uniform(source, -1, 1), -1.2, uniform(source, -1.2, -0.1)])
    warm = uniform(source, -0.12, 0.12)
    return Light(towards, uniform(source, 0.45, 0.8), uniform(source, 0.35, 0.55), (1 + warm, 1.0, 1 - warm))


def _camera(source: torch.Generator, height: int, width: int, at: Tensor, target: Tensor, zoom: float = 1.0) -> Pinhole:
    focal = zoom * width * uniform(source, 0.85, 1.2)
    return Pinhole(height, width, focal, at, look_at(at, target, uniform(source, -0.03, 0.03)))


def _exhibition(
    source: torch.Generator, kind: int, height: int, width: int, share: Share
) -> tuple[Scene, Pinhole, int]:
    """Things of one kind on stands before a wall, behind a ledge: sizes grow with the distance, so that all look
    equally large, and heights are random, so that the nearest is not the lowest."""
    atlas = photographic(share)
    builder = SceneBuilder(atlas, _light(source))
    builder.begin()
    far = uniform(source, 4.5, 6.5)
    _slab(builder, source, (0, 0, far), (2.5 * far, 2 * far, 0.1))
    if choice(source, 2):
        side = 2 * choice(source, 2) - 1
        _slab(builder, source, (side * uniform(source, 1.8, 2.6), 0, far / 2), (0.1, 2 * far, far))
    _slab(builder, source, (0, uniform(source, 0.62, 0.75), 1.05), (3, 0.25, 0.05))
    maker = list(EXHIBITS.values())[choice(source, len(EXHIBITS))]
    shape = torch.Generator().manual_seed(choice(source, 2**31))
    state = shape.get_state()
    count = 3 + choice(source, 2)
    textures = range(atlas.count)
    look, trim = (random_material(source, textures, share) for share in (0.75, 0.3))
    odd = max((random_material(source, textures, 0.4) for _ in range(6)), key=lambda own: _unlike(own, look))
    nearest = uniform(source, 1.5, 2.2)
    distances = [nearest, *(nearest * uniform(source, 1.35, 2.1) for _ in range(count - 1))]
    across = 0.72 * (torch.arange(count) - (count - 1) / 2) / max(count - 1, 1)
    across = across[torch.randperm(count, generator=source)] + (torch.rand(count, generator=source) - 0.5) * 0.08
    yaw, apparent = uniform(source, 0, 2 * math.pi), uniform(source, 0.26, 0.4)
    salient = 0 if kind == ALIKE else choice(source, count)
    spots = []
    for n, distance in enumerate(distances):
        at = (float(across[n]) * distance, distance * uniform(source, 0.02, 0.24), distance)
        spots.append(at)
        radius = 0.012 * distance  # stands belong to the surroundings
        builder.add(CYLINDER, (at[0], at[1] + 1.0, distance), (radius, 1.0, radius), colour=DARK)
        builder.add(CYLINDER, (at[0], at[1] + 0.004 * distance, distance), (5 * radius, 0.006 * distance, 5 * radius))
    numbers = []
    for n, at in enumerate(spots):
        shape.set_state(state)  # the same shape each time
        parts = maker(shape)
        tall = -min(part.centre[1] - max(part.half) for part in parts)
        wide = max(max(abs(part.centre[0]), abs(part.centre[2])) + min(sorted(part.half)[1:]) for part in parts)
        size = at[2] * min(apparent * uniform(source, 0.9, 1.1) / tall, 0.36 / (count - 1) / wide)
        main = odd if kind == USELESS and n == salient else look
        turn = yaw + math.atan2(at[0], at[2]) + uniform(source, -0.25, 0.25)
        numbers.append(place(builder, parts, at, turn, size, _seen(main, size), _seen(trim, size)))
    eye = torch.tensor([uniform(source, -0.1, 0.1), uniform(source, -0.05, 0.05), 0.0])
    target = torch.tensor([uniform(source, -0.15, 0.15), uniform(source, -0.05, 0.1), 3.0])
    return builder.scene(), _camera(source, height, width, eye, target), numbers[salient]


def _seen(look: Material, size: float) -> Material:
    """The material with a texture that grows with the thing."""
    return replace(look, density=0.6 * look.density / size)


def _unlike(one: Material, other: Material) -> float:
    return sum(abs(a - b) for a, b in zip(one.colour, other.colour, strict=True))


def _slab(builder: SceneBuilder, source: torch.Generator, centre: tuple[float, ...], half: tuple[float, ...]) -> None:
    look = random_material(source, range(builder.atlas.count), 0.75)
    blend = uniform(source, 0.15, 1.0) if look.texture >= 0 else 0.0
    builder.add(BOX, centre, half, colour=look.colour, texture=look.texture, blend=blend,
                density=uniform(source, 30, 120), offset=look.offset)  # fmt: skip


def _place(source: torch.Generator, kind: int, height: int, width: int, share: Share) -> tuple[Scene, Pinhole, int]:
    """A desk or a room with a thing before the others."""
    atlas = photographic(share)
    if choice(source, 5) < 2:
        found, turned = desk(source, atlas, 4), (0.4, 0.15, 0.0)
        name = list(SMALL)[choice(source, len(SMALL))]
        spot = (uniform(source, -0.12, 0.12), 0.42, uniform(source, 0.5, 0.62))
        salient = found.put(name, SMALL[name], spot, source, size=uniform(source, 1.3, 1.9))
    else:
        found, turned = room(source, atlas, 5), (0.8, 0.6, 0.5)
        name = ("chair", "sofa", "lamp", "plant", "box")[choice(source, 5)]
        spot = (uniform(source, -0.5, 0.5), FLOOR, uniform(source, 1.9, 2.4))
        salient = found.put(name, FURNITURE[name], spot, source, size=uniform(source, 1.0, 1.5))
    position, target = found.viewpoint
    zoom = uniform(source, 0.9, 1.7)
    middle = torch.tensor(spot) - torch.tensor([0.0, 0.1 if turned[2] == 0 else 0.4, 0.0])
    target = torch.lerp(target, middle, (zoom * torch.tensor(turned)).clamp(max=1))
    return found.scene, _camera(source, height, width, position, target, zoom), salient


# Depth maps -----------------------------------------------------------------------------------------------------------


def _sensed(depth: Tensor, source: torch.Generator) -> Tensor:
    """Inverse depth from 0 to 1 as a sensor gives it: a little blurred and noisy, with wrong spots at edges."""
    inverse = torch.where(depth.isfinite(), 1 / depth.clamp(min=0.05), 0)
    low, high = (float(inverse.flatten().quantile(q)) for q in (0.01, 0.99))
    bright = ((inverse - low) / max(high - low, 1e-6)).clamp(0, 1)
    bright = bright ** uniform(source, 0.7, 1.3)
    jumps = F.max_pool2d(bright[None, None], 3, 1, 1) + F.max_pool2d(-bright[None, None], 3, 1, 1)
    spots = torch.rand(depth.shape, generator=source) < 0.25 * (jumps[0, 0] > 0.1)
    bright = torch.where(spots, torch.rand(depth.shape, generator=source), bright)
    soft = F.avg_pool2d(F.pad(bright[None, None], (1, 1, 1, 1), mode="replicate"), 3, 1)[0, 0]
    bright = torch.lerp(bright, soft, uniform(source, 0.3, 1.0))
    return (bright + uniform(source, 0, 0.02) * torch.randn(depth.shape, generator=source)).clamp(0, 1)


def _useless(source: torch.Generator, height: int, width: int) -> Tensor:
    """A map without information: flat, smooth noise or noise of single pixels."""
    kind = choice(source, 3)
    if kind == 0:
        return torch.full((height, width), uniform(source, 0, 1))
    cells = (3 + choice(source, 5),) * 2 if kind == 1 else (height, width)
    noise = torch.rand(1, 1, *cells, generator=source)
    return F.interpolate(noise, (height, width), mode="bilinear", align_corners=False)[0, 0]


# Sets -----------------------------------------------------------------------------------------------------------------

CODE = ("vergence.rendering", "vergence.data.photographs", "vergence.dense.scenes")


def kind_of(index: int, alike: float, useless: float) -> int:
    """The kind of a picture: shares are kept in every stretch of pictures, not only on average."""
    place_ = (index * 0.6180339887498949 + 0.5) % 1.0  # golden section: no two neighbours alike for long
    return ALIKE if place_ < alike else USELESS if place_ < alike + useless else OTHER


def rgbd_pictures(
    count: int, height: int, width: int, alike: float, useless: float, seed: tuple[int | str, ...],
    share: Share = "train",
) -> dict[str, Tensor]:  # fmt: skip
    """``count`` pictures, field by field: ``image``, ``depth``, ``mask`` and ``kind``."""

    def render_all() -> dict[str, Tensor]:
        made = [
            rgbd_picture(generator("rgbd", *seed, n), kind_of(n, alike, useless), height, width, share)
            for n in range(count)
        ]
        stacked = {name: torch.stack([getattr(one, name) for one in made]) for name in ("image", "depth", "mask")}
        return stacked | {"kind": torch.tensor([one.kind for one in made])}

    asked = {"count": count, "size": (height, width), "shares": (alike, useless), "seed": seed, "share": share}
    return rendered("rgbd", asked, CODE, render_all)
