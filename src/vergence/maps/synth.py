"""Generated cities, and injection of mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from vergence.core.errors import VergenceError
from vergence.maps.geometry import near
from vergence.maps.graph import Floats, RoadGraph, road_graph
from vergence.maps.roads import roads
from vergence.maps.settings import FEW_AND_MANY, MISTAKES, Mistake, MistakeSizes


def city(seed: int, blocks: int = 6, spacing: float = 120.0, jitter: float = 15.0, missing: float = 0.08) -> RoadGraph:
    """A grid of ``blocks`` x ``blocks`` crossings with jitter, bent roads, and a few roads left out."""
    if blocks < 2 or not spacing > 0 or not 0 <= missing < 1:
        raise VergenceError(
            f"a city has blocks >= 2, spacing > 0 and 0 <= missing < 1, got {blocks}, {spacing}, {missing}"
        )
    random = np.random.default_rng(seed)
    number = np.arange(blocks * blocks).reshape(blocks, blocks)
    x, y = np.meshgrid(np.arange(blocks), np.arange(blocks))
    crossings = spacing * np.stack([x, y], -1).reshape(-1, 2) + random.uniform(-jitter, jitter, (blocks * blocks, 2))
    links = np.r_[
        np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1),
        np.stack([number[:-1].ravel(), number[1:].ravel()], 1),
    ]
    links = links[random.random(len(links)) >= missing]
    start, end = crossings[links[:, 0]], crossings[links[:, 1]]
    way = end - start
    aside = np.stack([-way[:, 1], way[:, 0]], 1) * random.uniform(-0.06, 0.06, (len(links), 1))
    thirds = [start + share * way + aside for share in (1 / 3, 2 / 3)]
    points = np.concatenate([crossings, *thirds])
    first = len(crossings) + np.arange(len(links))
    second = first + len(links)
    return road_graph(points, np.r_[np.c_[links[:, 0], first], np.c_[first, second], np.c_[second, links[:, 1]]])


@dataclass(frozen=True)
class ErrorInjector:
    """Injects typical mistakes. With the same seed, a larger number of one kind includes the smaller."""

    sizes: MistakeSizes = MistakeSizes()

    def inject(self, mistake: Mistake, graph: RoadGraph, amount: float, seed: int) -> tuple[RoadGraph, RoadGraph]:
        """A truth and a prediction that differ by ``amount`` mistakes (for ``far``: by that share of the roads)."""
        random = np.random.default_rng(seed)
        if mistake == "far":
            return self.cut_off(graph, amount, random), graph
        count = int(amount)
        if mistake == "interruptions":
            return graph, self.interrupted(graph, count, random)
        if mistake == "overconnections":
            return graph, self.overconnected(graph, count, random)
        if mistake == "perturbations":
            return graph, self.perturbed(graph, count, random)
        doubled = self.doubled(graph, count, random)
        return (graph, doubled) if mistake == "doubled" else (doubled, graph)

    def interrupted(self, graph: RoadGraph, count: int, random: np.random.Generator) -> RoadGraph:
        """Cuts gaps into roads, away from junctions and from each other."""
        gap = self.sizes.gap
        pieces = graph.canonical.split(gap)
        inner = (pieces.degrees[pieces.edges] == 2).all(1)
        middles = pieces.points[pieces.edges].mean(1)
        features = pieces.points[pieces.degrees != 2]
        away = cKDTree(features).query(middles)[0] > 2 * gap if len(features) else np.ones(len(pieces), bool)
        chosen = _apart(np.flatnonzero(inner & away), middles, 3 * gap, count, random, "interruptions")
        gone = np.zeros(len(pieces), bool)
        gone[chosen] = True
        return pieces.without(gone)

    def overconnected(self, graph: RoadGraph, count: int, random: np.random.Generator) -> RoadGraph:
        """Adds straight roads between random points, with no road near their middle."""
        pieces = graph.canonical.split(40.0)
        tree = cKDTree(pieces.points)
        added: list[tuple[int, int]] = []
        for _ in range(200 * max(count, 1)):
            if len(added) == count:
                break
            a = int(random.integers(len(pieces.points)))
            others = np.array(tree.query_ball_point(pieces.points[a], self.sizes.longest))
            b = int(others[random.integers(len(others))])
            line = pieces.points[a] + np.linspace(0.25, 0.75, 5)[:, None] * (pieces.points[b] - pieces.points[a])
            middle = near(line[2:3], pieces, 30.0)
            if a != b and (min(a, b), max(a, b)) not in added and not len(middle.point):
                added.append((min(a, b), max(a, b)))
        if len(added) < count:
            raise VergenceError(f"the map has room for {len(added)} overconnections, not {count}")
        return road_graph(pieces.points, np.r_[pieces.edges, np.array(added, np.int64).reshape(-1, 2)])

    def perturbed(self, graph: RoadGraph, count: int, random: np.random.Generator) -> RoadGraph:
        """Moves points, with their roads attached."""
        pieces = graph.canonical.split(60.0)
        order = random.permutation(len(pieces.points))
        if count > len(order):
            raise VergenceError(f"the map has room for {len(order)} perturbations, not {count}")
        turn = random.uniform(0, 2 * np.pi, len(order))
        move = self.sizes.shift * np.stack([np.cos(turn), np.sin(turn)], 1)
        points = pieces.points.copy()
        points[order[:count]] += move[:count]
        return pieces.moved(points)

    def doubled(self, graph: RoadGraph, count: int, random: np.random.Generator) -> RoadGraph:
        """Adds parallel copies of parts of roads, connected at both ends."""
        pieces = graph.canonical.split(15.0)
        steps = max(int(self.sizes.copied / 15.0), 3)
        stretches = [
            nodes[i : i + steps + 1] for nodes, _ in roads(pieces) for i in range(1, len(nodes) - steps - 1, steps)
        ]
        if count > len(stretches):
            raise VergenceError(f"the map has room for {len(stretches)} doubled roads, not {count}")
        order = random.permutation(len(stretches))
        sides = random.choice([-1.0, 1.0], len(stretches))
        result = pieces
        for index in order[:count]:
            result = result.joined(_beside(pieces.points[stretches[index]], sides[index] * self.sizes.aside))
        return result

    def cut_off(self, graph: RoadGraph, share: float, random: np.random.Generator) -> RoadGraph:
        """Removes a share of the roads, all on one side."""
        if not 0 <= share < 1:
            raise VergenceError(f"a share of the roads to cut off is from 0 to below 1, got {share}")
        pieces = graph.canonical.split(10.0)
        turn = random.uniform(0, 2 * np.pi)
        position = pieces.points[pieces.edges].mean(1) @ np.array([np.cos(turn), np.sin(turn)])
        order = np.argsort(position, kind="stable")
        gone = np.zeros(len(pieces), bool)
        gone[order[np.cumsum(pieces.lengths[order]) <= share * pieces.length]] = True
        return pieces.without(gone)

    def mixed(self, graph: RoadGraph, counts: dict[Mistake, float], seed: int) -> tuple[RoadGraph, RoadGraph]:
        """A pair of maps with several kinds of mistakes."""
        random = np.random.default_rng(seed)
        prediction = graph
        order: tuple[Mistake, ...] = ("doubled", "overconnections", "interruptions", "perturbations")
        for mistake in order:
            amount = int(counts.get(mistake, 0))
            if amount:
                prediction = self.inject(mistake, prediction, amount, int(random.integers(2**31)))[1]
        truth = graph
        if counts.get("doubled-truth"):
            truth = self.doubled(truth, int(counts["doubled-truth"]), random)
        if counts.get("far"):
            truth = self.cut_off(truth, counts["far"], random)
        return truth, prediction


def random_counts(random: np.random.Generator) -> dict[Mistake, float]:
    """Random numbers of mistakes of each kind, from none to the study's larger number."""
    return {m: float(random.integers(0, int(FEW_AND_MANY[m][1]) + 1)) for m in MISTAKES if m != "far"}


