"""Fonts to set documents with: those that come with Matplotlib, which may be passed on, or a folder of the user's."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import ImageFont

from vergence.core.errors import VergenceError

Kind = Literal["sans", "serif", "mono"]
LARGEST = 512
"""Pixels per em that a font may be asked for."""


class Face(NamedTuple):
    """One style of a font family."""

    file: str
    """The path of a TrueType or OpenType file; a bare name is one of Matplotlib's."""
    kind: Kind
    bold: bool = False
    italic: bool = False

    @property
    def path(self) -> Path:
        import matplotlib

        own = Path(self.file)
        return own if own.is_absolute() else Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{self.file}.ttf"


TRAINING = (
    Face("DejaVuSans", "sans"), Face("DejaVuSans-Bold", "sans", bold=True),
    Face("DejaVuSans-Oblique", "sans", italic=True), Face("DejaVuSans-BoldOblique", "sans", bold=True, italic=True),
    Face("DejaVuSerif", "serif"), Face("DejaVuSerif-Bold", "serif", bold=True),
    Face("DejaVuSerif-Italic", "serif", italic=True), Face("DejaVuSansMono", "mono"),
    Face("DejaVuSansMono-Bold", "mono", bold=True), Face("cmr10", "serif"), Face("cmb10", "serif", bold=True),
    Face("cmtt10", "mono"),
)  # fmt: skip
HELD_OUT = (
    Face("STIXGeneral", "serif"), Face("STIXGeneralBol", "serif", bold=True),
    Face("STIXGeneralItalic", "serif", italic=True), Face("cmss10", "sans"),
)  # fmt: skip
"""Families that training data does not use, so that tests can: a Times-like one and a narrow sans serif."""
COMPUTER_MODERN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .,:;!?()[]'-+=/%&#@*")
"""What Computer Modern has in the places where other fonts have it."""


def covers(face: Face, text: str) -> bool:
    """Whether a face has all characters of a text."""
    return not face.file.startswith("cm") or COMPUTER_MODERN.issuperset(text)


@cache
def opened(face: Face, size: int) -> ImageFont.FreeTypeFont:
    """A face at ``size`` pixels per em."""
    if not 1 <= size <= LARGEST:
        raise VergenceError(f"a font is set at 1 to {LARGEST} pixels, got {size}")
    try:
        return ImageFont.truetype(str(face.path), size)
    except OSError:
        raise VergenceError(f"{face.path} is not a font that can be read: expected TrueType or OpenType") from None


def in_folder(folder: Path) -> tuple[Face, ...]:
    """The fonts of a folder; styles are read from their names."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".ttf", ".otf"))
    if not files:
        raise VergenceError(f"{folder} has no fonts: expected .ttf or .otf files")
    faces = []
    for path in files:
        opened_once = opened(Face(str(path.resolve()), "sans"), 16)
        family, style = (part or "" for part in opened_once.getname())
        kind: Kind = "mono" if "mono" in family.lower() else "serif" if "serif" in family.lower() else "sans"
        kind = "sans" if "sans" in family.lower() and kind == "serif" else kind
        slanted = any(word in style.lower() for word in ("italic", "oblique"))
        faces.append(Face(str(path.resolve()), kind, "bold" in style.lower(), slanted))
    return tuple(faces)
