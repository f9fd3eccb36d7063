"""Pairs of pictures of rendered places, with exact disparity or optical flow, and what the other picture hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.photographs import Share
from vergence.data.rendered import rendered
from vergence.rendering.cameras import Pinhole, look_at
from vergence.rendering.places import PLACES, Place
from vergence.rendering.scenes import Scene
from vergence.rendering.textures import photographic
from vergence.rendering.things import about, choice, uniform
from vergence.rendering.views import exposed, motion, render


@dataclass(frozen=True)
class StereoPair:
    """A rectified pair of pictures."""

    left: Tensor
    """(3, H, W), bytes."""
    right: Tensor
    disparity: Tensor
    """(H, W), of the left picture, in pixels: a point at x is at x - disparity in the right one."""
    visible: Tensor
    """(H, W), whether the right camera sees the point too."""


@dataclass(frozen=True)
class FlowPair:
    """Two pictures of a place in motion."""

    first: Tensor
    """(3, H, W), bytes."""
    second: Tensor
    flow: Tensor
    """(2, H, W), motion of the first picture's pixels, to the right and down."""
    visible: Tensor
    """(H, W), whether the point is seen in the second picture."""
    backward: Tensor
    """(2, H, W), motion of the second picture's pixels to the first."""
    backward_visible: Tensor
    small: Tensor
    """(H, W), pixels of things that cover less than a hundredth of the picture and move by themselves."""


def stereo_pair(
    source: torch.Generator,
    height: int,
    width: int,
    most: float,
    share: Share = "train",
    places: Sequence[str] = tuple(PLACES),
    finer: int = 2,
) -> StereoPair:
    """A random place seen by two cameras; disparities reach 0.4 to 0.95 of ``most``."""
    place, left = _taken(source, height, width, share, places)
    scene = place.scene
    depth = render(scene, left, 1).depth
    nearest = float(depth[depth.isfinite()].quantile(0.002)) if depth.isfinite().any() else 10.0
    baseline = uniform(source, 0.4, 0.95) * most * nearest / left.focal
    right = replace(left, position=left.position + baseline * left.rotation[0])
    shadows = choice(source, 2) == 0
    views = [render(scene, camera, finer, shadows) for camera in (left, right)]
    seen = motion(scene, left, scene, right)
    disparity = torch.where(views[0].depth.isfinite(), -seen.flow[0], 0).clamp(0, most)
    pictures = [_bytes(exposed(view.image, source)) for view in views]
    return StereoPair(pictures[0], pictures[1], disparity, seen.visible)


def flow_pair(
    source: torch.Generator,
    height: int,
    width: int,
    most: float,
    share: Share = "train",
    places: Sequence[str] = tuple(PLACES),
    finer: int = 2,
) -> FlowPair:
    """A random place seen by a camera that moves, with things that move: the camera's share of the motion is up to half
    of ``most`` pixels, that of a thing up to ``most``."""
    place, first = _taken(source, height, width, share, places)
    before = place.scene
    view = render(before, first, 1)
    depth = view.depth[view.depth.isfinite()]
    far = float(depth.median()) if len(depth) else 5.0
    second = _moved_camera(first, far, most / 2, source)
    after = _moved_things(place, before, first, most, source)
    shadows = choice(source, 2) == 0
    images = [render(scene, camera, finer, shadows).image for scene, camera in ((before, first), (after, second))]
    forward, backward = motion(before, first, after, second), motion(after, second, before, first)
    small = torch.zeros_like(forward.visible)
    for thing in place.movable:
        own = view.thing == thing
        moved = not torch.equal(after.solids.centre[after.thing == thing], before.solids.centre[before.thing == thing])
        if moved and 0 < float(own.float().mean()) < 0.01:
            small |= own
    pictures = [_bytes(exposed(image, source)) for image in images]
    return FlowPair(
        pictures[0], pictures[1], forward.flow, forward.visible, backward.flow, backward.visible, small
    )  # fmt: skip