def crops(graph: RoadGraph, count: int, side: float, seed: int) -> list[RoadGraph]:
    """Square crops of a large map with much road in them."""
    random = np.random.default_rng(seed)
    low, high = graph.points.min(0), graph.points.max(0)
    corners = low + random.random((40, 2)) * np.maximum(high - low - side, 0)
    parts = [graph.inside(x, y, x + side, y + side) for x, y in corners.tolist()]
    # The half with more road, in the order of the draws.
    middle = float(np.median([part.length for part in parts]))
    return [part for part in parts if part.length >= middle and len(part)][:count]


def _apart(
    indices: Sequence[int] | np.ndarray,
    places: Floats,
    distance: float,
    count: int,
    random: np.random.Generator,
    what: str,
) -> list[int]:
    """Random indices, no two of which are nearer than ``distance``."""
    chosen: list[int] = []
    for index in random.permutation(np.asarray(indices)).tolist():
        if len(chosen) == count:
            break
        if not chosen or np.linalg.norm(places[chosen] - places[index], axis=1).min() >= distance:
            chosen.append(index)
    if len(chosen) < count:
        raise VergenceError(f"the map has room for {len(chosen)} {what}, not {count}")
    return chosen


def _beside(line: Floats, aside: float) -> RoadGraph:
    """A line beside another, from its first point to its last."""
    way = np.gradient(line, axis=0)
    normal = np.stack([-way[:, 1], way[:, 0]], 1) / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-12)
    points = np.r_[line[:1], (line + aside * normal)[1:-1], line[-1:]]
    return road_graph(points, np.c_[np.arange(len(points) - 1), np.arange(1, len(points))])
