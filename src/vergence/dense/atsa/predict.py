"""The salient object of a user's photograph: depth in any form, mask, cut-out, and files to use and to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_array
from vergence.data.images import resized
from vergence.dense.atsa.model import ATSA
from vergence.dense.atsa.settings import Config, Inputs
from vergence.dense.depth import ORIENTATION, fitted_depth, near_map, read_depth, read_upright
from vergence.dense.pairs import prepared
from vergence.drawing.figure import figure, saved
from vergence.drawing.masks import outlined, write_picture
from vergence.ops.guided import guided

Ctx = Context[Config, NoFacts]
MEAN, STD = (0.447, 0.407, 0.386), (0.244, 0.250, 0.253)
"""Of the public code, by which photographs are normalised."""
SMALLEST = 16
"""Pixels along each side that a photograph must have."""
LIMITS = (0.3, 0.7)
"""Between which the mask's own threshold lies."""
FAINT = 0.35
"""Largest saliency below which nothing stands out."""
GUIDED = 320
"""Longer side at which the guided filter is computed."""
REACH, EPS = 0.015, 1e-3
"""Radius of its windows as a share of that side, and the variance below which it smooths."""
SOFT = 0.15
"""Saliency on either side of the threshold over which alpha goes from 0 to 1."""


@dataclass(frozen=True, eq=False)
class Saliency(Result):
    """The salient object of a photograph."""

    image: Tensor
    """The photograph, bytes (3, H, W), upright."""
    depth: Tensor
    """(H, W), the depth map as it was read: from 0 (far) to 1 (near)."""
    saliency: Tensor
    """(H, W), from 0 to 1: how much a pixel belongs to the object that people look at first."""
    mask: Tensor
    """(H, W), pixels whose saliency is at least the threshold."""
    threshold: float
    """At which the mask is cut."""
    nearest: str
    """What was near in the depth map: bright or dark."""
    box: tuple[int, int, int, int]
    """Left, top, width and height of the mask, in pixels; all 0 for an empty one."""
    hint: str
    """What is odd about the input or the result; empty if nothing."""

    def summary(self) -> Mapping[str, Any]:
        told = {
            "pixels": f"{self.mask.shape[1]} x {self.mask.shape[0]}",
            "object, share of the picture": f"{float(self.mask.float().mean()):.1%}",
            "box": ", ".join(map(str, self.box)),
            "largest saliency": round(float(self.saliency.max()), 3),
            "near in the depth map": self.nearest,
        }
        return told | ({"hint": self.hint} if self.hint else {})

    def cutout(self) -> Tensor:
        """The object with an alpha channel, bytes (4, H, W): soft where the saliency is near the threshold."""
        alpha = ((self.saliency - self.threshold) / (2 * SOFT) + 0.5).clamp(0, 1)
        return torch.cat([self.image, (alpha * 255).round().to(torch.uint8)[None]])


def saliency_of(ctx: Ctx, model: ATSA, inputs: Inputs) -> Saliency:
    """The salient object of a photograph with a depth map."""
    image, depth, nearest, hints = read_inputs(inputs)
    for hint in hints:
        ctx.progress.say(hint)
    size = image.shape[-2:]
    ctx.need(40 * image[0].numel(), f"a photograph of {size[1]} x {size[0]} pixels")
    both = [ctx.to_device(t).unsqueeze(0) for t in prepared(image, depth, ctx.config.data.size, MEAN, STD)]
    with ctx.autocast():
        small = model.saliency(*both).float().cpu()
    found = _enlarged(small, image, depth, inputs.edges == "sharp")
    threshold = inputs.threshold or min(max(2 * float(found.mean()), LIMITS[0]), LIMITS[1])
    mask = found >= threshold
    if float(found.max()) < FAINT:
        hints.append("nothing stands out: the largest saliency is low")
    return Saliency(image, depth, found, mask, threshold, nearest, _box(mask), "; ".join(hints))


def _enlarged(small: Tensor, image: Tensor, depth: Tensor, sharp: bool) -> Tensor:
    """A map (1, h, w) at the size of the photograph, (H, W); if ``sharp``, along the edges of photograph and depth."""
    size = image.shape[-2:]
    if not sharp:
        return F.interpolate(small[None], size, mode="bilinear", align_corners=False)[0, 0].clamp(0, 1)
    full = torch.cat([image.float() / 255, depth[None]])
    share = min(GUIDED / max(size), 1.0)
    sides = [max(round(side * share), 1) for side in size]
    fitted = F.interpolate(small[None], sides, mode="bilinear", align_corners=False)
    radius = max(round(REACH * max(sides)), 1)
    return guided(fitted, resized(full, *sides)[None], radius, EPS, full[None])[0, 0].clamp(0, 1)


