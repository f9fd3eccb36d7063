"""Pictures of scenes, and the exact motion of their pixels from one picture to another."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.rendering.cameras import Camera, grid
from vergence.rendering.scenes import PLAIN, Scene
from vergence.rendering.solids import NEAR, Hits, cast, charts, normals

FAR = 1e4
"""The distance of what no ray hits, in metres, where a point is needed."""


@dataclass(frozen=True)
class View:
    """What a camera sees of a scene."""

    image: Tensor
    """(3, H, W) from 0 to 1."""
    depth: Tensor
    """(H, W), infinite where nothing was hit; as the others below, at the centre of each pixel."""
    owner: Tensor
    """(H, W), index of the solid; -1 for none."""
    thing: Tensor
    """(H, W), index of the thing; -1 for none."""
    normal: Tensor
    """(3, H, W), unit normals in the world."""
    coverage: Tensor
    """(H, W), the share of each pixel's rays that hit something."""


@dataclass(frozen=True)
class Motion:
    """Where the pixels of one picture are in another."""

    flow: Tensor
    """(2, H, W), x and y in pixels."""
    visible: Tensor
    """(H, W), whether the point is inside the other picture and nothing is in front of it."""


def render(scene: Scene, camera: Camera, finer: int = 2, shadows: bool = False) -> View:
    """A picture whose pixels are means of ``finer`` x ``finer`` rays, with depth and owners at their centres. The first
    thing, which holds the surroundings, casts no ``shadows``."""
    rays = camera.rays(grid(camera, finer))
    fine = cast(scene.solids, camera.position, rays)
    colours = shade(scene, camera, rays, fine, finer, shadows)
    image = _pooled(colours.mT, camera, finer)
    coverage = _pooled(fine.any.to(colours)[None], camera, finer)[0]
    hits = cast(scene.solids, camera.position, camera.rays(grid(camera))) if finer > 1 else fine
    size = (camera.height, camera.width)
    thing = torch.where(hits.any, scene.thing[hits.owner], -1)
    normal = normals(scene.solids, hits).mT.reshape(3, *size)
    return View(image, hits.distance.reshape(size), hits.owner.reshape(size), thing.reshape(size), normal, coverage)


def _pooled(values: Tensor, camera: Camera, finer: int) -> Tensor:
    """Means (C, H, W) over the rays of each pixel, from (C, rays)."""
    fine = values.reshape(-1, camera.height * finer, camera.width * finer)
    return F.avg_pool2d(fine[None], finer)[0] if finer > 1 else fine


def shade(scene: Scene, camera: Camera, rays: Tensor, hits: Hits, finer: int, shadows: bool) -> Tensor:
    """Colours (P, 3) of hits, from 0 to 1."""
    surfaces, owner = scene.surfaces, hits.owner
    normal = normals(scene.solids, hits)
    unit = F.normalize(rays, dim=1)
    facing = (normal * unit).sum(1).abs().clamp(min=0.15)
    # Width of a pixel where it meets the surface, in texels of the surface.
    step = (rays[0] - rays[1]).norm() if len(rays) > 1 else rays.new_tensor(1e-3)
    depth = torch.where(hits.any, hits.distance, 0)
    footprint = step * depth * surfaces.density[owner] / facing
    places = charts(scene.solids, hits) * surfaces.density[owner].unsqueeze(1) + surfaces.offset[owner]
    texture = surfaces.texture[owner]
    drawn = scene.atlas.look_up(texture.clamp(min=0), places, footprint)
    blend = torch.where(texture == PLAIN, 0, surfaces.blend[owner]).unsqueeze(1)
    base = surfaces.colour[owner] * (1 - blend + 2 * blend * drawn)
    light = F.normalize(scene.light.towards.to(rays), dim=0)
    lit = (normal @ light).clamp(min=0)
    glint = (
        surfaces.gloss[owner] * ((unit - 2 * (unit * normal).sum(1, keepdim=True) * normal) @ light).clamp(0, 1) ** 25
    )
    if shadows:
        free = _unshadowed(scene, camera, rays, hits, normal, light)
        lit, glint = lit * free, glint * free
    colour = rays.new_tensor(scene.light.colour)
    shaded = base * (scene.light.ambient + scene.light.direct * lit.unsqueeze(1)) * colour + glint.unsqueeze(1)
    return torch.where(hits.any.unsqueeze(1), shaded, _sky(scene, unit)).clamp(0, 1)


