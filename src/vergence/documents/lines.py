"""Pictures of text with what they say, and the strips of fixed height that recognisers take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import Several, VergenceError
from vergence.data.images import read_image, resized

Unknown = Literal["refuse", "skip", "remove"]
"""What to do with a text that has characters outside the alphabet: refuse it, skip it, or remove the characters."""
MARGIN = 8
"""Columns of paper on both sides of a strip that keeps its proportions."""
WIDEST = 8192
"""Columns that a strip may have."""


@dataclass(frozen=True, eq=False)
class TextSample:
    """A picture with one line of text."""

    name: str
    picture: Tensor
    """Bytes (channels, H, W)."""
    text: str
    extents: Tensor | None = None
    """Where each character begins and ends, in columns of the picture (L, 2), if it is known."""


@dataclass(frozen=True)
class TextFiles:
    """Pictures in files with their texts, read on access."""

    paths: tuple[Path, ...]
    texts: tuple[str, ...]
    boxes: tuple[tuple[int, int, int, int], ...] = ()
    """Left, top, width and height of each text in its picture; empty: whole pictures."""
    note: str = ""
    """How the files were split."""
    split: str = ""
    """The split that they came from, if another stands in for the one asked for."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> TextSample:
        path = self.paths[index]
        picture = read_image(path)
        if self.boxes:
            left, top, width, height = self.boxes[index]
            picture = picture[:, max(top, 0) : top + height, max(left, 0) : left + width]
            if not picture.numel():
                raise VergenceError(f"the box {self.boxes[index]} of {self.texts[index]!r} lies outside {path}")
        return TextSample(path.name, picture, self.texts[index])


# Labels ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alphabet:
    """Symbols by number; 0 is the blank."""

    symbols: str

    @property
    def folded(self) -> bool:
        """Whether capitals are read as small letters: where the alphabet has no capitals."""
        return not any(symbol.isupper() for symbol in self.symbols)

    def plain(self, text: str) -> str:
        """A text as this alphabet writes it."""
        return text.lower() if self.folded else text

    def unknown(self, text: str) -> str:
        """The first character that is not in the alphabet; empty if there is none."""
        known = set(self.symbols)
        return next((c for c in self.plain(text) if c not in known), "")

    def encode(self, text: str) -> list[int]:
        """Numbers from 1."""
        stray = self.unknown(text)
        if stray:
            raise VergenceError(f"{text[:40]!r} has the character {stray!r}, which the alphabet does not have")
        return [self.symbols.index(c) + 1 for c in self.plain(text)]

    def decode(self, label: Sequence[int]) -> str:
        return "".join(self.symbols[number - 1] for number in label)


def labels(
    texts: Sequence[str], alphabet: Alphabet, unknown: Unknown, origin: str = "the data"
) -> tuple[list[int], list[str]]:
    """The places of the texts that can be used, and the texts in the alphabet; empty texts cannot."""
    known = set(alphabet.symbols)
    places, plain, refused = [], [], []
    for place, text in enumerate(texts):
        own = alphabet.plain(text)
        if not known.issuperset(own):
            if unknown == "refuse":
                refused.append(
                    f"the text {text[:40]!r} has the character {alphabet.unknown(text)!r}, which the alphabet does not "
                    "have (--data.unknown skip or remove goes on without)"
                )
                continue
            own = "" if unknown == "skip" else "".join(c for c in own if c in known)
        if own:
            places.append(place)
            plain.append(own)
    if refused:
        raise Several(refused)
    if not places:
        raise VergenceError(
            f"none of the {len(texts)} texts of {origin} has characters of the alphabet alone: "
            f"{alphabet.symbols[:40]!r}"
        )
    return places, plain


# Strips ---------------------------------------------------------------------------------------------------------------


def grey(picture: Tensor) -> Tensor:
    """A picture of bytes (channels, H, W) as grey floats from 0 to 255, (1, H, W)."""
    values = picture.float()
    if len(values) != 3:
        return values[:1]
    return (values * values.new_tensor([0.299, 0.587, 0.114])[:, None, None]).sum(0, keepdim=True)


def strip(picture: Tensor, height: int, width: int = 0, stretch: float = 1.0) -> Tensor:
    """A picture of text as a recogniser takes it, (1, height, W): paper is 0, ink is negative, whatever their colours,
    and the standard deviation is 1. With ``width`` it is stretched to that; else it keeps its proportions, but for
    ``stretch``, and has margins."""
    values = grey(picture)
    if not values.numel():
        raise VergenceError(f"a picture of {values.shape[-1]} x {values.shape[-2]} pixels has no text")
    own = width or min(max(round(values.shape[-1] * height / values.shape[-2] * stretch), 2), WIDEST)
    values = resized(values, height, own)
    values = values - values.median()
    if values.mean() > 0:  # most of a picture is paper: ink that is lighter draws the mean above it
        values = -values
    values = values / values.std().clamp(min=4.0)  # grey levels: an empty picture stays empty
    return values if width else F.pad(values, (MARGIN, MARGIN))