def _box(mask: Tensor) -> tuple[int, int, int, int]:
    rows, columns = mask.nonzero(as_tuple=True)
    if not len(rows):
        return 0, 0, 0, 0
    left, top = int(columns.min()), int(rows.min())
    return left, top, int(columns.max()) - left + 1, int(rows.max()) - top + 1


def read_inputs(inputs: Inputs) -> tuple[Tensor, Tensor, str, list[str]]:
    """The photograph (3, H, W), its depth (H, W) from 0 to 1, what was near in the file, and what is odd about it."""
    image, orientation = read_upright(inputs.image)
    height, width = image.shape[-2:]
    names, hints = (inputs.image.name, inputs.depth.name), []
    if min(height, width) < SMALLEST:
        raise VergenceError(f"{names[0]} has {width} x {height} pixels: expected at least {SMALLEST} x {SMALLEST}")
    raw = read_depth(inputs.depth)
    if orientation > 1 and raw.shape != (height, width):
        sides = (height, width) if orientation < 5 else (width, height)
        if abs(raw.shape[1] * sides[0] / (raw.shape[0] * sides[1]) - 1) < 0.05:  # as the camera stored the photograph
            raw = _turned(raw, orientation)
            hints.append(f"{names[1]} was turned as the EXIF orientation of {names[0]} says")
    near = near_map(raw, str(inputs.depth), inputs.nearest)
    if near.flat:
        hints.append(f"{names[1]} has one value everywhere: colour alone decides")
    elif inputs.nearest == "found":
        hints.append(f"near seems to be {near.nearest} in {names[1]} (--nearest bright or dark decides it)")
    if near.unknown > 0.001:
        hints.append(f"{near.unknown:.1%} of {names[1]} has no value and was filled from around")
    if raw.shape != (height, width):
        hints.append(f"{names[1]} has {raw.shape[1]} x {raw.shape[0]} pixels and was resized to {width} x {height}")
    depth = fitted_depth(near.values, height, width, str(inputs.depth), names[0])
    return image, depth, near.nearest, hints


def _turned(values: Tensor, orientation: int) -> Tensor:
    """A map turned as an EXIF orientation says."""
    picture = Image.fromarray(values.numpy())
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    picture.info["exif"] = exif.tobytes()
    return torch.from_numpy(np.array(ImageOps.exif_transpose(picture)))


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Saliency) -> Sequence[Artifact]:
    """Writes an overview, the mask, the saliency, the cut-out and the photograph with the object's outline."""
    stem, folder = inputs.image.stem, ctx.folder
    overlay = outlined(result.image, result.mask)
    bytes_ = (result.saliency * 255).round().to(torch.uint8)
    overview = _overview(folder / f"{stem}-overview.png", result, overlay, inputs.image.name)
    return [
        Artifact("image", overview, "Photograph, depth (bright is near), saliency and the object."),
        Artifact("image", write_picture(folder / f"{stem}-overlay.png", overlay), "The object with its outline."),
        Artifact("image", write_picture(folder / f"{stem}-cutout.png", result.cutout()), "The object with alpha."),
        Artifact("image", write_picture(folder / f"{stem}-mask.png", result.mask.to(torch.uint8) * 255), "The mask."),
        Artifact("image", write_picture(folder / f"{stem}-saliency.png", bytes_), "Saliency, 255 for 1."),
        Artifact("table", write_array(folder / f"{stem}-saliency.npy", result.saliency.numpy()), "Saliency, float32."),
    ]


def _overview(path: Path, result: Saliency, overlay: Tensor, name: str) -> Path:
    height, width = result.mask.shape
    wide = 4.6 * min(max(width / height, 0.4), 2.5) ** 0.5
    drawn = figure(2 * wide, 2 * wide * height / width + 0.6)
    shown = ((result.image, name[-40:]), (result.depth, "depth"), (result.saliency, "saliency"), (overlay, "object"))
    for place, (values, title) in zip(drawn.subplots(2, 2).flat, shown, strict=True):
        if values.dim() == 3:
            place.imshow(values.permute(1, 2, 0).numpy())
        else:
            place.imshow(values.numpy(), cmap="gray", vmin=0, vmax=1)
        place.set_title(title, fontsize=9)
        place.set_axis_off()
    return saved(drawn, path)
