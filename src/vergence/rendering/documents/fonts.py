"""Fonts to set documents with: those that come with Matplotlib, more from packages of the extra ``fonts`` (all of them
under free licences), or a folder of the user's."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
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
    """The path of a TrueType or OpenType file; a bare name is one of Matplotlib's, or of the package's."""
    kind: Kind
    bold: bool = False
    italic: bool = False
    package: str = ""
    """The installed module that provides it."""

    @property
    def path(self) -> Path:
        import matplotlib

        if Path(self.file).is_absolute():
            return Path(self.file)
        if self.package:
            spec = find_spec(self.package)
            if spec is None or spec.origin is None:
                raise VergenceError(f"the font {self.file} needs its package: pip install 'vergence[fonts]'")
            return Path(spec.origin).parent / "files" / f"{self.file}.ttf"
        return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{self.file}.ttf"


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
MORE = (
    Face("Lato-Regular", "sans", package="font_lato"), Face("Lato-Bold", "sans", bold=True, package="font_lato"),
    Face("Lato-Italic", "sans", italic=True, package="font_lato"),
    Face("SourceSansPro-Regular", "sans", package="font_source_sans_pro"),
    Face("SourceSansPro-Bold", "sans", bold=True, package="font_source_sans_pro"),
    Face("Manrope-Regular", "sans", package="font_manrope"),
    Face("SourceSerifPro-Regular", "serif", package="font_source_serif_pro"),
    Face("SourceSerifPro-Bold", "serif", bold=True, package="font_source_serif_pro"),
    Face("SourceSerifPro-It", "serif", italic=True, package="font_source_serif_pro"),
    Face("Caladea-Regular", "serif", package="font_caladea"),
    Face("Caladea-Bold", "serif", bold=True, package="font_caladea"),
    Face("Caladea-Italic", "serif", italic=True, package="font_caladea"),
)  # fmt: skip
"""Faces of the packages that the extra ``fonts`` installs."""
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
