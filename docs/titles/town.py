"""A town that could be a real one: an irregular street network, and its picture from above."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from scipy.ndimage import gaussian_filter
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from vergence.maps.graph import RoadGraph, road_graph

SIDE, MARGIN = 1000.0, 120.0
"""Of the town in pixels of 60 cm, and how far beyond it streets are laid."""
DISTRICTS = (  # centre, direction of its streets in degrees, distances between them
    ((200.0, 150.0), 14, (92.0, 128.0)),
    ((640.0, 130.0), -20, (84.0, 136.0)),
    ((960.0, 400.0), 36, (96.0, 112.0)),
    ((520.0, 450.0), 4, (80.0, 108.0)),
    ((90.0, 560.0), -30, (90.0, 126.0)),
    ((780.0, 850.0), 22, (86.0, 120.0)),
    ((330.0, 900.0), -10, (94.0, 118.0)),
)
RIVER = ((-180, 610), (-40, 590), (90, 560), (230, 500), (330, 470), (440, 500), (540, 520), (640, 470), (760, 410),
         (880, 430), (1000, 480), (1180, 470))  # fmt: skip
WATER, BANK = 70.0, 34.0
"""Width of the river, and of the green beside it."""
PARK = ((330.0, 880.0), (112.0, 74.0))
"""Centre and half axes of an ellipse."""
RADIUS = 30.0
"""Of the roundabout."""
ARTERIAL, STREET = 23.0, 13.0
"""Widths of roads."""
Line = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Town:
    streets: RoadGraph
    arterials: np.ndarray
    """Which edges are wide."""
    river: np.ndarray
    park: np.ndarray
    roundabout: np.ndarray


# Network --------------------------------------------------------------------------------------------------------------


def warped(points: np.ndarray) -> np.ndarray:
    """Bends straight lines a little."""
    x, y = np.asarray(points, float).T / SIDE * 2 * math.pi
    bend = 20 * np.sin(0.9 * y + 0.6) + 7 * np.sin(2.1 * y - x), 22 * np.sin(0.8 * x + 2.2) + 7 * np.sin(1.7 * x + y)
    return points + np.stack(bend, 1)


def within_district(start: np.ndarray, way: np.ndarray, number: int) -> tuple[float, float]:
    """Where a line is nearer to a district's centre than to any other, and on the map."""
    low, high, centre = -9e9, 9e9, np.array(DISTRICTS[number][0])
    for other, (there, _, _) in enumerate(DISTRICTS):
        normal = np.array(there) - centre
        if other != number and abs(normal @ way) > 1e-6:
            bound = normal @ ((np.array(there) + centre) / 2 - start) / (normal @ way)
            low, high = (low, min(high, bound)) if normal @ way > 0 else (max(low, bound), high)
    for axis in (0, 1):
        ends = sorted((bound - start[axis]) / way[axis] for bound in (-MARGIN, SIDE + MARGIN))
        low, high = max(low, ends[0]), min(high, ends[1])
    return low, high


def local_streets() -> Iterator[Line]:
    """Two families of parallel streets in every district, to a pixel beyond its border."""
    for number, (centre, degrees, spacings) in enumerate(DISTRICTS):
        for turn, spacing in zip((0, 90), spacings, strict=True):
            angle = math.radians(degrees + turn + 0.01)
            way, aside = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
            for place in np.arange(-12, 12) + 0.4:
                start = np.array(centre) + place * spacing * aside
                low, high = within_district(start, way, number)
                if high - low > 60:
                    yield start + (low - 1) * way, start + (high + 1) * way


def arterials() -> Iterator[Line]:
    """The borders between districts."""
    for number, (centre, _, _) in enumerate(DISTRICTS):
        for there, _, _ in DISTRICTS[number + 1 :]:
            normal, start = np.subtract(there, centre), np.add(there, centre) / 2
            way = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
            low, high = within_district(start, way, number)
            if high - low > 20:
                yield start + low * way, start + high * way