def _taken(
    source: torch.Generator, height: int, width: int, share: Share, places: Sequence[str]
) -> tuple[Place, Pinhole]:
    place = PLACES[places[choice(source, len(places))]](source, photographic(share))
    position, target = place.viewpoint
    focal = width * uniform(source, 0.75, 1.25)
    return place, Pinhole(height, width, focal, position, look_at(position, target, uniform(source, -0.03, 0.03)))


def _moved_camera(camera: Pinhole, far: float, most: float, source: torch.Generator) -> Pinhole:
    """The camera after a shift that moves what is ``far`` by up to ``most`` pixels, and a small rotation."""
    reach = far * uniform(source, 0, 0.7) * most / camera.focal
    direction = F.normalize(torch.randn(3, generator=source), dim=0)
    angle = uniform(source, 0, 0.3) * most / camera.focal
    turn = about("xyz"[choice(source, 3)], angle * (2 * choice(source, 2) - 1))
    return replace(camera, position=camera.position + reach * direction, rotation=turn @ camera.rotation)


def _moved_things(place: Place, scene: Scene, camera: Pinhole, most: float, source: torch.Generator) -> Scene:
    count = int(scene.thing.max()) + 1
    turns, shifts = torch.eye(3).repeat(count, 1, 1), torch.zeros(count, 3)
    for thing in place.movable:
        if choice(source, 3) == 0:
            continue
        centre = scene.solids.centre[scene.thing == thing].mean(0)
        depth = float((centre - camera.position) @ camera.rotation[2])
        if depth < 0.2:
            continue
        size = most * uniform(source, 0.1, 0.9) * depth / camera.focal
        direction = F.normalize(torch.randn(3, generator=source) * torch.tensor([1.0, 0.6, 0.5]), dim=0)
        turn = about("y", uniform(source, -0.25, 0.25)) @ about("z", uniform(source, -0.15, 0.15))
        turns[thing] = turn
        shifts[thing] = centre - turn @ centre + size * (camera.rotation.mT @ direction)
    return scene.moved(turns, shifts)


def _bytes(image: Tensor) -> Tensor:
    return (image * 255).round().to(torch.uint8)


CODE = ("vergence.rendering", "vergence.data.photographs")


def stereo_pairs(
    count: int,
    height: int,
    width: int,
    most: float,
    seed: tuple[int | str, ...],
    share: Share = "train",
    finer: int = 2,
) -> dict[str, Tensor]:
    """``count`` stereo pairs, field by field: ``left``, ``right``, ``disparity`` (half precision) and ``visible``."""

    def render_all() -> dict[str, Tensor]:
        pairs = [
            stereo_pair(generator("stereo", *seed, n), height, width, most, share, finer=finer) for n in range(count)
        ]
        return _stacked(pairs, ("left", "right", "disparity", "visible"))

    asked = {"count": count, "size": (height, width), "most": most, "seed": seed, "share": share, "finer": finer}
    return rendered("stereo", asked, CODE, render_all)


def flow_pairs(
    count: int,
    height: int,
    width: int,
    most: float,
    seed: tuple[int | str, ...],
    share: Share = "train",
    finer: int = 2,
) -> dict[str, Tensor]:
    """``count`` pairs in motion, field by field as in :class:`FlowPair`; flow in half precision."""

    def render_all() -> dict[str, Tensor]:
        pairs = [flow_pair(generator("flow", *seed, n), height, width, most, share, finer=finer) for n in range(count)]
        names = ("first", "second", "flow", "visible", "backward", "backward_visible", "small")
        return _stacked(pairs, names)

    asked = {"count": count, "size": (height, width), "most": most, "seed": seed, "share": share, "finer": finer}
    return rendered("flow", asked, CODE, render_all)


def _stacked(pairs: Sequence[object], names: Sequence[str]) -> dict[str, Tensor]:
    whole = {name: torch.stack([getattr(pair, name) for pair in pairs]) for name in names}
    return {name: value.half() if value.is_floating_point() else value for name, value in whole.items()}
