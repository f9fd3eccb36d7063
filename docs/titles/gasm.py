"""People who are half hidden, and the parts of the picture in which they are found."""

from __future__ import annotations

import tempfile
from pathlib import Path

import vergence
from titles.canvas import Canvas
from titles.people import same, written
from vergence.data.images import read_image
from vergence.reid.gasm.pictures import Pair, draw_pair

PEOPLE, LINES = 20, 8
HIDDEN = (0.3, 0.65)
"""Share of hidden joints of the queries that are shown."""
CAPTION = (
    "Rendered queries of which about half is hidden, each with the nearest picture by two other cameras: lines join "
    "the parts that were compared (green: alike, red: not), and what the network ignores is dark. Five of ten such "
    "queries find the right person first; shown are the four nearest of them. Starter weights, trained on rendered "
    "people only."
)


def draw(path: Path) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        files = written(Path(scratch), PEOPLE, "queries")
        hidden = (files.people.joints[files.places, :, 2] == 0).float().mean(1).tolist()
        asked = [query for query, share in zip(files.queries, hidden, strict=True) if HIDDEN[0] <= share <= HIDDEN[1]]
        result = vergence.load("gasm").predict(query=asked, gallery=files.gallery, top=1)
        found = [(matches[0].distance, row) for row, matches in enumerate(result.matches)
                 if same(asked[row], matches[0].name)]  # fmt: skip
        print(f"{len(found)} of {len(asked)} first matches are right")
        canvas = Canvas()
        canvas.write(12, 24, "half hidden, found by the parts that are seen")
        for place, (_, row) in enumerate(sorted(found)[:4]):
            parts = result.parts[row][0]
            pair = Pair(read_image(asked[row]), read_image(Path(parts.name)), result.saliency[row], parts.places,
                        parts.distances)  # fmt: skip
            axes = canvas.axes(40 + 470 * (place % 2), 50 + 296 * (place // 2), 410, 288)
            draw_pair(axes, pair, LINES)
        return canvas.save(path)
