"""Masks over pictures: what is outside dimmed, the outline drawn; and cut out with an alpha channel."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.files import replacing

COLOUR = (255, 64, 48)
"""Of an outline."""


def outlined(picture: Tensor, mask: Tensor, dimmed: float = 0.45, colour: tuple[int, int, int] = COLOUR) -> Tensor:
    """A picture of bytes (3, H, W) whose pixels outside a mask (H, W) are dimmed to a share of their brightness and
    paler, with the mask's outline, which grows with the picture."""
    inside = mask.bool()
    bright = picture.float()
    grey = bright.mean(0, keepdim=True)
    out = torch.where(inside, bright, dimmed * (0.5 * bright + 0.5 * grey))
    wide = max(round(max(mask.shape) / 300), 1)
    soft = inside.float()[None, None]
    grown = F.max_pool2d(soft, 2 * wide + 1, 1, wide)[0, 0] > 0
    line = torch.tensor(colour, dtype=torch.float32).view(3, 1, 1)
    return torch.where(grown & ~inside, line, out).round().clamp(0, 255).to(torch.uint8)


def write_picture(path: Path, picture: Tensor) -> Path:
    """Write bytes (H, W), (3, H, W), or (4, H, W) with alpha, as PNG."""
    from PIL import Image

    array = picture.numpy() if picture.dim() == 2 else picture.permute(1, 2, 0).contiguous().numpy()
    with replacing(path) as partial:
        Image.fromarray(array).save(partial, "PNG")
    return path
