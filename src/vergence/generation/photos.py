"""Photographs as numbers and back: grey or colour, 8 or 16 bits, with or without transparency."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.core.files import replacing
from vergence.reading.pictures import read_picture

LUMA = (0.299, 0.587, 0.114)
DEEP = ("I", "I;16", "I;16B", "I;16L")


def luminance(picture: Tensor) -> Tensor:
    """Luminance (1, H, W) from 0 to 1 of bytes or floats up to 255 (3, H, W), as in JPEG."""
    return (picture.float() * torch.tensor(LUMA).view(3, 1, 1)).sum(0, keepdim=True) / 255


@dataclass(frozen=True)
class Photo:
    """A picture from 0 to 1."""

    pixels: Tensor
    """(1, H, W) grey, or (3, H, W) red, green, blue."""
    alpha: Tensor | None
    """Opacity (1, H, W), if the picture has it."""
    bits: int
    """8 or 16 per channel; those of 16-bit colour pictures are read as 8."""


def open_photo(path: Path) -> Photo:
    """A picture file, or a picture given in Python."""
    if not isinstance(path, InMemory):
        return _from_pillow(read_picture(path))
    if isinstance(path.value, Image.Image):
        return _from_pillow(path.value)
    return _from_array(path.value, str(path))


def _from_pillow(picture: Image.Image) -> Photo:
    if picture.mode in (*DEEP, "F"):
        values = torch.from_numpy(np.asarray(picture, dtype=np.float32).copy())
        top = 65535.0 if picture.mode in DEEP else max(float(values.max()), 1.0)
        return Photo((values / top).clamp(0, 1)[None], None, 16)
    clear = picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info
    grey = picture.mode in ("L", "LA", "1")
    whole = picture.convert(("LA" if grey else "RGBA") if clear else ("L" if grey else "RGB"))
    array = torch.from_numpy(np.array(whole)).float().div(255)
    array = array[..., None] if array.dim() == 2 else array
    planes = array.permute(2, 0, 1).contiguous()
    return Photo(planes[:-1], planes[-1:], 8) if clear else Photo(planes, None, 8)


def _from_array(value: Any, name: str) -> Photo:
    if not isinstance(value, Tensor | np.ndarray):
        raise VergenceError(f"{name} is a {type(value).__name__}: expected a path, an array, a tensor or a PIL picture")
    array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    if array.ndim == 3 and isinstance(value, Tensor):
        array = np.moveaxis(array, 0, -1)
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[-1] not in (1, 2, 3, 4) or not array.size:
        expected = "(3, H, W)" if isinstance(value, Tensor) else "(H, W, 3)"
        raise VergenceError(f"{name} has the shape {tuple(value.shape)}: expected a picture, {expected}")
    tops = {"uint8": 255.0, "uint16": 65535.0, "bool": 1.0}
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise VergenceError(f"{name} is a picture of floats that are not from 0 to 1")
    elif array.dtype.name not in tops:
        raise VergenceError(f"{name} is a picture of {array.dtype}: expected uint8, uint16, or floats from 0 to 1")
    scaled = array.astype(np.float32) / tops.get(array.dtype.name, 1.0)
    planes = torch.from_numpy(np.ascontiguousarray(np.moveaxis(scaled, -1, 0)))
    bits = 16 if array.dtype.name == "uint16" else 8
    return Photo(planes[:-1], planes[-1:], bits) if len(planes) in (2, 4) else Photo(planes, None, bits)


def write_photo(path: Path, pixels: Tensor, alpha: Tensor | None = None, bits: int = 8) -> Path:
    """Write a picture (1 or 3, H, W) from 0 to 1 as PNG; grey pictures keep their 16 bits."""
    planes = torch.cat([pixels, alpha]) if alpha is not None and alpha.numel() else pixels
    if bits == 16 and len(planes) == 1:
        deep = (planes[0].clamp(0, 1) * 65535).round().numpy().astype(np.uint16)
        picture = Image.fromarray(deep)
    else:
        array = (planes.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
        mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[len(planes)]
        picture = Image.fromarray(np.ascontiguousarray(array[..., 0] if len(planes) == 1 else array), mode)
    with replacing(path) as partial:
        picture.save(partial, "PNG")
    return path


def split(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Luminance (1, H, W) and the rest of a picture: red and blue without luminance (2, H, W), or nothing of grey."""
    if len(pixels) == 1:
        return pixels, pixels[:0]
    luma = (pixels * torch.tensor(LUMA, dtype=pixels.dtype).view(3, 1, 1)).sum(0, keepdim=True)
    return luma, pixels[[0, 2]] - luma


def joined(luma: Tensor, rest: Tensor) -> Tensor:
    """The inverse of :func:`split`."""
    if not len(rest):
        return luma
    red, blue = rest[:1] + luma, rest[1:] + luma
    return torch.cat([red, (luma - LUMA[0] * red - LUMA[2] * blue) / LUMA[1], blue])
