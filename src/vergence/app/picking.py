"""Points and boxes chosen by clicks on a picture: one click per point, two opposite corners per box."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from vergence.app.limits import Limits
from vergence.app.uploads import first_frame, limited
from vergence.contract.inputs import Kind
from vergence.core.errors import VergenceError
from vergence.reading.pictures import read_picture

LONGEST, SHORTEST = 720, 320
"""Longer side of the shown picture in pixels; small pictures are enlarged for clicking."""
MOST = 12
"""Maximum number of points or boxes per picture."""
COLOURS = ("#e4572e", "#1b78c8", "#2e9e5b", "#a34bb5", "#c98a00", "#0e9aa7")


def original(kind: Kind, path: Path, limits: Limits) -> Image.Image:
    """The picture to click on: the picture itself, or a video's first frame."""
    if kind in (Kind.VIDEO, Kind.VIDEOS):
        return Image.fromarray(first_frame(path, path.name, limits)[0])
    with limited(path, limits):
        return read_picture(path).convert("RGB")


def scale_of(size: tuple[int, int]) -> float:
    """Shown pixels per original pixel."""
    longer = max(size)
    return min(LONGEST, max(longer, SHORTEST)) / longer


def shown(picture: Image.Image, kind: Kind, clicks: Sequence[Sequence[float]]) -> Image.Image:
    """The picture at its shown size, with the places chosen so far."""
    scale = scale_of(picture.size)
    size = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
    image = picture.resize(size, Image.Resampling.NEAREST if scale > 2 else Image.Resampling.LANCZOS).convert("RGB")
    pen = ImageDraw.Draw(image)
    if kind is Kind.BOXES:
        for number, (x, y, width, height) in enumerate(boxes(clicks)):
            corners = [scale * v for v in (x, y, x + width, y + height)]
            pen.rectangle(corners, outline="white", width=5)
            pen.rectangle(corners, outline=COLOURS[number % len(COLOURS)], width=3)
        clicks = clicks[len(clicks) // 2 * 2 :]  # a first corner without its second
    for number, (x, y) in enumerate(clicks):
        x, y, colour = x * scale, y * scale, COLOURS[number % len(COLOURS)]
        pen.ellipse([x - 8, y - 8, x + 8, y + 8], outline="white", width=5)
        pen.ellipse([x - 7, y - 7, x + 7, y + 7], outline=colour, width=3)
    return image


def clicked(
    picture: Image.Image, kind: Kind, clicks: Sequence[Sequence[float]], place: Sequence[float]
) -> list[list[float]]:
    """The clicks with one more, given in shown pixels."""
    scale = scale_of(picture.size)
    if len(clicks) >= MOST * (2 if kind is Kind.BOXES else 1):
        raise VergenceError(f"at most {MOST} can be chosen")
    x = min(max(place[0] / scale, 0.0), picture.width - 1.0)
    y = min(max(place[1] / scale, 0.0), picture.height - 1.0)
    return [*map(list, clicks), [round(x, 1), round(y, 1)]]


def boxes(clicks: Sequence[Sequence[float]]) -> list[list[float]]:
    """Boxes (left, top, width, height) between pairs of clicks; two clicks on the same place give no box."""
    pairs = []
    for (ax, ay), (bx, by) in zip(clicks[::2], clicks[1::2], strict=False):
        if abs(ax - bx) >= 1 and abs(ay - by) >= 1:
            pairs.append([min(ax, bx), min(ay, by), round(abs(ax - bx), 1), round(abs(ay - by), 1)])
    return pairs


def chosen(kind: Kind, clicks: Sequence[Sequence[float]]) -> list[list[float]]:
    """The system's input for these clicks."""
    return boxes(clicks) if kind is Kind.BOXES else [list(map(float, click)) for click in clicks]


def told(kind: Kind, clicks: Sequence[Sequence[float]], required: bool) -> str:
    """Hint on what to do next, with the current choice."""
    places = chosen(kind, clicks)
    if kind is Kind.BOXES:
        if len(clicks) % 2:
            return "Now click on the opposite corner."
        wish = "Click on two opposite corners of the object."
        return f"Chosen: {len(places)}. Two more clicks add another box." if places else wish
    if not places:
        return "Click on the picture to choose points." + ("" if required else " Without any, the system chooses some.")
    return "Chosen: " + ", ".join(f"({x:g}, {y:g})" for x, y in places)
