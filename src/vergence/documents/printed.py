"""Rendered words and lines for training and test, with the extent of every character; see
:mod:`vergence.rendering.documents`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.rendered import rendered
from vergence.documents.lines import TextSample
from vergence.rendering.documents import text
from vergence.rendering.documents.fonts import HELD_OUT, MORE, TRAINING, Face, covers
from vergence.rendering.documents.paper import Wear, turned, worn
from vergence.rendering.documents.typeset import Line, Style, line, random_style
from vergence.rendering.things import choice, uniform

Kind = Literal["words", "numbers", "lines"]
CODE = (__name__, *(f"vergence.rendering.documents.{name}" for name in ("fonts", "paper", "text", "typeset")))
TIMES = tuple(face for face in HELD_OUT if face.file.startswith("STIX"))
"""Held-out faces that lines for starter weights use: with them, the narrow sans serif alone is held out."""
NARROW = tuple(face for face in HELD_OUT if face not in TIMES)
CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"
FREQUENT = "eeeetttaaooiinnsshhrrddlluccmmwwffggyyppbbvkjxqz"
MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~€£°"
LONGEST = 64
"""Characters of a rendered text."""


@dataclass(frozen=True)
class Printed:
    """Rendered texts in memory."""

    images: Tensor
    """Bytes (N, height, W); a text fills the first columns."""
    widths: Tensor
    texts: tuple[str, ...]
    extents: Tensor
    """Columns (N, LONGEST, 2) in which each character begins and ends."""

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> TextSample:
        width, own = int(self.widths[index]), self.texts[index]
        return TextSample(
            f"rendered-{index}", self.images[index, None, :, :width], own, self.extents[index, : len(own)].float()
        )


def printed(kind: Kind, count: int, split: str, height: int, width: int, wear: float, more: bool = False) -> Printed:
    """Rendered words of 2 to 8 characters, stretched to ``width``; or lines, up to ``width`` columns wide, with
    ``more`` fonts than those that always come along. Fonts of the test are not those of training."""
    asked = {"kind": kind, "count": count, "split": split, "size": (height, width), "wear": wear, "more": more}
    tensors = rendered(f"printed-{kind}", asked, CODE, lambda: _render(kind, count, split, height, width, wear, more))
    codes, texts, at = tensors["codes"].tolist(), [], 0
    for length in tensors["lengths"].tolist():
        texts.append("".join(map(chr, codes[at : at + length])))
        at += length
    return Printed(tensors["images"], tensors["widths"], tuple(texts), tensors["extents"])


def _render(kind: Kind, count: int, split: str, height: int, width: int, wear: float, more: bool) -> dict[str, Tensor]:
    images = np.zeros((count, height, width), np.uint8)
    extents = torch.full((count, LONGEST, 2), torch.nan, dtype=torch.float16)
    widths, texts = [], []
    for number in range(count):
        source = generator("printed", kind, split, number)
        drawn, own, places = _word(source, kind, split, height, width, wear) if kind != "lines" else _line(
            source, split, height, width, wear, more
        )  # fmt: skip
        images[number, :, : drawn.shape[1]] = drawn
        extents[number, : len(own)] = torch.from_numpy(places).half()
        widths.append(drawn.shape[1])
        texts.append(own)
    return {
        "images": torch.from_numpy(images), "widths": torch.tensor(widths), "extents": extents,
        "lengths": torch.tensor([len(t) for t in texts]),
        "codes": torch.tensor([ord(c) for t in texts for c in t], dtype=torch.int32),
    }  # fmt: skip


# Pictures -------------------------------------------------------------------------------------------------------------

Columns = NDArray[np.float64]
Picture = tuple[NDArray[np.uint8], str, Columns]


def _word(source: torch.Generator, kind: Kind, split: str, height: int, width: int, wear: float) -> Picture:
    own = short(source) if kind == "words" else number(source)
    style = random_style(source, own, (14, 36), held_out=split == "test")
    return _photographed(source, own, style, height, lambda _: width, wear)


def _line(source: torch.Generator, split: str, height: int, width: int, wear: float, more: bool) -> Picture:
    own = sentence(source)
    style = _style(source, own, split, more)
    while True:
        drawn = _photographed(source, own, style, height, lambda ratio: round(ratio * height), wear)
        if drawn[0].shape[1] <= width:
            return drawn
        own = own[: int(len(own) * 0.97 * width / drawn[0].shape[1])].strip() or "-"


def _style(source: torch.Generator, own: str, split: str, more: bool) -> Style:
    """As random styles are, from more families: Times-like faces too, and the narrow sans serif for test alone."""
    style = random_style(source, own, (12, 44))
    faces: tuple[Face, ...] = NARROW if split == "test" else (*TRAINING, *TIMES, *(MORE if more else TIMES))
    faces = tuple(face for face in faces if covers(face, own)) or TIMES
    return Style(faces[choice(source, len(faces))], style.size, style.ink, style.paper, style.spacing)


def _photographed(
    source: torch.Generator, own: str, style: Style, height: int, width: Callable[[float], int], wear: float
) -> Picture:
    """A text in a worn picture of this height, cut around its ink; and the columns of its characters."""
    drawn = line(own, style, (6, 6, 6, 6))
    worn_by = Wear.drawn(source, wear)
    if len(own) > 12:  # pages are turned upright before their lines are read
        worn_by = Wear(**{**vars(worn_by), "skew": 0.2 * worn_by.skew})
    picture = worn(drawn.image, worn_by, source)
    left, top, right, bottom, places = _cut(source, drawn, worn_by, picture.shape[:2])
    cut = picture[top:bottom, left:right]
    wide = max(width((right - left) / (bottom - top)), 4)
    grey = Image.fromarray(cut).convert("L").resize((wide, height), Image.Resampling.BILINEAR)
    return np.asarray(grey), own, (places - left) * wide / (right - left)


def _cut(source: torch.Generator, drawn: Line, wear: Wear, size: tuple[int, int]) -> tuple[int, int, int, int, Columns]:
    """Left, top, right and bottom of a text in its picture, more or less tight, and the columns of characters."""
    boxes = np.array(drawn.characters, np.float64).reshape(-1, 4)
    middle = (boxes[:, 1] + boxes[:, 3]) / 2
    whole = drawn.image.shape[:2]
    ends = [turned(np.stack([boxes[:, k], middle], 1), wear.skew, *whole)[:, 0] for k in (0, 2)]
    corners = np.array([[boxes[0, 0], boxes[0, 1]], [boxes[-1, 2], boxes[0, 1]],
                        [boxes[0, 0], boxes[0, 3]], [boxes[-1, 2], boxes[0, 3]]])  # fmt: skip
    spots = turned(corners, wear.skew, *whole) if wear.skew else corners
    low, high = spots.min(0), spots.max(0)
    tall = high[1] - low[1]
    if choice(source, 2):  # as high as the font, for lines of small letters alone
        low[1], high[1] = min(low[1], 6.0), max(high[1], whole[0] - 6.0)
    slack = [uniform(source, 0.02, 0.2) * tall for _ in range(4)]
    left, top = (max(int(v - s), 0) for v, s in zip(low, slack[:2], strict=True))
    right = min(int(np.ceil(high[0] + slack[2])), size[1])
    bottom = min(int(np.ceil(high[1] + slack[3])), size[0])
    return left, top, max(right, left + 4), max(bottom, top + 4), np.stack(ends, 1)


# Texts ----------------------------------------------------------------------------------------------------------------


def number(source: torch.Generator) -> str:
    """2 to 6 digits."""
    return "".join(str(choice(source, 10)) for _ in range(2 + choice(source, 5)))


def short(source: torch.Generator) -> str:
    """A word, a number or a code of 2 to 8 letters and digits."""
    kind = choice(source, 10)
    if kind < 5:
        while len(own := text.word(source, 8)) < 2:
            pass
        return own
    length = 2 + choice(source, 7)
    symbols = "0123456789" if kind < 8 else "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return "".join(symbols[choice(source, len(symbols))] for _ in range(length))


def invented(source: torch.Generator) -> str:
    """A word that is in no dictionary, so that reading cannot be guessing."""
    if choice(source, 2):
        letters = [FREQUENT[choice(source, len(FREQUENT))] for _ in range(2 + choice(source, 8))]
    else:
        letters = []
        for _ in range(1 + choice(source, 4)):
            letters += [CONSONANTS[choice(source, 21)], VOWELS[choice(source, 5)]]
            if choice(source, 3) == 0:
                letters.append(CONSONANTS[choice(source, 21)])
    own = "".join(letters)
    style = choice(source, 10)
    return own if style < 6 else own.capitalize() if style < 9 else own.upper()


def symbols(source: torch.Generator) -> str:
    """Any characters, marks among them."""
    pool = MARKS + "0123456789" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "abcdefghijklmnopqrstuvwxyz"
    return "".join(pool[choice(source, len(pool))] for _ in range(2 + choice(source, 7)))


def sentence(source: torch.Generator) -> str:
    """A line of print: words, invented words, numbers, dates, amounts, punctuation, and now and then any symbols."""
    kind = choice(source, 10)
    if kind < 5:
        own = text.phrase(source, 1, 7)
    elif kind < 9:
        parts = [(text.word, invented, invented)[choice(source, 3)](source) for _ in range(1 + choice(source, 7))]
        for place in range(len(parts)):
            mark = choice(source, 12)
            parts[place] += (",", ".", "'s", "-" + invented(source).lower())[mark] if mark < 4 else ""
        own = " ".join(parts)
    else:
        own = " ".join((symbols, invented)[choice(source, 2)](source) for _ in range(1 + choice(source, 4)))
    return own[:LONGEST].strip() or "-"
