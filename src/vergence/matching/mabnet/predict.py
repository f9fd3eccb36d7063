"""Disparity of a user's photographs: range, scale, depth, and files for other programs and for looking at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import VergenceError
from vergence.core.files import write_array
from vergence.data.clouds import write_ply
from vergence.data.images import read_image, resized
from vergence.data.maps import write_pfm, write_png16
from vergence.drawing.figure import BLUE, figure, saved
from vergence.drawing.maps import coloured
from vergence.drawing.viewer import Layer, page
from vergence.matching.mabnet.model import STEP, MABNet
from vergence.matching.mabnet.settings import Config, Inputs
from vergence.matching.stereo import prepared
from vergence.ops.stereo import matched_shifts

Ctx = Context[Config, NoFacts]
SMALLEST = 32
"""Pixels along each side that a pair must have."""
SEARCHED = 240
"""Longer side at which the range of a pair is estimated."""
WIDEST = 192
"""Disparities that are distinguished at most: beyond, a pair is matched at a smaller scale."""
MARGIN = 1.15
"""The range is larger than the largest disparity that was found by this factor."""
VOLUMES = 7
"""Volumes of the network's channels that are held at a time, about."""
FEWEST = 30
"""Matches without which nothing is said about a pair."""


@dataclass(frozen=True, eq=False)
class Disparity(Result):
    """Disparity of the left photograph of a pair."""

    left: Tensor
    """The left photograph, bytes (3, H, W)."""
    disparity: Tensor
    """(H, W), in pixels: a point at x in the left photograph is at x - disparity in the right one."""
    searched: int
    """Disparities below this were looked for, in pixels."""
    scale: float
    """The photographs were matched at this fraction of their size."""
    depth: Tensor | None
    """(H, W), in the unit of the baseline, infinite where the disparity is 0; None without baseline and focal."""
    focal: float
    """Focal length in pixels, or 0."""
    hint: str
    """What seems to be wrong with the pair; empty if nothing."""

    def summary(self) -> Mapping[str, Any]:
        told = {
            "pixels": f"{self.disparity.shape[1]} x {self.disparity.shape[0]}",
            "disparities, px": f"{float(self.disparity.min()):.1f} to {float(self.disparity.max()):.1f}",
            "median disparity, px": round(float(self.disparity.median()), 2),
            "searched below, px": self.searched,
            "matched at": f"{self.scale:.0%} of its size",
        }
        if self.depth is not None:
            told["median depth"] = round(float(self.depth.median()), 3)
        return told | ({"hint": self.hint} if self.hint else {})

    def points(self) -> tuple[Tensor, Tensor]:
        """Points (N, 3) in the left camera's axes (right, down, forward) and their colours (N, 3), without pixels at
        the edge of something nearer."""
        assert self.depth is not None
        height, width = self.depth.shape
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        kept = self.depth.isfinite() & ~_edges(self.disparity)
        far = self.depth[kept]
        across, down = ((at[kept] - (side - 1) / 2) * far / self.focal for at, side in ((x, width), (y, height)))
        return torch.stack([across, down, far], 1), self.left[:, kept].mT


def _edges(disparity: Tensor) -> Tensor:
    """Pixels whose neighbours' disparities differ by more than a pixel."""
    wide = F.pad(disparity[None, None], (1, 1, 1, 1), mode="replicate")
    spread = F.max_pool2d(wide, 3, 1) + F.max_pool2d(-wide, 3, 1)
    return spread[0, 0] > 2.0


def disparity_of(ctx: Ctx, model: MABNet, inputs: Inputs) -> Disparity:
    """The disparity of the left photograph."""
    left, right = read_pair(inputs)
    height, width = left.shape[-2:]
    largest, hint = pair_range(left, right)
    if inputs.disparities is not None:
        largest = inputs.disparities
    if hint:
        ctx.progress.say(hint)
    scale = min(inputs.enlarge, (inputs.longest or math.inf) / max(height, width), WIDEST / (largest + 1))
    size = [max(round(side * scale), STEP) for side in (height, width)]
    across = size[1] / width
    levels = max(STEP * math.ceil((largest * across + 1) / STEP), 2 * STEP)
    volume = ctx.config.model.channels * levels / 64 * (size[0] + STEP) * (size[1] + STEP) * 4
    ctx.need(VOLUMES * volume, f"matching {size[1]} x {size[0]} pixels at {levels} disparities")
    both = [prepared((resized(picture.float(), *size)).round().clamp(0, 255)) for picture in (left, right)]
    one, other = (ctx.to_device(picture).unsqueeze(0) for picture in both)
    found = model(one, other, levels)
    assert isinstance(found, Tensor)
    found = found[:, -size[0] :, : size[1]].float().cpu() / across
    if (height, width) != tuple(size):
        found = F.interpolate(found[None], (height, width), mode="bilinear", align_corners=False)[0]
    depth = None
    if inputs.baseline:
        away = found[0] + inputs.offset
        depth = torch.where(away > 0, inputs.baseline * inputs.focal / away, torch.inf)
    return Disparity(left, found[0], round(levels / across), scale, depth, inputs.focal, hint)


