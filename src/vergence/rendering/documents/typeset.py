"""Text set with real fonts, with the exact places of its characters and words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vergence.rendering.documents.fonts import HELD_OUT, TRAINING, Face, covers, opened
from vergence.rendering.things import choice, uniform

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels; the last two outside."""
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Line:
    """A line of text as a picture."""

    text: str
    image: NDArray[np.uint8]
    """(H, W, 3)."""
    characters: tuple[Box, ...]
    """The advance of each character, as high as the line's ink."""
    words: tuple[tuple[str, Box], ...]


@dataclass(frozen=True)
class Style:
    """How text is set."""

    face: Face
    size: int
    """Pixels per em."""
    ink: Colour = (0, 0, 0)
    paper: Colour = (255, 255, 255)
    spacing: float = 0.0
    """Pixels between characters beyond the font's own."""


def extent(text: str, style: Style) -> tuple[float, int, int]:
    """The width of a text and its font's heights above and below the base line, in pixels."""
    font = opened(style.face, style.size)
    above, below = font.getmetrics()
    return font.getlength(text) + style.spacing * max(len(text) - 1, 0), above, below


def starts(text: str, style: Style) -> list[float]:
    """Where each character begins, and where the last one ends: with kerning, which depends on what comes before."""
    font = opened(style.face, style.size)
    places = [font.getlength(text[:number]) + style.spacing * number for number in range(len(text) + 1)]
    return [*places[:-1], places[-1] - (style.spacing if text else 0.0)]


def write(draw: ImageDraw.ImageDraw, at: tuple[float, float], text: str, style: Style) -> Box | None:
    """Write a text with its base line's left end at a point; returns the box of its ink, None if there is none."""
    font = opened(style.face, style.size)
    if not style.spacing:
        draw.text(at, text, style.ink, font, "ls")
    else:
        for place, character in zip(starts(text, style), text, strict=False):
            draw.text((at[0] + place, at[1]), character, style.ink, font, "ls")
    if not text.strip():
        return None
    left, top, right, bottom = font.getbbox(text, anchor="ls")
    right += style.spacing * max(len(text) - 1, 0)
    return (at[0] + left, at[1] + top, at[0] + right, at[1] + bottom)


def line(text: str, style: Style, margin: tuple[int, int, int, int] = (4, 4, 4, 4)) -> Line:
    """A line of text in a picture that it fills, but for margins to the left, above, to the right and below."""
    width, above, below = extent(text, style)
    left, top, right, bottom = margin
    picture = Image.new("RGB", (left + int(np.ceil(width)) + right, top + above + below + bottom), style.paper)
    base = (float(left), float(top + above))
    ink = write(ImageDraw.Draw(picture), base, text, style)
    low, high = (ink[1], ink[3]) if ink is not None else (float(top), float(top + above + below))
    places = [left + place for place in starts(text, style)]
    characters = tuple((a, low, b, high) for a, b in pairwise(places))
    return Line(text, np.asarray(picture), characters, _words(text, characters))


def _words(text: str, characters: tuple[Box, ...]) -> tuple[tuple[str, Box], ...]:
    found, start = [], None
    for place, character in enumerate(text + " "):
        if character != " " and start is None:
            start = place
        elif character == " " and start is not None:
            first, last = characters[start], characters[place - 1]
            found.append((text[start:place], (first[0], first[1], last[2], last[3])))
            start = None
    return tuple(found)


def random_style(
    source: torch.Generator, text: str, sizes: tuple[int, int] = (14, 48), held_out: bool = False
) -> Style:
    """A face that has all characters of a text, dark ink on light paper or, now and then, the other way round."""
    faces = [face for face in (HELD_OUT if held_out else TRAINING) if covers(face, text)]
    face = faces[choice(source, len(faces))]
    size = sizes[0] + choice(source, sizes[1] - sizes[0] + 1)
    tint = torch.rand(2, 3, generator=source)
    dark, light = (tint[0] * uniform(source, 0, 110)).tolist(), (255 - tint[1] * uniform(source, 0, 70)).tolist()
    ink, paper = tuple(map(int, dark)), tuple(map(int, light))
    if choice(source, 12) == 0:
        ink, paper = paper, ink
    spacing = uniform(source, -0.02, 0.12) * size if choice(source, 5) == 0 else 0.0
    return Style(face, size, (ink[0], ink[1], ink[2]), (paper[0], paper[1], paper[2]), spacing)
