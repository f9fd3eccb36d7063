"""Depth and disparity maps from files, brought to one form: from 0 (far) to 1 (near), without gaps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.data.images import as_picture
from vergence.reading.arrays import read_npy
from vergence.reading.maps import read_pfm
from vergence.reading.pictures import read_picture

Nearest = Literal["found", "bright", "dark"]
MAPS = (".npy", ".pfm")
"""Suffixes of depth maps that are no pictures."""
ORIENTATION = 0x0112
"""Number of the EXIF field that says how a camera was held."""
FLAT = 1e-6
"""Ranges below this share of the largest value count as constant."""


def read_upright(path: Path) -> tuple[Tensor, int]:
    """A photograph as RGB bytes (3, H, W), turned as its EXIF orientation says, and that orientation (1: as stored)."""
    if isinstance(path, InMemory):
        return as_picture(path.value, str(path)), 1
    picture = read_picture(path)
    turned = ImageOps.exif_transpose(picture)
    return as_picture(turned, str(path)), int(picture.getexif().get(ORIENTATION, 1))


def read_depth(path: Path) -> Tensor:
    """A depth or disparity map (H, W) as it is stored: a picture of 8 or 16 bits, ``.npy`` or ``.pfm``; or given in
    Python. Colours are averaged; values that are not finite stay."""
    if isinstance(path, InMemory):
        values = _given(path.value, str(path))
    elif path.suffix.lower() == ".npy":
        values = read_npy(path)
    elif path.suffix.lower() == ".pfm":
        values = read_pfm(path)
    else:
        values = _grey(read_picture(path))
    values = np.asarray(values)
    if values.ndim == 3 and 1 in (values.shape[0], values.shape[-1]):
        values = values[0] if values.shape[0] == 1 else values[..., 0]
    if values.ndim == 3 and values.shape[-1] in (3, 4):
        values = values[..., :3].mean(-1)
    if values.ndim != 2 or not values.size or values.dtype.kind not in "fiub":
        raise VergenceError(f"{path} has the shape {values.shape} of {values.dtype}: expected a depth map, (H, W)")
    return torch.from_numpy(values.astype(np.float32))


def _given(value: Any, name: str) -> Any:
    if isinstance(value, Image.Image):
        return _grey(value)
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return value
    raise VergenceError(f"{name} is a {type(value).__name__}: expected a path, an array, a tensor or a PIL picture")


def _grey(picture: Image.Image) -> Any:
    if picture.mode in ("I", "I;16", "I;16B", "I;16L", "F", "L", "1"):
        return np.asarray(picture).astype(np.float32)
    if picture.mode == "LA":
        return np.asarray(picture)[..., 0]
    return np.asarray(picture.convert("RGB")).astype(np.float32).mean(-1)


@dataclass(frozen=True, eq=False)
class NearMap:
    """A depth map as networks read it."""

    values: Tensor
    """(H, W), from 0 (far) to 1 (near); 0.5 everywhere for a map without information."""
    nearest: Literal["bright", "dark"]
    """What was near in the file."""
    flat: bool
    """Whether the map has one value only."""
    unknown: float
    """Share of pixels without a value, which were filled."""


def near_map(depth: Tensor, name: str, nearest: Nearest = "found") -> NearMap:
    """A map as stored, brought to the common form. Unknown pixels (not finite; 0 where all other values are far from 0)
    are filled from their neighbours. ``name`` is what an error calls it."""
    known = depth.isfinite()
    values = torch.where(known, depth, 0).float()
    some = values[known & (values != 0)]
    if len(some) and float(some.abs().min()) > 0.05 * float(some.abs().median()):
        known &= values != 0  # sensors write 0 where they saw nothing
    if not known.any():
        if depth.isfinite().any():
            known = depth.isfinite()
        else:
            raise VergenceError(f"{name} has no finite value: expected a depth map")
    unknown = 1 - float(known.float().mean())
    some = values[known]
    low, high = (float(np.quantile(some.numpy(), q)) for q in (0.005, 0.995))
    if high - low <= FLAT * max(abs(high), abs(low), 1e-6):
        low, high = float(some.min()), float(some.max())
    if high - low <= FLAT * max(abs(high), abs(low), 1e-6):
        return NearMap(torch.full_like(values, 0.5), "bright" if nearest == "found" else nearest, True, unknown)
    bright = _filled(((values - low) / (high - low)).clamp(0, 1), known)
    way: Literal["bright", "dark"] = ("bright" if looks_bright(bright) else "dark") if nearest == "found" else nearest
    return NearMap(bright if way == "bright" else 1 - bright, way, False, unknown)


def looks_bright(values: Tensor) -> bool:
    """Whether near is bright in a map (H, W) from 0 to 1, judged by where near things are in photographs: at the bottom
    rather than on top, and in the middle rather than at both sides."""
    small = F.adaptive_avg_pool2d(values[None, None], 8)[0, 0]
    below = float(small[6:].mean() - small[:2].mean())
    inside = float(small[2:6, 2:6].mean() - (small[:5, 0].mean() + small[:5, 7].mean()) / 2)
    return below + 0.5 * inside >= 0


def _filled(values: Tensor, known: Tensor) -> Tensor:
    """Unknown pixels from means of known ones around them, at ever larger scales."""
    if known.all():
        return values
    out, have = torch.where(known, values, 0), known.float()
    total, weight = out[None, None], have[None, None]
    size = values.shape
    while not bool((have > 0).all()):
        total, weight = (F.avg_pool2d(t, 2, ceil_mode=True, count_include_pad=False) for t in (total, weight))
        share = F.interpolate(weight, size, mode="nearest")[0, 0]
        mean = F.interpolate(total / weight.clamp_min(1e-9), size, mode="nearest")[0, 0]
        out = torch.where((have == 0) & (share > 0), mean, out)
        have = torch.where(share > 0, 1.0, have)
    return out


def fitted_depth(
    depth: Tensor, height: int, width: int, depth_name: str, image_name: str, most: float = 0.05
) -> Tensor:
    """A map (H, W) resized to a photograph's size; refused if its sides are in another ratio by more than ``most``."""
    own = depth.shape
    if own == (height, width):
        return depth
    if abs(own[1] * height / (own[0] * width) - 1) > most:
        raise VergenceError(
            f"{depth_name} has {own[1]} x {own[0]} pixels and {image_name} {width} x {height}: expected a map of the "
            "same view, with sides in the same ratio"
        )
    return F.interpolate(depth[None, None], (height, width), mode="bilinear", align_corners=False)[0, 0]
