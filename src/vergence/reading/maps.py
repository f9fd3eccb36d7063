"""Maps of numbers, one or several for each pixel: PFM, Middlebury's ``.flo`` and PNG of 16 bits."""

from __future__ import annotations

import io
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from vergence.reading.budget import within_expansion
from vergence.reading.files import read_bytes, refusing
from vergence.reading.pictures import within_picture

FLO_TAG = 202021.25
"""The first number of a .flo file."""
_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Channels by the colour type of a PNG."""


def read_pfm(path: Path) -> Any:
    """A PFM file as float32 (H, W) or (H, W, 3), its first row on top."""
    content = read_bytes(path, "a PFM map")
    with refusing(path, "a complete PFM map"):
        header = re.match(rb"(P[Ff])\s+(\d{1,9})\s+(\d{1,9})\s+(-?\d[\d.eE+-]*)\s", content)
        if header is None:
            raise ValueError("it does not begin with PF or Pf, a width, a height and a scale")
        width, height = int(header[2]), int(header[3])
        channels = 3 if header[1] == b"PF" else 1
        within_picture(width, height, path)
        order = "<f4" if float(header[4]) < 0 else ">f4"
        values = _numbers(content[header.end() :], order, height * width * channels)
    shape = (height, width, 3) if channels == 3 else (height, width)
    return np.ascontiguousarray(values.reshape(shape)[::-1], np.float32)  # rows are stored from the bottom


def read_flo(path: Path) -> Any:
    """A .flo file as float32 (H, W, 2), motion to the right and down in pixels; unknown pixels are beyond 1e9."""
    content = read_bytes(path, "a .flo file of optical flow")
    with refusing(path, "a complete .flo file of optical flow"):
        tag, width, height = struct.unpack("<fii", content[:12])
        if tag != np.float32(FLO_TAG):
            raise ValueError(f"its first number is {tag:g}, not {FLO_TAG}")
        within_picture(width, height, path)
        values = _numbers(content[12:], "<f4", height * width * 2)
    return values.reshape(height, width, 2).astype(np.float32)


def _numbers(body: bytes, kind: str, count: int) -> Any:
    if len(body) < 4 * count:
        raise ValueError(f"it has {len(body) // 4} numbers where its header promises {count}")
    return np.frombuffer(body, kind, count)


def read_png16(path: Path) -> Any:
    """A PNG of 16 bits as uint16 (H, W) or (H, W, channels), as KITTI stores disparity and flow. One of 8 bits is read
    too, as it is. (Pillow cuts colours of 16 bits to 8.)"""
    content = read_bytes(path, "a PNG map")
    with refusing(path, "a complete PNG map"):
        if not content.startswith(_PNG):
            raise ValueError("it is not a PNG file")
        width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", content[16:29])
        within_picture(width, height, path)
        if depth not in (8, 16) or colour not in _CHANNELS or interlaced:
            raise ValueError(f"expected 8 or 16 bits, no palette and no interlacing, got {depth} bits of kind {colour}")
        channels = _CHANNELS[colour]
        bytes_per_pixel = channels * depth // 8
        row = width * bytes_per_pixel
        within_expansion(height * (row + 1), len(content), path)
        packed = b"".join(_chunks(content, b"IDAT"))
        rows = zlib.decompressobj().decompress(packed, height * (row + 1))
        if len(rows) < height * (row + 1):
            raise ValueError("its pixels end too early")
        filtered = np.frombuffer(rows, np.uint8).reshape(height, row + 1)
        if filtered[:, 0].max() > 4:
            raise ValueError(f"a row has the unknown filter {filtered[:, 0].max()}")
        if filtered[:, 0].max() > 2:
            return _by_ffmpeg(content)
        plain = _unfiltered(filtered, bytes_per_pixel)
    values = plain.reshape(height, width, channels, depth // 8)
    whole = values[..., 0].astype(np.uint16) * 256 + values[..., 1] if depth == 16 else values[..., 0].astype(np.uint16)
    return whole[..., 0] if channels == 1 else whole


def _chunks(content: bytes, kind: bytes) -> list[bytes]:
    found, at = [], len(_PNG)
    while at + 8 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        if at + 12 + length > len(content):
            raise ValueError("it ends in the middle of a chunk")
        if content[at + 4 : at + 8] == kind:
            found.append(content[at + 8 : at + 8 + length])
        at += 12 + length
    return found


def _unfiltered(rows: Any, step: int) -> Any:
    """Pixels of PNG rows whose filters add the pixel on the left or the row above."""
    plain = np.zeros((len(rows), rows.shape[1] - 1), np.uint8)
    above = np.zeros(rows.shape[1] - 1, np.uint8)
    for number, row in enumerate(rows):
        kind, values = int(row[0]), row[1:]
        if kind == 1:
            values = np.add.accumulate(values.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)
        elif kind == 2:
            values = values + above
        plain[number] = above = values
    return plain


def _by_ffmpeg(content: bytes) -> Any:
    """Pixels of a complete PNG, by FFmpeg's library: filters that predict pixel by pixel are slow in Python."""
    import av

    container: Any = av.open(io.BytesIO(content), format="png_pipe")
    with container:
        return next(container.decode(video=0)).to_ndarray().astype(np.uint16)
