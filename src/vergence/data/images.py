"""Images from files, as byte tensors (3, H, W), and the random crops used in training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.reading.pictures import read_picture

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif"})


def read_image(path: Path, longest: int = 0) -> Tensor:
    """An image file of any colour mode as RGB bytes (3, H, W). With ``longest``, a larger image is reduced by a whole
    number while it is read, to a longer side of at least that many pixels."""
    if isinstance(path, InMemory):
        return as_picture(path.value, str(path))
    return torch.from_numpy(np.array(_rgb(read_picture(path, longest)))).permute(2, 0, 1).contiguous()


def as_picture(value: Any, name: str) -> Tensor:
    """An image given in Python as RGB bytes (3, H, W): a PIL image, a NumPy array (H, W) or (H, W, channels), or a
    tensor (H, W) or (channels, H, W). Floats are in [0, 1]."""
    if isinstance(value, Image.Image):
        return torch.from_numpy(np.array(_rgb(value))).permute(2, 0, 1).contiguous()
    if not isinstance(value, Tensor | np.ndarray):
        raise VergenceError(f"{name} is a {type(value).__name__}: expected a path, an array, a tensor or a PIL picture")
    array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
    if isinstance(value, Tensor) and array.ndim == 3:
        array = np.moveaxis(array, 0, -1)
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4) or not array.size:
        expected = "(3, H, W)" if isinstance(value, Tensor) else "(H, W, 3)"
        raise VergenceError(f"{name} has the shape {tuple(value.shape)}: expected a picture, {expected}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise VergenceError(f"{name} is a picture of floats that are not from 0 to 1")
        array = (array * 255).round().astype(np.uint8)
    if array.dtype != np.uint8:
        raise VergenceError(f"{name} is a picture of {array.dtype}: expected bytes, or floats from 0 to 1")
    whole = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array)
    return torch.from_numpy(np.array(_rgb(whole))).permute(2, 0, 1).contiguous()


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode in ("I", "I;16", "I;16B", "F"):  # more than 8 bits: stretch to bytes instead of clipping
        values = np.asarray(picture, dtype=np.float64)
        top = 65535.0 if picture.mode.startswith("I") else max(float(values.max()), 1e-12)
        picture = Image.fromarray((np.clip(values / top, 0, 1) * 255).round().astype(np.uint8))
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        whole = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", whole.size, "white"), whole)
    return picture.convert("RGB")


def find_images(folder: Path) -> list[Path]:
    """The image files below a folder, sorted by name."""
    if isinstance(folder, InMemory):
        return list(folder.value)
    return sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def pictures_by_name(paths: Iterable[Path], resolved: bool = False) -> Callable[[str], Tensor | None]:
    """A function that reads an image by name, from the given paths or the file of that name; None if unreadable."""
    known = {str(path.resolve() if resolved else path): path for path in paths}

    def picture(name: str) -> Tensor | None:
        try:
            return read_image(known.get(name, Path(name)))
        except VergenceError:
            return None

    return picture


def scaled(picture: Tensor) -> Tensor:
    """An image of bytes as floats in [0, 1]."""
    return picture.float() / 255 if picture.dtype == torch.uint8 else picture


def normalised(picture: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Float images in [0, 1] of shape (..., 3, H, W), normalised per channel by mean and standard deviation."""
    shape = (-1, 1, 1)
    return (picture - picture.new_tensor(mean).view(shape)) / picture.new_tensor(std).view(shape)


def resized(picture: Tensor, height: int, width: int) -> Tensor:
    """A float image (3, H, W) resized to (3, height, width), with antialiasing."""
    if picture.shape[-2:] == (height, width):
        return picture
    return F.interpolate(picture[None], (height, width), mode="bilinear", antialias=True, align_corners=False)[0]


