"""Cut-outs: pictures with an alpha channel, shown on white to a network and blended into a background for a reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from vergence.contract.inputs import InMemory
from vergence.core.errors import VergenceError
from vergence.data.images import as_picture, resized
from vergence.reading.pictures import read_picture

Fill = Literal["pyramid", "telea", "biharmonic"]
"""How the hole that an object leaves is filled."""
LEAST = 2
"""Least width and height of what is seen of a cut-out, in pixels."""
PLAIN = 12
"""Largest difference of the colours along a plain border, in steps of 255."""


def read_cutout(path: Path, longest: int = 0) -> Tensor:
    """A cut-out as bytes (4, H, W), trimmed to what is seen of it: from a file with an alpha channel, or of an object
    on a plain ground of one colour. ``longest`` reduces larger pictures while they are read."""
    rgba = _rgba(path, longest)
    alpha = rgba[3]
    if bool((alpha >= 250).all()):
        rgba = torch.cat([rgba[:3], _against_plain(rgba[:3], path).unsqueeze(0)])
    return trimmed(rgba, path)


def _rgba(path: Path, longest: int) -> Tensor:
    if isinstance(path, InMemory):
        value: Any = path.value
        if isinstance(value, Tensor) and value.dim() == 3 and value.shape[0] == 4:
            value = value.detach().cpu().permute(1, 2, 0).numpy()
        if isinstance(value, np.ndarray) and value.ndim == 3 and value.shape[2] == 4:
            if value.dtype.kind == "f" and value.size and 0 <= value.min() <= value.max() <= 1:
                value = (value * 255).round().astype(np.uint8)
            if value.dtype == np.uint8 and value.size:
                return torch.from_numpy(np.ascontiguousarray(value)).permute(2, 0, 1).contiguous()
        if not isinstance(value, Image.Image):
            picture = as_picture(value, str(path))
            return torch.cat([picture, torch.full_like(picture[:1], 255)])
        image = value
    else:
        image = read_picture(path, longest)
    whole = image if image.mode == "RGBA" else image.convert("RGBA")
    return torch.from_numpy(np.array(whole)).permute(2, 0, 1).contiguous()


def trimmed(rgba: Tensor, name: object) -> Tensor:
    """The part of a cut-out (4, H, W) that is seen."""
    seen = rgba[3] >= 16
    rows, columns = seen.any(1).nonzero(), seen.any(0).nonzero()
    if not len(rows):
        raise VergenceError(f"{name} is wholly transparent: expected a cut-out that shows something")
    top, bottom, left, right = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
    if min(bottom - top, right - left) < LEAST:
        raise VergenceError(f"{name} shows {right - left} x {bottom - top} pixels: expected at least {LEAST} x {LEAST}")
    return rgba[:, top:bottom, left:right].contiguous()


def _against_plain(picture: Tensor, name: object) -> Tensor:
    """The alpha channel (H, W) of an object on a ground of one colour, which the whole border shows."""
    border = torch.cat([picture[:, 0], picture[:, -1], picture[:, :, 0], picture[:, :, -1]], 1).float()
    ground = border.median(1).values
    # An object may be cut by the border, so a fifth of it may differ.
    plain = (border - ground.unsqueeze(1)).abs().amax(0) <= PLAIN
    away = (picture.float() - ground.view(3, 1, 1)).abs().amax(0)
    if float(plain.float().mean()) < 0.8 or float(away.max()) <= 2 * PLAIN:
        raise VergenceError(
            f"{name} has no alpha channel and no plain ground: expected a cut-out, a PNG with transparency or an "
            "object on white"
        )
    return ((away - PLAIN) / PLAIN).clamp(0, 1).mul(255).round().to(torch.uint8)


def on_white(rgba: Tensor, side: int, padding: tuple[float, float, float, float] = (0, 0, 0, 0)) -> Tensor:
    """A cut-out (4, H, W) of bytes in the middle of a white square (3, side, side), from 0 to 1. ``padding`` are shares
    of its longer side that are added at left, right, top and bottom before it is made square."""
    height, width = rgba.shape[-2:]
    longest = max(height, width)
    left, right, top, bottom = (round(share * longest) for share in padding)
    square = max(width + left + right, height + top + bottom)
    extra_x, extra_y = square - width - left - right, square - height - top - bottom
    left, top = left + extra_x // 2, top + extra_y // 2
    alpha = rgba[3:].float() / 255
    white = 1 - alpha + alpha * rgba[:3].float() / 255
    spread = (left, square - width - left, top, square - height - top)
    return resized(F.pad(white, spread, value=1.0), side, side)


def pasted(background: Tensor, rgba: Tensor, box: tuple[float, float, float, float]) -> Tensor:
    """A background (3, H, W) of bytes with a cut-out (4, h, w) blended into a box (left, top, width, height): as large
    as fits, in the middle, on the lower edge. What is outside the picture is cut."""
    high, wide = background.shape[-2:]
    x, y, width, height = box
    share = min(width / rgba.shape[2], height / rgba.shape[1])
    w, h = max(round(share * rgba.shape[2]), 1), max(round(share * rgba.shape[1]), 1)
    left, top = round(x + (width - w) / 2), round(y + height - h)
    alpha = resized(rgba[3:].float() / 255, h, w)
    # Colours are weighed by alpha while they are resized: those of transparent pixels must not bleed in.
    colour = resized(rgba[:3].float() * rgba[3:].float() / 255, h, w)
    out = background.clone()
    rows, columns = slice(max(top, 0), min(top + h, high)), slice(max(left, 0), min(left + w, wide))
    if rows.start >= rows.stop or columns.start >= columns.stop:
        return out
    inner = (..., slice(rows.start - top, rows.stop - top), slice(columns.start - left, columns.stop - left))
    under = background[:, rows, columns].float()
    out[:, rows, columns] = (under * (1 - alpha[inner]) + colour[inner]).round().clamp(0, 255).to(torch.uint8)
    return out


# Holes ----------------------------------------------------------------------------------------------------------------


def filled(picture: Tensor, hole: Tensor) -> Tensor:
    """A picture (3, H, W) of bytes whose hole (H, W) is filled from around it, coarse to fine: every missing pixel gets
    the mean of the known ones in the smallest surrounding cell of a pyramid that has some. Fast and smooth; it invents
    no structure."""
    known = (~hole.bool()).float()[None, None]
    if not bool(known.any()):
        return torch.full_like(picture, 128)
    levels = [(picture.float()[None] * known, known)]
    while levels[-1][1].shape[-1] > 1 or levels[-1][1].shape[-2] > 1:
        levels.append(tuple(F.avg_pool2d(each, 2, ceil_mode=True) for each in levels[-1]))  # type: ignore[arg-type]
    whole = levels[-1][0] / levels[-1][1].clamp(min=1e-12)
    for colours, weights in reversed(levels[:-1]):
        up = F.interpolate(whole, colours.shape[-2:], mode="bilinear", align_corners=False)
        share = weights.clamp(max=1)
        whole = torch.where(weights > 0, colours / weights.clamp(min=1e-12), up) * share + up * (1 - share)
    out = torch.where(hole.bool(), whole[0], picture.float())
    return out.round().clamp(0, 255).to(torch.uint8)


def inpainted(picture: Tensor, hole: Tensor, method: Fill = "pyramid") -> Tensor:
    """A picture (3, H, W) of bytes with its hole (H, W) filled: by :func:`filled`, by scikit-image's ``biharmonic``
    smoothing, or by OpenCV's method of ``telea`` (2004), which needs the extra ``opencv``. All of them stand in for the
    network that the paper removes objects with; none invents what was behind."""
    if method == "pyramid" or not bool(hole.any()):
        return filled(picture, hole)
    pixels, holes = picture.permute(1, 2, 0).contiguous().numpy(), hole.bool().numpy()
    painted: Any
    if method == "biharmonic":
        from skimage import restoration

        smooth: Any = restoration.inpaint_biharmonic
        painted = (smooth(pixels, holes, channel_axis=-1).clip(0, 1) * 255).round().astype(np.uint8)
    else:
        try:
            import cv2
        except ImportError:
            raise VergenceError("the method telea needs OpenCV (pip install 'vergence[opencv]')") from None
        library: Any = cv2
        painted = library.inpaint(pixels, holes.astype(np.uint8), 3, library.INPAINT_TELEA)
    return torch.from_numpy(painted).permute(2, 0, 1).contiguous()


def grown(mask: Tensor, pixels: int) -> Tensor:
    """A mask (H, W) widened by a number of pixels: outlines of annotated masks miss the soft edge of an object."""
    if pixels <= 0:
        return mask.bool()
    return F.max_pool2d(mask.float()[None, None], 2 * pixels + 1, 1, pixels)[0, 0] > 0
