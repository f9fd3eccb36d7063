"""Pictures embedded in HTML pages as data URIs."""

from __future__ import annotations

import base64
import io

import torch
from PIL import Image
from torch import Tensor

from vergence.data.images import scaled


def data_uri(kind: str, content: bytes) -> str:
    """The bytes of a picture file (``png``, ``jpeg``) as a data URI."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def thumbnail(picture: Tensor, height: int, width: int | None = None) -> str:
    """A picture (3, H, W) as the data URI of a JPEG with this height, or smaller to keep within ``width``."""
    pixels = (scaled(picture).clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    image = Image.fromarray(pixels)
    factor = height / image.height
    if width is not None:
        factor = min(factor, width / image.width)
    size = max(round(image.width * factor), 1), max(round(image.height * factor), 1)
    buffer = io.BytesIO()
    image.resize(size).save(buffer, "JPEG", quality=88)
    return data_uri("jpeg", buffer.getvalue())
