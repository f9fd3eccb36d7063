"""Oriented points of a user's photographs: a PLY with normals, a page where they can be turned, tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.clouds import write_ply
from vergence.data.images import read_image
from vergence.drawing.figure import BLUE, GREEN, ORANGE, figure, saved
from vergence.drawing.viewer import Layer, page
from vergence.matching.affinecorr.model import agreement, estimate
from vergence.matching.affinecorr.pictures import draw_discs, normal_colours
from vergence.matching.affinecorr.settings import TRACKERS, Config, Inputs
from vergence.matching.cameras import Camera, chosen, pair_of, read_cameras, refuse_one_centre
from vergence.matching.data import flattened
from vergence.matching.photographs import detected_patches, grey, matched_tracks
from vergence.matching.tracks import Observed, counted, observe, read_tracks, settle
from vergence.metrics.oriented import normal_angle
from vergence.ops.affine_correspondences import oriented_point
from vergence.ops.epipolar import plane_through
from vergence.ops.photoconsistency import Pictures

Ctx = Context[Config, NoFacts]
BYTES_PER_PIXEL = 300
"""Memory of SIFT for a pixel, about; and of everything else, a tenth of it."""
GRAZING = 84.0
"""Degrees between normal and ray, beyond which a disc is seen from its edge."""
DISC = 5.0
"""Radius of the discs, in pixels of the photograph."""


@dataclass(frozen=True, eq=False)
class OrientedPoints(Result):
    """Points of a scene with their surface normals."""

    points: Tensor
    """(N, 3), in the world of the cameras."""
    normals: Tensor
    """(N, 3), of length 1, towards the camera that the patch was taken from."""
    before: Tensor
    """(N, 3), the normals from the affinities as they were matched; of trackers, towards the camera."""
    colours: Tensor
    """(N, 3), bytes."""
    pixels: Tensor
    """(N, 2), where a point is in its reference photograph."""
    picture: Tensor
    """(N,), the reference photograph of each point, counted from 0."""
    views: Tensor
    """(N,), in how many photographs each point was seen."""
    correlation: Tensor
    """(N,), how alike the patches of a point are, at most 1."""
    correlation_before: Tensor
    """(N,), the same for the normals before."""
    left_out: Mapping[str, int]
    """How many tracks were left out, by reason."""
    photographs: tuple[Tensor, ...]
    """The photographs without distortion, bytes (3, H, W) each."""
    cameras: tuple[Camera, ...]
    """Their cameras."""
    method: str
    """How planes were found."""

    def summary(self) -> Mapping[str, Any]:
        left = counted(self.left_out)
        turned = normal_angle(self.before, self.normals)
        return {
            "oriented points": len(self.points),
            "photographs": len(self.photographs),
            "left out": left or "none",
            "correlation of patches, before": round(float(self.correlation_before.median()), 3),
            "correlation of patches, after": round(float(self.correlation.median()), 3),
            "normals turned by, median °": round(float(turned.median()), 1),
        }

    def in_first(self) -> tuple[Tensor, Tensor, Tensor]:
        """Points, normals and normals before in the axes of the first camera: right, down, forward."""
        own = self.cameras[0]
        return self.points @ own.R.mT + own.t, self.normals @ own.R.mT, self.before @ own.R.mT


def oriented_points(ctx: Ctx, inputs: Inputs) -> OrientedPoints:
    """Oriented points of photographs by the method that the inputs name."""
    photographs, cameras = read_photographs(inputs)
    sizes = [picture[0].numel() for picture in photographs]
    ctx.need(BYTES_PER_PIXEL * (max(sizes) + sum(sizes) / 10), f"reading {sum(sizes):,} pixels")
    stack = Pictures.of([grey(picture) for picture in photographs], blur=ctx.config.model.patch.blur)
    tracks, left_out = _tracks(ctx, inputs, photographs, cameras)
    if not len(tracks):
        raise VergenceError(f"no patch is left in {_named(inputs)}: {counted(left_out) or 'nothing was matched'}")
    patch = ctx.config.model.patch
    found = estimate(tracks, stack, inputs.method, patch)
    if inputs.method in TRACKERS:
        depth = (found.plane * torch.cat([tracks.x, torch.ones_like(tracks.x[:, :1])], 1)).sum(1)
        start = plane_through(tracks.x, torch.zeros_like(tracks.x), depth)
    else:
        start = estimate(tracks, None, "raw").plane
    alike, before = (agreement(tracks, stack, plane, patch) for plane in (found.plane, start))
    point, normal = oriented_point(found.plane, tracks.x)
    rays = -torch.nn.functional.normalize(point, dim=1)
    flat = normal_angle(normal, rays) > GRAZING
    finite = found.plane.isfinite().all(1) & point.isfinite().all(1)
    reasons = {
        "not aligned": ~found.good,
        "behind a camera": found.good & ~(point[:, 2] > 0),
        "unlike": ~(alike >= inputs.correlation),
        "seen from the edge": flat,
    }
    kept = finite
    for reason, bad in reasons.items():
        left_out[reason] = left_out.get(reason, 0) + int((kept & bad).sum())
        kept = kept & ~bad
    if not kept.any():
        raise VergenceError(f"no oriented point is left in {_named(inputs)}: {counted(left_out)}")
    rows = kept.nonzero().squeeze(1)
    return _result(inputs, photographs, cameras, tracks.rows(rows), found.plane[rows], start[rows],
                   (alike[rows], before[rows]), left_out)  # fmt: skip


def read_photographs(inputs: Inputs) -> tuple[list[Tensor], list[Camera]]:
    """Photographs without distortion, and their cameras."""
    pictures = [read_image(path) for path in inputs.images]
    names = [path.name for path in inputs.images]
    if len(pictures) < 2:
        raise VergenceError(f"expected two or more photographs, got {', '.join(names) or 'none'}")
    for name, picture in zip(names, pictures, strict=True):
        if min(picture.shape[-2:]) < 32:
            raise VergenceError(
                f"{name} has {picture.shape[-1]} x {picture.shape[-2]} pixels: expected at least 32 x 32"
            )
    if bool(inputs.cameras) == bool(inputs.intrinsics or inputs.pose):
        raise VergenceError("give cameras, or intrinsics and a pose: the photographs' cameras must be known")
    if inputs.cameras:
        source = inputs.cameras if not inputs.cameras.lstrip().startswith("{") else "the cameras"
        cameras = chosen(read_cameras(inputs.cameras), names, source)
    else:
        if not (inputs.intrinsics and inputs.pose):
            raise VergenceError(f"there is no {'pose' if inputs.intrinsics else 'intrinsics'}: give both, or cameras")
        cameras = pair_of(names, inputs.intrinsics, inputs.pose)
    refuse_one_centre(cameras)
    return [flattened(picture, own) for picture, own in zip(pictures, cameras, strict=True)], cameras


def _named(inputs: Inputs) -> str:
    names = [path.name for path in inputs.images]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _tracks(
    ctx: Ctx, inputs: Inputs, pictures: Sequence[Tensor], cameras: Sequence[Camera]
) -> tuple[Observed, dict[str, int]]:
    """Tracks whose points agree with the poses, and how many were left out."""
    simulate = inputs.frames == "affine"
    if inputs.method in TRACKERS:
        return detected_patches(pictures[0], cameras, simulate, inputs.points), {}
    if inputs.correspondences:
        tracks = read_tracks(Path(inputs.correspondences).expanduser(), [path.name for path in inputs.images])
    else:
        tracks = matched_tracks(pictures, cameras, simulate, inputs.points, inputs.views, ctx.progress)
    settled = settle(observe(cameras, tracks))
    return settled.tracks, settled.left_out


def _result(
    inputs: Inputs,
    photographs: Sequence[Tensor],
    cameras: Sequence[Camera],
    tracks: Observed,
    plane: Tensor,
    start: Tensor,
    alike: tuple[Tensor, Tensor],
    left_out: Mapping[str, int],
) -> OrientedPoints:
    """The points in the world."""
    R, t = (torch.stack([getattr(own, name) for own in cameras])[tracks.first] for name in ("R", "t"))
    point, normal = oriented_point(plane, tracks.x)
    _, before = oriented_point(start, tracks.x)
    facing = -torch.nn.functional.normalize(point, dim=1)
    before = torch.where(before.isfinite().all(1, keepdim=True), before, facing)
    pixels, _ = tracks.pixels()
    colours = torch.zeros(len(pixels), 3, dtype=torch.uint8)
    for number, picture in enumerate(photographs):
        own = (tracks.first == number).nonzero().squeeze(1)
        height, width = picture.shape[-2:]
        x, y = pixels[own].round().long().unbind(1)
        colours[own] = picture[:, y.clamp(0, height - 1), x.clamp(0, width - 1)].mT

    def turned(vectors: Tensor) -> Tensor:
        return (R.mT @ vectors.unsqueeze(-1)).squeeze(-1)

    return OrientedPoints(
        turned(point - t), turned(normal), turned(before), colours, pixels, tracks.first,
        1 + (tracks.weight > 0).sum(1), *alike, {k: v for k, v in left_out.items() if v}, tuple(photographs),
        tuple(cameras), inputs.method,
    )  # fmt: skip


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: OrientedPoints) -> Sequence[Artifact]:
    """Writes the points as PLY, CSV and JSON, a page to turn them in, and a picture of them over the photograph."""
    names = [path.name for path in inputs.images]
    ply = write_ply(
        ctx.folder / "points.ply", result.points, result.colours, result.normals,
        correlation=result.correlation, views=result.views,
    )  # fmt: skip
    heading = ("image", "u", "v", "x", "y", "z", "nx", "ny", "nz", "views", "correlation")
    rows = zip(
        result.picture.tolist(), result.pixels.tolist(), result.points.tolist(), result.normals.tolist(),
        result.views.tolist(), result.correlation.tolist(), strict=True,
    )  # fmt: skip
    cells = [
        [names[i], *(f"{v:.3f}" for v in at), *(f"{v:.6g}" for v in (*point, *normal)), views, f"{alike:.4f}"]
        for i, at, point, normal, views, alike in rows
    ]
    table = write_table(ctx.folder / "points.csv", heading, cells)
    facts = ctx.folder / "points.json"
    write_json(facts, {
        "method": result.method, "images": names, "left_out": dict(result.left_out),
        "points": result.points.tolist(), "normals": result.normals.tolist(), "picture": result.picture.tolist(),
        "pixels": result.pixels.tolist(), "views": result.views.tolist(), "correlation": result.correlation.tolist(),
    })  # fmt: skip
    return [
        Artifact("image", _picture(ctx.folder / "points.png", result), "The first photograph, and its oriented points "
                 "before and after: discs lie on the surface and have the colour of their normal."),
        Artifact("html", _page(ctx.folder / "points.html", result), "The oriented points as discs, to turn."),
        Artifact("cloud", ply, f"{len(result.points)} points with normals and colours, in the world of the cameras."),
        Artifact("table", table, "The same as a table, with the place in the photograph."),
        Artifact("json", facts, "The same as JSON, with what was left out."),
    ]  # fmt: skip


def _page(path: Path, result: OrientedPoints) -> Path:
    upright = torch.tensor([-1.0, -1.0, 1.0]).double()  # the viewer's axes are left, up, forward
    points, *both = result.in_first()
    colours = [255 * normal_colours(normals) for normals in both]
    points, normals, before = (part * upright for part in (points, *both))
    radius = 1.6 * DISC * float(points[:, 2].abs().median()) / float(result.cameras[0].K[0, 0])

    def layer(name: str, colour: str, shades: Tensor, directions: Tensor, shown: bool) -> Layer:
        return Layer(name, points, colour, colours=shades, normals=directions, disc=radius, shown=shown)

    layers = [
        layer(result.method, BLUE, result.colours, normals, True),
        layer(f"{result.method}, colours of normals", GREEN, colours[0], normals, False),
        layer("before, colours of normals", ORANGE, colours[1], before, False),
    ]
    note = f"{len(points)} oriented points from {len(result.photographs)} photographs"
    return page(path, "Oriented points", note, layers, eye=(0.2, 0.15))


def _picture(path: Path, result: OrientedPoints) -> Path:
    own = result.picture == result.picture.mode().values  # the photograph with most points
    number = int(result.picture.mode().values)
    camera, photograph = result.cameras[number], result.photographs[number]
    points = result.points[own] @ camera.R.mT + camera.t
    height, width = photograph.shape[-2:]
    drawn = figure(12.0, 4.0 * height / width + 0.35)
    places = drawn.subplots(1, 3)
    places[0].imshow(photograph.permute(1, 2, 0).numpy())
    places[0].set_axis_off()
    places[0].set_title(camera.name[-40:], fontsize=9)
    shown = (("before", result.before, result.correlation_before), (result.method, result.normals, result.correlation))
    for place, (title, normals, alike) in zip(places[1:], shown, strict=True):
        draw_discs(place, photograph, points, normals[own] @ camera.R.mT, camera.K, width / 110)
        place.set_title(f"{title}: correlation of patches {float(alike[own].median()):.3f}", fontsize=9)
    return saved(drawn, path)