def fitted(picture: Tensor, longest: int = 512) -> Tensor:
    """An image scaled down so that no side exceeds ``longest``, as floats in [0, 1]."""
    height, width = picture.shape[-2:]
    share = min(longest / max(height, width), 1.0)
    return resized(scaled(picture), max(round(height * share), 1), max(round(width * share), 1))


def centre(picture: Tensor, resize: int, crop: int) -> Tensor:
    """The shorter side resized to ``resize``, then a centre crop of ``crop`` x ``crop``."""
    picture = _shorter(picture, resize, crop)
    top, left = (picture.shape[-2] - crop) // 2, (picture.shape[-1] - crop) // 2
    return picture[:, top : top + crop, left : left + crop]


def random_crop(picture: Tensor, resize: int, crop: int, generator: torch.Generator) -> Tensor:
    """The shorter side resized to ``resize``, then a random crop of ``crop`` x ``crop``."""
    picture = _shorter(picture, resize, crop)
    top, left = (int(torch.randint(0, side - crop + 1, (), generator=generator)) for side in picture.shape[-2:])
    return picture[:, top : top + crop, left : left + crop]


def _shorter(picture: Tensor, resize: int, least: int) -> Tensor:
    height, width = picture.shape[-2:]
    share = resize / min(height, width)
    return resized(picture, max(round(height * share), least), max(round(width * share), least))


def flipped(picture: Tensor, generator: torch.Generator) -> Tensor:
    """A horizontal flip with probability 0.5."""
    return picture.flip(-1) if torch.rand((), generator=generator) < 0.5 else picture


def padded_crop(picture: Tensor, pad: int, generator: torch.Generator) -> Tensor:
    """A random crop of the image's own size after padding it with zeros."""
    height, width = picture.shape[-2:]
    top, left = torch.randint(0, 2 * pad + 1, (2,), generator=generator).tolist()
    return F.pad(picture, (pad, pad, pad, pad))[:, top : top + height, left : left + width]


def area_crop(
    picture: Tensor, size: int, areas: tuple[float, float], generator: torch.Generator, ratios: tuple[float, float]
) -> Tensor:
    """A crop of random area (a fraction of the image's) and aspect ratio, resized to ``size`` x ``size``.

    A draw that does not fit the image is repeated up to ten times, as in the usual recipe; then a centre crop is used.
    """
    height, width = picture.shape[-2:]
    for _ in range(10):
        share, ratio = torch.rand(2, generator=generator).tolist()
        area = height * width * (areas[0] + share * (areas[1] - areas[0]))
        side = math.exp(math.log(ratios[0]) + ratio * math.log(ratios[1] / ratios[0]))
        w, h = round(math.sqrt(area * side)), round(math.sqrt(area / side))
        if 0 < w <= width and 0 < h <= height:
            top = int(torch.randint(0, height - h + 1, (), generator=generator))
            left = int(torch.randint(0, width - w + 1, (), generator=generator))
            return resized(picture[:, top : top + h, left : left + w], size, size)
    side_length = min(height, width)
    top, left = (height - side_length) // 2, (width - side_length) // 2
    return resized(picture[:, top : top + side_length, left : left + side_length], size, size)


def erased(picture: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Random erasing (Zhong et al., 2020): with probability ``share`` a rectangle of 2 to 40 % of the image, with an
    aspect ratio of 0.3 to 3.3, becomes zero (the mean of a normalised image)."""
    height, width = picture.shape[-2:]
    if torch.rand((), generator=generator) >= share:
        return picture
    for _ in range(100):
        area, ratio, down, across = torch.rand(4, generator=generator).tolist()
        size = height * width * (0.02 + 0.38 * area)
        side = 0.3 + (1 / 0.3 - 0.3) * ratio
        h, w = round(math.sqrt(size * side)), round(math.sqrt(size / side))
        if 0 < h < height and 0 < w < width:
            top, left = int(down * (height - h + 1)), int(across * (width - w + 1))
            picture = picture.clone()
            picture[..., top : top + h, left : left + w] = 0
            break
    return picture