def crossed(lines: Sequence[Line]) -> RoadGraph:
    """Lines as a graph with a node at every crossing."""
    start = np.array([a for a, _ in lines])
    way = np.array([b for _, b in lines]) - start
    points = [end for line in lines for end in line]
    stops = [[(0.0, 2 * n), (1.0, 2 * n + 1)] for n in range(len(lines))]
    for i in range(len(lines)):
        for j in range(i):
            area, gap = way[i, 0] * way[j, 1] - way[i, 1] * way[j, 0], start[j] - start[i]
            if abs(area) > 1e-6:
                t, u = ((gap[0] * w[1] - gap[1] * w[0]) / area for w in (way[j], way[i]))
                if -1e-9 < t < 1 + 1e-9 and -1e-9 < u < 1 + 1e-9:
                    stops[i].append((t, len(points)))
                    stops[j].append((u, len(points)))
                    points.append(start[i] + t * way[i])
    orders = [[node for _, node in sorted(stop)] for stop in stops]
    return road_graph(points, [pair for order in orders for pair in pairwise(order)])


def smooth(line: Sequence[tuple[float, float]], steps: int = 24) -> np.ndarray:
    """A Catmull-Rom curve through points."""
    points = np.array([line[0], *line, line[-1]], float)
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    quads = zip(points, points[1:], points[2:], points[3:], strict=False)
    parts = [q + (r - p) * t / 2 + (2 * p - 5 * q + 4 * r - s) * t**2 / 2 + (3 * q - p - 3 * r + s) * t**3 / 2
             for p, q, r, s in quads]  # fmt: skip
    return np.concatenate(parts)


def dense(lines: Sequence[Line], spacing: float = 2.0) -> np.ndarray:
    """Points along lines."""
    return np.concatenate([a + np.linspace(0, 1, int(np.linalg.norm(b - a) / spacing) + 2)[:, None] * (b - a)
                           for a, b in lines])  # fmt: skip


def town(seed: int = 0) -> Town:
    random = np.random.default_rng(seed)
    wide = list(arterials())
    graph = crossed([*wide, *local_streets()])
    river, wide_points = smooth(RIVER), dense(wide)
    middles = graph.middles
    arterial = cKDTree(wide_points).query(middles)[0] < 2
    wet = cKDTree(river).query(middles)[0] < WATER / 2 + BANK
    green = ((middles - PARK[0]) ** 2 / np.square(PARK[1])).sum(1) < 1
    gone = ~arterial & (wet | green | (random.random(len(graph)) < 0.12) | (graph.lengths < 3))
    graph = connected(without_stubs(graph.without(gone))).split(10.0)
    turn = np.linspace(0, 2 * np.pi, 60)
    park = np.array(PARK[0]) + np.stack([np.cos(turn), np.sin(turn)], 1) * np.array(PARK[1]) * 0.92
    vertex = warped(np.array([a for a, _ in wide] + [b for _, b in wide]))
    centre = vertex[np.argmin(np.linalg.norm(vertex - (740.0, 330.0), axis=1))]
    streets = with_roundabout(RoadGraph(warped(graph.points), graph.edges), centre).inside(0, 0, SIDE, SIDE)
    streets = connected(streets)
    is_wide = cKDTree(warped(wide_points)).query(streets.middles)[0] < 3
    is_wide |= np.abs(np.linalg.norm(streets.middles - centre, axis=1) - RADIUS) < 4
    return Town(streets, is_wide, warped(river), warped(park), centre)


def without_stubs(graph: RoadGraph, shortest: float = 34.0) -> RoadGraph:
    """Without short dead ends."""
    for _ in range(3):
        graph = graph.without((graph.degrees[graph.edges].min(1) == 1) & (graph.lengths < shortest))
    return graph


def connected(graph: RoadGraph) -> RoadGraph:
    """The largest part."""
    label = connected_components(graph.matrix, directed=False)[1][graph.edges[:, 0]]
    return graph.without(label != np.bincount(label).argmax())


