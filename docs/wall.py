"""Draw one picture of all systems for the front pages: their stored pictures, whole, with name and task.

``python docs/wall.py`` writes ``docs/pages/wall.png``.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps
from render import own

from vergence import catalogue

PLACE = Path(__file__).parent / "pages" / "wall.png"
COLUMNS, TILE, LABEL, GAP = 4, (320, 213), 52, 10
GROUND, FRAME, INK = "#eef1f4", "#ffffff", "#23415f"


def tile(path: Path) -> Image.Image:
    """A whole picture in the shape of a tile; one of another shape gets margins."""
    with Image.open(path) as opened:
        return ImageOps.pad(opened.convert("RGB"), TILE, Image.Resampling.LANCZOS, FRAME)


def fitting(write: ImageDraw.ImageDraw, text: str, size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    """The largest font of at most this size in which a text fits below its tile."""
    fonts = (ImageFont.load_default(s) for s in range(size, 7, -1))
    return next(font for font in fonts if write.textlength(text, font) <= TILE[0] - 20)


def wall() -> Image.Image:
    """One tile per system."""
    names = [name for name in own() if catalogue.picture(name)]
    rows = -(-len(names) // COLUMNS)
    whole = Image.new("RGB", (COLUMNS * (TILE[0] + GAP) + GAP, rows * (TILE[1] + LABEL + GAP) + GAP), GROUND)
    write = ImageDraw.Draw(whole)
    for number, name in enumerate(names):
        x = GAP + number % COLUMNS * (TILE[0] + GAP)
        y = GAP + number // COLUMNS * (TILE[1] + LABEL + GAP)
        write.rectangle((x, y, x + TILE[0] - 1, y + TILE[1] + LABEL - 1), FRAME)
        whole.paste(tile(catalogue.picture(name)), (x, y))
        task = catalogue.about(name).tasks[0]
        write.text((x + 10, y + TILE[1] + 17), name, INK, fitting(write, name, 20), anchor="lm")
        write.text((x + 10, y + TILE[1] + 38), task, INK, fitting(write, task, 15), anchor="lm")
    return whole


if __name__ == "__main__":
    wall().quantize(256, kmeans=2).save(PLACE, optimize=True)
    print(f"{PLACE.name}: {PLACE.stat().st_size / 1000:.0f} kB")
