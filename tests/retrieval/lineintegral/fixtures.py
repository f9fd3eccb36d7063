"""Small data sets of shapes in the public layouts, from their published names, with Pillow alone."""

from __future__ import annotations

import random

from PIL import Image, ImageDraw

SIDE = 48


def shape(path, kind, seed=0):
    """A mask: a block with a bay, or a disc with a hole, moved a little."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = random.Random(f"{kind} {seed}")
    picture = Image.new("L", (SIDE, SIDE + 8))
    pen = ImageDraw.Draw(picture)
    x, y, wide = source.randint(4, 8), source.randint(4, 10), source.randint(26, 34)
    if kind % 2:
        pen.ellipse([x, y, x + wide, y + 28], fill=255)
        pen.ellipse([x + 8, y + 6, x + 8 + 2 * kind, y + 18], fill=0)
    else:
        pen.rectangle([x, y, x + wide, y + 24], fill=255)
        pen.polygon([(x, y), (x + 12 + kind, y), (x, y + 12)], fill=0)
    picture.save(path)


def mpeg7(suffix):
    def write(path):
        for kind, name in enumerate(("apple", "device0", "sea_snake")):
            for number in (1, 2):
                shape(path / f"{name}-{number}{suffix}", kind, number)

    return write


def folders(path):
    for kind in range(3):
        for number in range(2):
            shape(path / f"class{kind}" / f"{number}.png", kind, number)


def with_distractors(path):
    folders(path)
    shape(path / "nobody.png", 5)


layouts = {
    "folder": {"classes": folders, "distractors": with_distractors},
    "mpeg7": {"gif": mpeg7(".gif"), "png": mpeg7(".png")},
    "mcd": {"folders": lambda path: folders(path), "flat": lambda path: mpeg7(".png")(path)},
}


def prediction(folder):
    for number in range(4):
        shape(folder / "gallery" / f"{number}.png", number)
    shape(folder / "query.png", 1, 9)
    return ["--query", "query.png", "--gallery", "gallery", "--top", "3"]


quick = {"data.kinds": 4, "data.individuals": 2, "data.views": 3, "model.size": 64}
"""Changes that make it quick to judge."""