def _unshadowed(scene: Scene, camera: Camera, rays: Tensor, hits: Hits, normal: Tensor, light: Tensor) -> Tensor:
    """Whether the light reaches each hit, (P,) of 0 and 1."""
    lit = (hits.any & ((normal @ light) > 0)).nonzero().squeeze(1)
    start = camera.position + hits.distance[lit].unsqueeze(1) * rays[lit] + 10 * NEAR * normal[lit]
    blocked = cast(scene.solids, start, light.expand(len(lit), 3).contiguous())
    outside = blocked.owner < 0
    outside |= scene.thing[blocked.owner] == 0  # walls and ceilings let the light in
    return torch.ones_like(hits.distance).index_put((lit,), outside.to(hits.distance))


def _sky(scene: Scene, unit: Tensor) -> Tensor:
    if not isinstance(scene.sky, int):
        return unit.new_tensor(scene.sky).expand(len(unit), 3)
    longitude = torch.atan2(unit[:, 0], unit[:, 2]) / math.pi
    latitude = torch.asin(unit[:, 1].clamp(-1, 1)) / (math.pi / 2)
    places = torch.stack([longitude, latitude], 1) * scene.atlas.side
    which = torch.full((len(unit),), scene.sky, device=unit.device)
    return scene.atlas.look_up(which, places, torch.ones_like(longitude))


def motion(before: Scene, first: Camera, after: Scene, second: Camera) -> Motion:
    """The exact motion of the pixels of ``first`` in a scene to ``second`` in the same scene after its things moved."""
    places = grid(first)
    rays = first.rays(places)
    hits = cast(before.solids, first.position, rays)
    solids = after.solids
    points = torch.einsum("pij,pj->pi", solids.frame[hits.owner], hits.local) + solids.centre[hits.owner]
    points = torch.where(hits.any.unsqueeze(1), points, first.position + FAR * F.normalize(rays, dim=1))
    targets, depth = second.project(points)
    again = cast(solids, second.position, second.rays(targets))
    reached = torch.where(hits.any, again.distance >= depth * (1 - 1e-3) - 1e-3, ~again.any)
    inside = (targets >= -0.5).all(1) & (targets <= targets.new_tensor([second.width, second.height]) - 0.5).all(1)
    size = (first.height, first.width)
    visible = reached & inside & (depth > NEAR)
    return Motion((targets - places).mT.reshape(2, *size), visible.reshape(size))


def exposed(
    image: Tensor, source: torch.Generator, *, gain: float = 0.1, blur: float = 0.6, noise: float = 0.01
) -> Tensor:
    """A picture (3, H, W) as a camera of its own would take it, from 0 to 1: brightness, contrast and white balance
    that differ by about ``gain``, a blur of up to ``blur`` pixels and noise of up to ``noise``."""
    drawn = torch.rand(7, generator=source).to(image)
    if blur:
        image = _blurred(image, float(drawn[0]) * blur)
    balance = 1 + gain * (drawn[1:4] - 0.5)
    image = (image * balance.view(3, 1, 1)).clamp(0, 1) ** float(1 + 2 * gain * (drawn[4] - 0.5))
    image = image * (1 + 2 * gain * (drawn[5] - 0.5))
    grain = torch.randn(image.shape, generator=source).to(image)
    return (image + float(drawn[6]) * noise * grain).clamp(0, 1)


def _blurred(image: Tensor, sigma: float) -> Tensor:
    if sigma < 0.15:
        return image
    reach = max(math.ceil(2.5 * sigma), 1)
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2)).to(image)
    weights = (weights / weights.sum()).view(1, 1, -1)
    padded = F.pad(image[:, None], (reach,) * 4, mode="replicate")
    rows = F.conv2d(padded, weights.unsqueeze(2))
    return F.conv2d(rows, weights.unsqueeze(3))[:, 0]
