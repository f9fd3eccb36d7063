"""Draw one picture of all systems for the front pages: their stored pictures, cropped to one size, with names.

``python docs/wall.py`` writes ``docs/pages/wall.png``.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps
from render import own

from vergence import catalogue

PLACE = Path(__file__).parent / "pages" / "wall.png"
COLUMNS, TILE, LABEL, GAP = 4, (320, 200), 34, 10
SHOWN = 720
"""Width in pixels of the part that a tile shows, from the upper left of a picture."""
GROUND, FRAME, INK = "#eef1f4", "#ffffff", "#23415f"


def tile(path: Path) -> Image.Image:
    """Crop of a picture in the shape of a tile."""
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    part = picture.crop((0, 0, min(picture.width, SHOWN), picture.height))
    width = min(part.width, part.height * TILE[0] // TILE[1])
    return ImageOps.fit(part, (width, width * TILE[1] // TILE[0]), Image.Resampling.LANCZOS, centering=(0, 0))


def wall() -> Image.Image:
    """A tile a system."""
    names = [name for name in own() if catalogue.picture(name)]
    rows = -(-len(names) // COLUMNS)
    whole = Image.new("RGB", (COLUMNS * (TILE[0] + GAP) + GAP, rows * (TILE[1] + LABEL + GAP) + GAP), GROUND)
    write = ImageDraw.Draw(whole)
    name_font, task_font = ImageFont.load_default(18), ImageFont.load_default(13)
    for number, name in enumerate(names):
        x = GAP + number % COLUMNS * (TILE[0] + GAP)
        y = GAP + number // COLUMNS * (TILE[1] + LABEL + GAP)
        shown = tile(catalogue.picture(name))
        write.rectangle((x, y, x + TILE[0] - 1, y + TILE[1] + LABEL - 1), FRAME)
        whole.paste(shown.resize(TILE, Image.Resampling.LANCZOS), (x, y))
        write.text((x + 10, y + TILE[1] + LABEL / 2), name, INK, name_font, anchor="lm")
        task = catalogue.about(name).tasks[0]
        write.text((x + TILE[0] - 10, y + TILE[1] + LABEL / 2), task, INK, task_font, anchor="rm")
    return whole


if __name__ == "__main__":
    wall().quantize(256).save(PLACE, optimize=True)
    print(f"{PLACE.name}: {PLACE.stat().st_size / 1000:.0f} kB")
