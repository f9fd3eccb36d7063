"""Maps written as files that other programs read: PFM, ``.flo`` and PNG of 16 bits."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from vergence.core.files import replacing
from vergence.reading.maps import FLO_TAG

_PNG = b"\x89PNG\r\n\x1a\n"


def write_pfm(path: Path, values: Any) -> Path:
    """Write float32 (H, W) or (H, W, 3) as PFM."""
    array = np.ascontiguousarray(np.asarray(values)[::-1], "<f4")  # rows are stored from the bottom
    height, width = array.shape[:2]
    header = f"{'PF' if array.ndim == 3 else 'Pf'}\n{width} {height}\n-1.0\n"
    return _written(path, header.encode("ascii") + array.tobytes())


def write_flo(path: Path, flow: Any) -> Path:
    """Write optical flow (H, W, 2) in Middlebury's format."""
    array = np.ascontiguousarray(flow, "<f4")
    height, width, _ = array.shape
    return _written(path, struct.pack("<fii", FLO_TAG, width, height) + array.tobytes())


def write_png16(path: Path, values: Any) -> Path:
    """Write whole numbers from 0 to 65535, (H, W) or (H, W, 3), as a PNG of 16 bits."""
    array = np.ascontiguousarray(np.clip(np.rint(values), 0, 65535), ">u2")
    height, width = array.shape[:2]
    colour = 2 if array.ndim == 3 else 0
    rows = array.reshape(height, -1).view(np.uint8)
    packed = zlib.compress(np.concatenate([np.zeros((height, 1), np.uint8), rows], 1).tobytes(), 6)
    header = struct.pack(">IIBBBBB", width, height, 16, colour, 0, 0, 0)
    return _written(
        path, _PNG + b"".join(_chunk(*part) for part in ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b"")))
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _written(path: Path, content: bytes) -> Path:
    with replacing(path) as partial:
        partial.write_bytes(content)
    return path