def read_pair(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Both photographs, bytes (3, H, W)."""
    left, right = read_image(inputs.left), read_image(inputs.right)
    names = inputs.left.name, inputs.right.name
    sizes = [f"{picture.shape[-1]} x {picture.shape[-2]}" for picture in (left, right)]
    if left.shape != right.shape:
        raise VergenceError(
            f"{names[0]} has {sizes[0]} pixels and {names[1]} {sizes[1]}: expected a rectified pair of one size"
        )
    if min(left.shape[-2:]) < SMALLEST:
        raise VergenceError(f"{names[0]} has {sizes[0]} pixels: expected at least {SMALLEST} x {SMALLEST}")
    if torch.equal(left, right):
        raise VergenceError(f"{names[0]} and {names[1]} are the same picture: expected views of two cameras")
    return left, right


def pair_range(left: Tensor, right: Tensor) -> tuple[int, str]:
    """The largest disparity of a pair in pixels, estimated from windows that match in both directions, and what seems
    to be wrong with the pair."""
    height, width = left.shape[-2:]
    share = min(SEARCHED / max(height, width), 1.0)
    size = [max(round(side * share), SMALLEST // 2) for side in (height, width)]
    one, other = (resized(picture.float().mean(0, keepdim=True) / 255, *size)[0] for picture in (left, right))
    most = size[1] // 2
    found = matched_shifts(one, other, most)
    # In a swapped pair, points move the other way.
    swapped = matched_shifts(one.flip(-1), other.flip(-1), most)
    hint, count = "", [int((shifts >= 2).sum()) for shifts in (found, swapped)]
    if count[1] > 2 * count[0] + FEWEST:
        found = swapped
        hint = "left and right seem to be swapped: more points have moved to the right than to the left"
    elif len(found) < FEWEST or len(found) / 2 < count[0] < 1.5 * count[1]:  # as many as match by chance
        hint = "hardly anything matches: the photographs may show different places or not be rectified"
    if len(found) < FEWEST:
        return min(WIDEST - 1, width // 4), hint
    largest = float(found.double().quantile(0.995)) + 1
    return min(math.ceil(MARGIN * largest * width / size[1]), width - 1), hint


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Disparity) -> Sequence[Artifact]:
    """Writes disparity as array, PFM, 16-bit PNG and picture; depth and a cloud if they are known."""
    stem = inputs.left.stem
    values = result.disparity.numpy()
    at = ctx.folder / f"{stem}-disparity.npy"
    pair = _picture(ctx.folder / f"{stem}-pair.png", result, inputs)
    colours = _coloured(ctx.folder / f"{stem}-colours.png", result)
    png = write_png16(at.with_suffix(".png"), 256 * values)
    files = [
        Artifact("image", pair, "The left photograph and its disparity: blue is far, red is near."),
        Artifact("image", colours, "Disparity in colours, pixel by pixel."),
        Artifact("table", write_array(at, values), "Disparity (H, W) in pixels, float32."),
        Artifact("table", write_pfm(at.with_suffix(".pfm"), values), "The same as PFM."),
        Artifact("image", png, "The same as PNG of 16 bits: 256 times the disparity, as KITTI has it, up to 255.99."),
    ]
    if result.depth is None:
        return files
    depth = write_array(ctx.folder / f"{stem}-depth.npy", result.depth.where(result.depth.isfinite(), 0).numpy())
    files.append(Artifact("table", depth, "Depth (H, W) in the baseline's unit; 0 where it is infinite."))
    points, shades = result.points()
    if not len(points):
        return files
    near = points[:, 2] <= 4 * points[:, 2].median()  # what is far away would make the rest tiny
    upright = torch.tensor([-1.0, -1.0, 1.0])  # the viewer's axes are left, up, forward
    layer = Layer(inputs.left.name, points[near] * upright, BLUE, colours=shades[near])
    note = f"{len(points):,} points of {inputs.left.name}; median depth {float(points[:, 2].median()):.3g}"
    turned = page(ctx.folder / f"{stem}-cloud.html", f"{stem}: depth", note, [layer], eye=(0.25, 0.15))
    ply = write_ply(ctx.folder / f"{stem}-cloud.ply", points, shades)
    return [
        *files,
        Artifact("cloud", ply, f"{len(points):,} points with colours: right, down and forward of the left camera."),
        Artifact("html", turned, "The points, to turn."),
    ]


def _coloured(path: Path, result: Disparity) -> Path:
    from PIL import Image

    from vergence.core.files import replacing

    picture = Image.fromarray(coloured(result.disparity).permute(1, 2, 0).numpy())
    with replacing(path) as partial:
        picture.save(partial, "PNG")
    return path


def _picture(path: Path, result: Disparity, inputs: Inputs) -> Path:
    height, width = result.disparity.shape
    drawn = figure(10.0, 4.6 * height / width + 0.4)
    places = drawn.subplots(1, 2)
    places[0].imshow(result.left.permute(1, 2, 0).numpy())
    places[0].set_title(inputs.left.name[-50:], fontsize=9)
    low, high = (float(result.disparity.quantile(q)) for q in (0.01, 0.99)) if width * height < 10**7 else (None, None)
    shown = places[1].imshow(result.disparity.numpy(), cmap="turbo", vmin=low, vmax=high)
    places[1].set_title("disparity, px", fontsize=9)
    for place in places:
        place.set_axis_off()
    drawn.colorbar(shown, ax=places[1], fraction=0.046 * height / width, pad=0.02)
    return saved(drawn, path)
