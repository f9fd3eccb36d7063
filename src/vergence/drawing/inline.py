"""Pictures inside a page: small files written into the HTML itself, so that it needs nothing else."""

from __future__ import annotations

import base64
import io

import torch
from PIL import Image
from torch import Tensor

from vergence.data.images import scaled


def data_uri(kind: str, content: bytes) -> str:
    """The bytes of a picture file (``png``, ``jpeg``) as an address."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def thumbnail(picture: Tensor, height: int, width: int | None = None) -> str:
    """A picture (3, H, W) as the address of a small JPEG: of this height, or smaller if it would be wider than that."""
    pixels = (scaled(picture).clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    image = Image.fromarray(pixels)
    factor = height / image.height
    if width is not None:
        factor = min(factor, width / image.width)
    size = max(round(image.width * factor), 1), max(round(image.height * factor), 1)
    buffer = io.BytesIO()
    image.resize(size).save(buffer, "JPEG", quality=88)
    return data_uri("jpeg", buffer.getvalue())
