"""Pictures: a fixed list of formats, none of which runs another program, and bounded sizes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import IO

from PIL import Image, UnidentifiedImageError

from vergence.core.errors import VergenceError
from vergence.reading.budget import within
from vergence.reading.files import open_file, refusing

FORMATS = {
    "PNG": ".png",
    "JPEG": ".jpg",
    "BMP": ".bmp",
    "WEBP": ".webp",
    "PPM": ".ppm",
    "TIFF": ".tif",
    "GIF": ".gif",
}
"""Formats that are opened, with the suffix of each."""
WHAT = "a readable picture (PNG, JPEG, WebP, BMP, PPM, TIFF or GIF)"
_pillow = threading.Lock()


def read_picture(path: Path, longest: int = 0) -> Image.Image:
    """A picture, decoded to its end. With ``longest``, one that is larger is reduced by a whole number to at least that
    length, for a JPEG while it is decoded."""
    with open_file(path, WHAT) as file:
        return decode_picture(file, path, longest)


def picture_size(path: Path) -> tuple[int, int]:
    """Height and width of a picture as it is stored, from the beginning of its file."""
    with open_file(path, WHAT) as file, refusing(path, WHAT), _opened(file, path) as picture:
        within_picture(picture.width, picture.height, path)
        return picture.height, picture.width


def decode_picture(file: IO[bytes], source: object, longest: int = 0) -> Image.Image:
    """As :func:`read_picture`, from an open file; ``source`` is what errors call it."""
    with refusing(source, WHAT), _opened(file, source) as picture:
        form = picture.format
        within_picture(picture.width, picture.height, source)
        factor = max(picture.size) // longest if longest else 1
        if factor > 1 and form == "JPEG":
            picture.draft(None, (picture.width // factor, picture.height // factor))
            factor = max(picture.size) // longest
        picture.load()
        result = picture.reduce(factor) if factor > 1 and picture.mode not in ("P", "1") else picture.copy()
    result.format = form
    return result


def within_picture(width: int, height: int, source: object) -> None:
    """Refuse pixels, or sides in a ratio, beyond the budget."""
    if width < 1 or height < 1:
        raise VergenceError(f"{source} is a picture without pixels")
    within("pixels", width * height, source)
    within("aspect", max(width, height) / min(width, height), source)


def _opened(file: IO[bytes], source: object) -> Image.Image:
    """Open without Pillow's own limit on pixels, for which the budget stands."""
    with _pillow:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file, formats=tuple(FORMATS))
        except UnidentifiedImageError:  # its message shows the open file, which says nothing to a reader
            raise VergenceError(f"{source} is not {WHAT}") from None
        finally:
            Image.MAX_IMAGE_PIXELS = before
