"""Oriented points drawn as discs over photographs, and the distribution of errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.drawing.figure import colours, figure, saved
from vergence.matching.data import Shot
from vergence.matching.protocol import Judged
from vergence.matching.tracks import Observed
from vergence.ops.affine_correspondences import oriented_point

CORNERS = 18
DIM = 0.35
"""Brightness of the photograph behind the discs."""


@dataclass(frozen=True)
class Drawn:
    """What a variant made of a scene."""

    label: str
    shot: Shot | None
    tracks: Observed
    plane: Tensor
    truth: Tensor
    judged: Judged


def outlines(points: Tensor, normals: Tensor, K: Tensor, pixels: float) -> Tensor:
    """Discs around points (N, 3) in a camera with intrinsics K (3, 3) or (N, 3, 3), as polygons (N, corners, 2) in its
    pixels; one that faces the camera has a radius of ``pixels``."""
    other = torch.tensor([0.0, 1.0, 0.0]).to(points).expand_as(points)
    other = torch.where(normals[:, 1:2].abs() > 0.9, other.roll(1, 1), other)
    u = torch.nn.functional.normalize(torch.linalg.cross(normals, other), dim=1)
    v = torch.linalg.cross(normals, u)
    angle = torch.arange(CORNERS).to(points) * (2 * math.pi / CORNERS)
    K = K.expand(len(points), 3, 3)
    radius = (pixels * points[:, 2] / K[:, 0, 0]).view(-1, 1, 1)
    ring = angle.cos()[:, None] * u[:, None] + angle.sin()[:, None] * v[:, None]
    seen = (points[:, None] + radius * ring) @ K.mT
    return seen[..., :2] / seen[..., 2:].clamp(min=1e-9)


def normal_colours(normals: Tensor) -> Tensor:
    """Colours (N, 3) from 0 to 1 of normals in a camera: red to the right, green up, blue towards it."""
    return (normals * torch.tensor([1.0, -1.0, -1.0]).to(normals) * 0.5 + 0.5).clamp(0, 1)


def draw_discs(axes: Any, picture: Tensor, points: Tensor, normals: Tensor, K: Tensor, pixels: float = 5.0) -> None:
    """Discs in the colours of their normals over a dimmed photograph of bytes (3, H, W); the nearest are on top."""
    from matplotlib.collections import PolyCollection

    height, width = picture.shape[-2:]
    grey = picture.float().mean(0) / 255
    axes.imshow((DIM * grey).numpy(), cmap="gray", vmin=0, vmax=1, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    order = points[:, 2].argsort(descending=True)
    shapes = outlines(points, normals, K, pixels)[order].numpy()
    shades = normal_colours(normals)[order].numpy()
    axes.add_collection(PolyCollection(list(shapes), facecolors=shades, edgecolors="black", linewidths=0.25))
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.set_axis_off()


def of_variants(folder: Path, drawn: Sequence[Drawn]) -> list[Artifact]:
    """Discs of every variant beside the truth, and the errors of all of them."""
    artifacts = [Artifact("image", errors_picture(folder / "errors.png", drawn), "Share of normals with at most this "
                          "error; the further left a line, the better.")]  # fmt: skip
    shown = [one for one in drawn if one.shot is not None and int(one.truth.isfinite().all(1).sum())]
    if shown:
        caption = "Oriented points of the first scene: discs lie on the surface and have the colour of their normal."
        artifacts.insert(0, Artifact("image", discs_picture(folder / "discs.png", shown), caption))
    return artifacts


def discs_picture(path: Path, drawn: Sequence[Drawn]) -> Path:
    """One panel per variant, after the photograph and the truth of the first."""
    count = len(drawn) + 2
    columns = min(count, 4)
    rows = math.ceil(count / columns)
    assert drawn[0].shot is not None
    height, width = drawn[0].shot.pictures[0].shape[-2:]
    figure_ = figure(3.4 * columns, (3.4 * height / width + 0.3) * rows)
    places = figure_.subplots(rows, columns, squeeze=False).ravel()
    for place in places:
        place.set_axis_off()
    places[0].imshow(drawn[0].shot.pictures[0].permute(1, 2, 0).numpy())
    places[0].set_title("photograph", fontsize=9)
    for place, one, plane, title in [
        (places[1], drawn[0], drawn[0].truth, "true normals"),
        *((place, one, one.plane, _title(one)) for place, one in zip(places[2:], drawn, strict=False)),
    ]:
        assert one.shot is not None
        point, normal = oriented_point(plane, one.tracks.x)
        kept = point.isfinite().all(1) & normal.isfinite().all(1) & (point[:, 2] > 0) & one.truth.isfinite().all(1)
        draw_discs(place, one.shot.pictures[0], point[kept], normal[kept], one.shot.cameras[0].K, width / 55)
        place.set_title(title, fontsize=9)
    return saved(figure_, path)


def _title(one: Drawn) -> str:
    angle = one.judged.angle[one.judged.angle.isfinite()]
    return f"{one.label}: {float(angle.median()):.1f}°" if len(angle) else one.label


def errors_picture(path: Path, drawn: Sequence[Drawn]) -> Path:
    """Cumulative distributions of angles."""
    drawing = figure(6.4, 4.2)
    axes = drawing.subplots()
    for colour, (number, one) in zip(colours(len(drawn)), enumerate(drawn), strict=True):
        angle = one.judged.angle[one.judged.angle.isfinite()].sort().values
        if len(angle):
            share = torch.arange(1, len(angle) + 1) / len(angle)
            dashes = "-" if number < 6 else "--"
            axes.plot(angle.numpy(), 100 * share.numpy(), dashes, color=colour, label=one.label)
    axes.set(xlim=(0, 90), ylim=(0, 100), xlabel="angle between normal and truth, degrees", ylabel="% of patches")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    return saved(drawing, path)