def with_roundabout(graph: RoadGraph, centre: np.ndarray) -> RoadGraph:
    inside = np.linalg.norm(graph.points - centre, axis=1) < RADIUS + 6
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = centre + RADIUS * np.stack([np.cos(turn), np.sin(turn)], 1)
    arms = graph.edges[inside[graph.edges].sum(1) == 1]
    outer = np.where(inside[arms[:, 0]], arms[:, 1], arms[:, 0])
    count = len(graph.points)
    nearest = cKDTree(ring).query(graph.points[outer])[1]
    around = np.stack([np.arange(24), (np.arange(24) + 1) % 24], 1)
    edges = [graph.edges[~inside[graph.edges].any(1)], np.stack([outer, count + nearest], 1), count + around]
    return road_graph(np.concatenate([graph.points, ring]), np.concatenate(edges))


# Picture --------------------------------------------------------------------------------------------------------------

ZOOM = 2
ROOFS = (
    (146, 92, 74),
    (164, 112, 88),
    (128, 124, 120),
    (154, 148, 140),
    (108, 104, 104),
    (182, 172, 158),
    (136, 84, 70),
)


def cloudy(size: int, blur: float, random: np.random.Generator) -> np.ndarray:
    """Noise around 0 with deviation 1 and soft edges."""
    noise = gaussian_filter(random.normal(size=(size, size)), blur, mode="wrap")
    return noise / noise.std()