@dataclass(frozen=True)
class Lines:
    """Strips with labels, from any data of :class:`TextSample` that has ``texts``."""

    data: Any
    alphabet: Alphabet
    places: tuple[int, ...]
    texts: tuple[str, ...]
    height: int
    width: int
    """0: as wide as the text."""
    augment: bool = False
    """Stretch, shift and blur at random while training."""

    @classmethod
    def of(
        cls, data: Any, alphabet: Alphabet, unknown: Unknown, height: int, width: int, augment: bool,
        origin: str = "the data",
    ) -> Lines:  # fmt: skip
        places, texts = labels(data.texts, alphabet, unknown, origin)
        return cls(data, alphabet, tuple(places), tuple(texts), height, width, augment)

    def __len__(self) -> int:
        return len(self.places)

    def too_long(self, steps: int) -> list[str]:
        """Texts that no path of this many steps can stand for: equal neighbours need a blank between them."""
        return [t for t in self.texts if len(t) + sum(a == b for a, b in pairwise(t)) > steps]

    def first(self, count: int) -> Lines:
        """The first ``count`` of them."""
        return Lines(
            self.data, self.alphabet, self.places[:count], self.texts[:count], self.height, self.width, self.augment
        )

    def batches(self, size: int, generator: torch.Generator) -> list[list[int]]:
        """Batches of one epoch; without a fixed width, of texts of similar length."""
        order = torch.randperm(len(self), generator=generator).tolist()
        if not self.width:
            pool = 16 * size
            order = [i for k in range(0, len(order), pool) for i in sorted(order[k : k + pool], key=self._length)]
        found = [order[k : k + size] for k in range(0, len(order), size)]
        found = found[:-1] if len(found) > 1 and len(found[-1]) < size else found
        return [found[k] for k in torch.randperm(len(found), generator=generator).tolist()]

    def _length(self, index: int) -> int:
        return len(self.texts[index])

    def __getitem__(self, index: int) -> dict[str, Any]:
        sample = self.data[self.places[index]]
        return self._sample(index, sample, strip(sample.picture, self.height, self.width))

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Any]:
        """The sample for training."""
        if not self.augment:
            return self[index]
        sample = self.data[self.places[index]]
        u = torch.rand(6, generator=generator).tolist()
        picture = sample.picture
        top, bottom = (round((share * 0.14 - 0.04) * picture.shape[-2]) for share in u[:2])
        picture = _more_rows(picture, top, bottom)
        stretch = 0.75 + 0.55 * u[2]
        values = strip(picture, self.height, self.width, stretch)
        if u[3] < 0.3:
            values = values + (0.05 + 0.3 * u[4]) * torch.randn(values.shape, generator=generator)
        return self._sample(index, sample, values)

    def _sample(self, index: int, sample: TextSample, image: Tensor) -> dict[str, Any]:
        text = self.texts[index]
        extents = torch.full((len(text), 2), torch.nan)
        if sample.extents is not None and len(sample.extents) == len(text):
            side = 0 if self.width else MARGIN
            share = (image.shape[-1] - 2 * side) / sample.picture.shape[-1]
            extents = sample.extents.float() * share + side
        return {"image": image, "target": torch.tensor(self.alphabet.encode(text)), "text": text, "extents": extents}

    def collate(self, samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A batch as wide as its widest strip; labels are padded with -1, and extents with values that are not a
        number."""
        wide = max(s["image"].shape[-1] for s in samples)
        long = max(len(s["target"]) for s in samples)

        def target(own: Tensor) -> Tensor:
            return F.pad(own, (0, long - len(own)), value=-1)

        return {
            "image": torch.stack([F.pad(s["image"], (0, wide - s["image"].shape[-1])) for s in samples]),
            "target": torch.stack([target(s["target"]) for s in samples]),
            "length": torch.tensor([len(s["target"]) for s in samples]),
            "extents": torch.stack([
                F.pad(s["extents"], (0, 0, 0, long - len(s["extents"])), value=torch.nan) for s in samples
            ]),
            "text": [s["text"] for s in samples],
        }  # fmt: skip


def _more_rows(picture: Tensor, top: int, bottom: int) -> Tensor:
    """A picture with rows added by repetition, or cut off where the number is negative."""
    height = picture.shape[-2]
    rows = torch.arange(-top, height + bottom).clamp(0, height - 1)
    return picture[:, rows]
