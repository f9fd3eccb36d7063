"""JUNCT: the share of roads at each junction that exist at its matched junction.

Only nodes with at least three roads count, so an interruption between junctions goes unnoticed, and a junction of three
that lost a road counts as missing.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from vergence.maps.geometry import within
from vergence.maps.graph import Floats, RoadGraph, as_graph
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.roads import roads
from vergence.maps.settings import Junct


class Junction(NamedTuple):
    place: Floats
    arms: list[float]
    """Directions of its roads, as angles."""


def junct(truth: Any, prediction: Any, settings: Junct = Junct()) -> Agreement:
    """``F_correct`` as recall and ``1 - F_error`` as precision."""
    graphs = [as_graph(x, name).canonical for x, name in ((truth, "the truth"), (prediction, "the prediction"))]
    v, u = (junctions(graph, settings) for graph in graphs)
    if not v and not u and (len(graphs[0]) or len(graphs[1])):  # nothing to compare: alike if both have roads
        alike = float(bool(len(graphs[0]) and len(graphs[1])))
        return Agreement(alike, 1, alike, 1)
    correct, wrong, matched = 0.0, 0.0, set()
    for i, j in _closest_first(v, u, settings.snap):
        hits = _arms_in_common(v[i].arms, u[j].arms, math.radians(settings.angle))
        correct += hits / len(v[i].arms)
        wrong += 1 - hits / len(u[j].arms)
        matched.add(j)
    wrong += len(u) - len(matched)
    return Agreement(correct, wrong + correct, correct, float(len(v)))


def junctions(graph: RoadGraph, settings: Junct) -> list[Junction]:
    """Nodes (or clusters of them) with at least three roads, and the directions of those."""
    nodes = np.flatnonzero(graph.degrees >= 3)
    if not len(nodes):
        return []
    pairs = cKDTree(graph.points[nodes]).query_pairs(settings.cluster, output_type="ndarray")
    links = sparse.coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(nodes),) * 2)
    groups, label = connected_components(links, directed=False)
    size = np.bincount(label)
    places = np.stack([np.bincount(label, graph.points[nodes, k]) / size for k in (0, 1)], 1)
    group = dict(zip(nodes.tolist(), label.tolist(), strict=True))
    arms: list[list[float]] = [[] for _ in range(groups)]
    for along_road, edges in roads(graph):
        ends = group.get(along_road[0]), group.get(along_road[-1])
        line = graph.points[along_road].tolist()
        if ends[0] is not None and ends[0] == ends[1] and graph.lengths[edges].sum() <= 2 * settings.cluster:
            continue  # inside a group
        for number, way in ((ends[0], line), (ends[1], line[::-1])):
            if number is not None:
                x, y = _after(way, settings.arm)
                arms[number].append(math.atan2(y - places[number, 1], x - places[number, 0]))
    return [Junction(place, a) for place, a in zip(places, arms, strict=True) if len(a) >= 3]


def _after(line: list[list[float]], far: float) -> tuple[float, float]:
    """The point at this distance along a line, at most at half its length."""
    steps = [math.dist(a, b) for a, b in pairwise(line)]
    left = min(far, sum(steps) / 2)
    for (a, b), step in zip(pairwise(line), steps, strict=True):
        if left <= step:
            return a[0] + (b[0] - a[0]) * left / step, a[1] + (b[1] - a[1]) * left / step
        left -= step
    return line[-1][0], line[-1][1]


def _closest_first(v: list[Junction], u: list[Junction], snap: float) -> list[tuple[int, int]]:
    true, predicted = (np.array([j.place for j in side]).reshape(-1, 2) for side in (v, u))
    rows, columns, distance = within(true, predicted, snap)
    order = np.lexsort((columns, rows, np.round(distance, 6)))
    taken: tuple[set[int], set[int]] = set(), set()
    chosen = []
    for i, j in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if i not in taken[0] and j not in taken[1]:
            chosen.append((i, j))
            taken[0].add(i)
            taken[1].add(j)
    return chosen


def _arms_in_common(a: list[float], b: list[float], tolerance: float) -> int:
    """Arms matched one to one, the smallest angle between them first."""
    turn = 2 * math.pi
    pairs = sorted((abs((x - y + math.pi) % turn - math.pi), i, j) for i, x in enumerate(a) for j, y in enumerate(b))
    free_a, free_b = set(range(len(a))), set(range(len(b)))
    for between, i, j in pairs:
        if between <= tolerance and i in free_a and j in free_b:
            free_a.discard(i)
            free_b.discard(j)
    return len(a) - len(free_a)