class Painter:
    """A picture of a town under construction, at twice its size."""

    def __init__(self, made: Town, seed: int = 0) -> None:
        self.town, self.random = made, np.random.default_rng(seed)
        self.size = int(SIDE * ZOOM)
        ground = np.array([134.0, 140, 104]) + cloudy(self.size, 60, self.random)[..., None] * np.array([7.0, 5, 6])
        self.image = Image.fromarray(np.clip(ground, 0, 255).astype(np.uint8))
        self.pen = ImageDraw.Draw(self.image)
        self.taken = Image.new("1", self.image.size)
        self.shade = Image.new("L", self.image.size)

    def line(self, points: np.ndarray, colour: object, width: float, pen: ImageDraw.ImageDraw | None = None) -> None:
        """A line with round joints."""
        pen, width, corners = pen or self.pen, width * ZOOM, [tuple(p) for p in points * ZOOM]
        pen.line(corners, colour, round(width))
        for x, y in corners:
            pen.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), colour)

    def nature(self) -> None:
        for width, colour in ((WATER + 34, (112, 128, 78)), (WATER + 8, (96, 104, 76)), (WATER, (62, 92, 108)),
                              (WATER - 26, (54, 84, 102))):  # fmt: skip
            self.line(self.town.river, colour, width)
        self.line(self.town.river, 1, WATER + 30, ImageDraw.Draw(self.taken))
        corners = [tuple(p) for p in self.town.park * ZOOM]
        self.pen.polygon(corners, (98, 128, 70))
        ImageDraw.Draw(self.taken).polygon(corners, 1)
        self.trees(self.town.park.mean(0), np.ptp(self.town.park, axis=0) / 2 * 0.9, 150)

    def trees(self, centre: np.ndarray, spread: np.ndarray, count: int) -> None:
        for _ in range(count):
            turn, far = self.random.uniform(0, 2 * np.pi), math.sqrt(self.random.random())
            self.tree(*(centre + far * spread * (math.cos(turn), math.sin(turn))), self.random.uniform(4, 8))

    def tree(self, x: float, y: float, radius: float) -> None:
        x, y, radius = x * ZOOM, y * ZOOM, radius * ZOOM
        ImageDraw.Draw(self.shade).ellipse((x - radius + 5, y - radius + 6, x + radius + 5, y + radius + 6), 90)
        green = self.random.integers(-12, 12)
        self.pen.ellipse((x - radius, y - radius, x + radius, y + radius), (66 + green, 92 + green, 50 + green))
        small = radius * 0.55
        self.pen.ellipse(
            (x - small - 2, y - small - 2, x + small - 3, y + small - 3), (82 + green, 110 + green, 62 + green)
        )

    def roads(self) -> None:
        streets, wide = self.town.streets, self.town.arterials
        lines = streets.points[streets.edges]
        for casing in (True, False):
            for is_wide in (False, True):
                width = (ARTERIAL if is_wide else STREET) + 7 * casing
                colour = (176, 172, 160) if casing else (116, 116, 120) if is_wide else (130, 130, 132)
                for line in lines[wide == is_wide]:
                    self.line(line, colour, width)
                    if casing:
                        self.line(line, 1, width + 3, ImageDraw.Draw(self.taken))
        for number, line in enumerate(lines[wide]):
            if number % 2 == 0:
                self.line(line * 0.75 + line.mean(0) * 0.25, (206, 204, 196), 1.2)
        x, y = self.town.roundabout * ZOOM
        inner = (RADIUS - ARTERIAL / 2) * ZOOM
        self.pen.ellipse((x - inner, y - inner, x + inner, y + inner), (98, 128, 70))
        self.tree(*self.town.roundabout, 8)

    def houses(self) -> None:
        """Houses along streets, in two rows, where there is room."""
        streets = self.town.streets
        order = self.random.permutation(len(streets))
        for row in (0, 1):
            for number in order.tolist():
                start, end = streets.points[streets.edges[number]]
                way = (end - start) / np.linalg.norm(end - start)
                for side in (-1, 1):
                    self.house((start + end) / 2, way, side, row, bool(self.town.arterials[number]))

    def house(self, place: np.ndarray, way: np.ndarray, side: int, row: int, wide: bool) -> None:
        large = wide and self.random.random() < 0.6
        length, depth = self.random.uniform(10, 15, 2) * (1.7 if large else 1.0)
        aside = np.array([-way[1], way[0]]) * side
        middle = place + aside * ((ARTERIAL if wide else STREET) / 2 + 9 + depth / 2 + row * 24)
        corners = [
            middle + a * length / 2 * way + b * depth / 2 * aside for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
        around = np.array(corners) * 1.12 - middle * 0.12
        spots = [around[k] * t + around[(k + 1) % 4] * (1 - t) for k in range(4) for t in (0.0, 0.5)]
        pixels = [(int(x * ZOOM), int(y * ZOOM)) for x, y in [*spots, middle]]
        if any(not (0 <= x < self.size and 0 <= y < self.size) or self.taken.getpixel((x, y)) for x, y in pixels):
            return
        if self.random.random() < 0.12:
            self.tree(*middle, self.random.uniform(5, 8))
            return
        roof = np.array(ROOFS[self.random.integers(2, 6) if large else self.random.integers(len(ROOFS))])
        roof = roof + self.random.integers(-8, 9)
        shape = [tuple(c * ZOOM) for c in corners]
        ImageDraw.Draw(self.taken).polygon([tuple(c * ZOOM) for c in around], 1)
        ImageDraw.Draw(self.shade).polygon([(x + 7, y + 8) for x, y in shape], 130)
        self.pen.polygon(shape, tuple(roof.tolist()))
        if not large:  # the sunlit half of a pitched roof
            ridge = [(corners[0] + corners[3]) / 2, (corners[1] + corners[2]) / 2]
            lit = corners[:2] if aside[0] + aside[1] > 0 else corners[3:1:-1]
            self.pen.polygon([tuple(c * ZOOM) for c in (*lit, ridge[1], ridge[0])], tuple((roof + 22).tolist()))

    def finish(self) -> np.ndarray:
        """Shadows and a few more trees."""
        for _ in range(900):
            x, y = self.random.uniform(0, self.size, 2).astype(int).tolist()
            near = [(x + dx, y + dy) for dx in (-10, 10) for dy in (-10, 10)]
            if all(0 <= u < self.size and 0 <= v < self.size and not self.taken.getpixel((u, v)) for u, v in near):
                self.tree(x / ZOOM, y / ZOOM, self.random.uniform(3.5, 6.5))
        shade = np.asarray(self.shade.filter(ImageFilter.GaussianBlur(2)), float)[..., None] / 255
        pixels = np.asarray(self.image, float)
        pixels = pixels * (1 - 0.5 * shade)
        return np.clip(pixels, 0, 255).astype(np.uint8)


def from_above(made: Town) -> np.ndarray:
    """The picture of a town, (2000, 2000, 3) bytes."""
    painter = Painter(made)
    painter.nature()
    painter.roads()
    painter.houses()
    return painter.finish()
