"""A town from above with what a reconstruction missed and invented, and three scores that disagree about it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from PIL import Image
from scipy.spatial import cKDTree

import vergence
from titles.canvas import GAP, HEIGHT, WIDTH, Canvas
from titles.town import SIDE, Town, from_above, town
from vergence.maps.graph import RoadGraph
from vergence.maps.roads import roads
from vergence.maps.settings import NAMES, MistakeSizes
from vergence.maps.synth import ErrorInjector

CAPTION = (
    "A rendered town from above, and a reconstruction of its roads without bridges and some streets, with breaks and "
    "false roads. Roads in both maps are white, missed ones orange, invented ones blue. By the length of road (CCQ) "
    "little is wrong; by trips (TLTS) most is, because the two banks are no longer connected."
)
FOUND, MISSED, INVENTED, SHADE = "#ffffff", "#ff7b1c", "#25c7ff", "#10202c"
GREY, STRONG, TRACK = "#8d99a6", "#1f6f8b", "#e4e8ec"
LEFT, RIGHT = HEIGHT + 3 * GAP, WIDTH - 2 * GAP
"""Of the text beside the map, which is as wide as it is high."""


def reconstruction(made: Town) -> RoadGraph:
    """The streets without bridges and a few blocks, with breaks, and with roads where there are none."""
    injector, streets = ErrorInjector(MistakeSizes(gap=24.0, longest=210.0)), made.streets
    blocks = [road for road in roads(streets) if 60 < streets.lengths[road.edges].sum() < 190]
    gone = cKDTree(made.river).query(streets.middles)[0] < 38
    for number in np.random.default_rng(1).permutation(len(blocks))[:6]:
        gone[blocks[number].edges] = True
    broken = injector.inject("interruptions", streets.without(gone), 22, 3)[1]
    return injector.inject("overconnections", broken, 6, 14)[1]


def written(graph: RoadGraph, path: Path) -> Path:
    nodes = "".join(f"{x:.3f} {y:.3f}\n" for x, y in graph.points)
    path.write_text(nodes + "\n" + "".join(f"{i} {j}\n" for i, j in graph.edges))
    return path


def draw(path: Path) -> Path:
    made = town()
    with tempfile.TemporaryDirectory() as scratch:
        maps = {"truth": made.streets, "prediction": reconstruction(made)}
        files = {name: written(graph, Path(scratch) / f"{name}.graph") for name, graph in maps.items()}
        result = vergence.load("roadmetrics").predict(**files)
    canvas = Canvas()
    ground = Image.fromarray(from_above(made)).resize((HEIGHT, HEIGHT), Image.Resampling.LANCZOS)
    axes = canvas.picture(np.asarray(ground), 0, 0, HEIGHT, HEIGHT, extent=(0, SIDE, SIDE, 0))
    for name, colour, width in (("found", FOUND, 2.2), ("invented", INVENTED, 6.0), ("missed", MISSED, 6.0)):
        for shade, extra in ((SHADE, 3.0), (colour, 0.0)):
            lines = LineCollection(result.overlay.lines[name], colors=shade, linewidths=width + extra, capstyle="round")
            axes.add_collection(lines)
    for y, text, colour in ((42, "missed", MISSED), (98, "invented", INVENTED)):
        bar(canvas, y - 11, 56, colour, 22)
        canvas.write(LEFT + 74, y, text, size=40)
    canvas.write(LEFT, 182, "one map,", size=40)
    canvas.write(LEFT, 230, "three scores:", size=40)
    for y, name, colour in ((312, "ccq", GREY), (424, "opt_p", STRONG), (536, "tlts", GREY)):
        canvas.write(LEFT, y, NAMES[name], size=40)
        canvas.write(RIGHT, y, f"{result.scores[name]:.2f}", size=46, ha="right", weight="bold")
        for share, shade in ((1.0, TRACK), (result.scores[name], colour)):
            bar(canvas, y + 32, share * (RIGHT - LEFT), shade, 26)
    return canvas.save(path)


def bar(canvas: Canvas, y: float, width: float, colour: str, height: float) -> Axes:
    axes = canvas.axes(LEFT, y, width, height)
    axes.set_facecolor(colour)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return axes
