"""The road measures by the algorithm of the public code (lcit/metrics_delin), vectorised where that is: the peer to be
faster than. OPT-P is in :mod:`~vergence.reference.roadmetrics_public_paths`.

Graphs are ``networkx.Graph`` with integer nodes and ``pos``. The choices are the public code's, also where the paper
says otherwise: starts that face empty space, hop counts as shortest paths, points on roads replaced by the nearest
node. Both random sources are arguments, a node with number 0 counts like the others, and fewer than five features are
no error. Work that the public code repeats for no result is left out: the largest node number is not searched for every
edge, and there are no arrays of Python objects.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

Floats = NDArray[np.float64]
SNAP = 25.0


def positions(graph: Any, nodes: Sequence[Any]) -> Floats:
    return np.array([graph.nodes[n]["pos"] for n in nodes], np.float64).reshape(-1, 2)


def spaced(graph: Any, spacing: float) -> Any:
    """A copy with regular nodes on every edge, about ``spacing`` apart."""
    cut = graph.copy()
    last = max(cut.nodes, default=-1)
    for u, v in list(cut.edges):
        a, b = (np.array(cut.nodes[n]["pos"]) for n in (u, v))
        shares = np.linspace(0, 1, int(np.round(np.linalg.norm(b - a) / spacing) + 1))[1:-1, None]
        inserted = a + shares * (b - a)
        if len(inserted):
            cut.remove_edge(u, v)
            numbers = range(last + 1, last + 1 + len(inserted))
            cut.add_nodes_from((n, {"pos": tuple(p)}) for n, p in zip(numbers, inserted, strict=True))
            nx.add_path(cut, (u, *numbers, v))
            last += len(inserted)
    return cut


def simplified(graph: Any, epsilon: float, source: random.Random) -> Any:
    """Removes nodes of degree 2 within ``epsilon`` of the line of their neighbours, in random order, until none is."""
    changed = True
    while changed:
        changed, nodes = False, list(graph.nodes)
        source.shuffle(nodes)
        for node in nodes:
            around = [n for n in graph[node] if n != node]
            if len(around) == 2:
                (x, y), (ax, ay), (bx, by) = (graph.nodes[n]["pos"] for n in (node, *around))
                base = math.hypot(bx - ax, by - ay)
                area = abs((bx - ax) * (y - ay) - (by - ay) * (x - ax))
                if (area / base if base else math.hypot(x - ax, y - ay)) <= epsilon:
                    graph.add_edge(*around)
                    graph.remove_node(node)
                    changed = True
    return graph


def start(graph: Any, shuffled: random.Random, drawn: np.random.Generator, away: float = SNAP) -> Any:
    """The nearest node to a random position that is farther than ``away`` from every node."""
    nodes = list(graph.nodes)
    shuffled.shuffle(nodes)
    nodes = nodes[:10_000]
    places = np.vstack([graph.nodes[n]["pos"] for n in nodes])
    low, high = places.min(0), places.max(0)
    for _ in range(10_000):
        distance = np.linalg.norm(places - drawn.uniform(low, high), axis=1)
        nearest = int(distance.argmin())
        if distance[nearest] > away:
            return nodes[nearest]
    return nodes[int(drawn.integers(len(nodes)))]


# CCQ ------------------------------------------------------------------------------------------------------------------


def ccq(truth: Any, prediction: Any, size: tuple[float, float], slack: float = 8.0, scale: float = 0.25) -> list[int]:
    """Right, predicted, found and actual pixels of drawings; graphs lie between 0 and ``size`` (width, height)."""
    masks = [_drawn(graph, size, scale) for graph in (truth, prediction)]
    away = [distance_transform_edt(np.logical_not(mask)) for mask in masks]
    counts = []
    for mask, distance in ((masks[1], away[0]), (masks[0], away[1])):
        areas = distance <= slack * scale, distance > slack * scale
        hits, misses = (int(np.logical_and(area, mask).sum()) for area in areas)
        counts += [hits, hits + misses]
    return counts


def _drawn(graph: Any, size: tuple[float, float], scale: float) -> NDArray[np.uint8]:
    segments = np.array([[graph.nodes[u]["pos"], graph.nodes[v]["pos"]] for u, v in graph.edges]) * scale
    picture = Image.new("RGB", (int(size[0] * scale), int(size[1] * scale)))
    pen = ImageDraw.Draw(picture)
    for a, b in segments.tolist():
        pen.line([round(x) for x in (*a, *b)], fill=(255, 255, 255), width=1)
    return np.array(picture)[:, :, 0]


# TLTS -----------------------------------------------------------------------------------------------------------------


def tlts(truth: Any, prediction: Any, pairs: int, seed: int, snap: float = SNAP, tolerance: float = 0.05) -> list[int]:
    """Numbers of correct, too long, too short and infeasible trips between nodes; the way with the fewest edges."""
    shuffled, drawn = random.Random(seed), np.random.default_rng(seed)
    g, h = (spaced(graph, snap // 3) for graph in (truth, prediction))
    there = list(h.nodes)
    places = positions(h, there)
    counts, done = [0, 0, 0, 0], 0
    while done < pairs:
        ends = [start(g, shuffled, drawn, snap) for _ in range(2)]
        actual = _hops(g, *ends) if ends[0] != ends[1] else None
        if actual is None:
            continue
        done += 1
        predicted = None
        distances = [np.linalg.norm(places - np.array(g.nodes[end]["pos"]), axis=1) for end in ends]
        if all(d.min() < snap for d in distances):
            predicted = _hops(h, *(there[int(d.argmin())] for d in distances))
        if predicted is None:
            counts[3] += 1
        else:
            gap = (predicted - actual) / actual
            counts[1 if gap > tolerance else 2 if gap < -tolerance else 0] += 1
    return counts


def _hops(graph: Any, a: Any, b: Any) -> float | None:
    """The length of the way with the fewest edges."""
    try:
        way = nx.shortest_path(graph, a, b)
    except nx.NetworkXNoPath:
        return None
    return float(sum(np.linalg.norm(np.array(graph.nodes[u]["pos"]) - np.array(graph.nodes[v]["pos"]))
                     for u, v in pairwise(way)))  # fmt: skip


# OPT-G and SUBG -------------------------------------------------------------------------------------------------------


def reached(graph: Any, source: Any, radius: float) -> Iterator[Any]:
    """Nodes by depth-first search that does not go on outside a circle, and leaves a junction only away from its start
    (children nearer by a quarter of the squared distance are skipped for good)."""
    x, y = graph.nodes[source]["pos"]
    visited, stack = {source}, [(len(graph[source]) > 2, 0.0, iter(graph[source]))]
    yield source
    while stack:
        crossing, before, children = stack[-1]
        child = next((c for c in children if c not in visited), None)
        if child is None:
            stack.pop()
            continue
        visited.add(child)
        u, v = graph.nodes[child]["pos"]
        far = (u - x) ** 2 + (v - y) ** 2
        if crossing and far < 0.75 * before:
            continue
        yield child
        if far <= radius**2:
            stack.append((len(graph[child]) > 2, far, iter(graph[child])))


def visited(own: Any, node: Any, other: Any, snap: float, radius: float) -> tuple[Floats, Floats]:
    """What is reached from a node and from the nearest node of the other map."""
    there = list(other.nodes)
    distance = np.linalg.norm(positions(other, there) - np.array(own.nodes[node]["pos"]), axis=1)
    nearest = int(distance.argmin())
    reach = list(reached(other, there[nearest], radius)) if distance[nearest] <= snap else []
    return positions(own, list(reached(own, node, radius))), positions(other, reach)


def control(graph: Any, source: random.Random, step: float = 10.0) -> Any:
    """Control points on simplified roads."""
    return spaced(simplified(graph.copy(), 5.0, source), step)


def opt_g(truth: Any, prediction: Any, starts: int, seed: int, snap: float = SNAP, radius: float = 300.0) -> list[int]:
    """TP, PP and AP: starts in a random map, the closest pair of control points first."""
    shuffled, drawn = random.Random(seed), np.random.default_rng(seed)
    g, h = (control(graph, shuffled) for graph in (truth, prediction))
    counts = np.zeros(3, np.int64)
    for _ in range(starts):
        if shuffled.random() < 0.5:
            a, b = visited(g, start(g, shuffled, drawn, snap), h, snap, radius)
        else:
            b, a = visited(h, start(h, shuffled, drawn, snap), g, snap, radius)
        counts += _closest_first(a, b, snap), len(b), len(a)
    return counts.tolist()


def _closest_first(a: Floats, b: Floats, snap: float) -> int:
    if not len(a) or not len(b):
        return 0
    distance = cdist(a, b)
    rows, columns = np.unravel_index(np.argsort(distance, axis=None), distance.shape)
    taken: tuple[set[int], set[int]] = set(), set()
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if distance[row, column] >= snap or len(taken[0]) == min(distance.shape):
            break
        if row not in taken[0] and column not in taken[1]:
            taken[0].add(row)
            taken[1].add(column)
    return len(taken[0])


def subg(truth: Any, prediction: Any, starts: int, seed: int, snap: float = SNAP, radius: float = 300.0) -> list[int]:
    """Right (distinct predicted points that are the nearest of a true one), predicted, found and actual."""
    shuffled, drawn = random.Random(seed), np.random.default_rng(seed)
    g, h = (control(graph, shuffled) for graph in (truth, prediction))
    counts = np.zeros(4, np.int64)
    for _ in range(starts):
        a, b = visited(g, start(g, shuffled, drawn, snap), h, snap, radius)
        right = found = 0
        if len(a) and len(b):
            distance = cdist(a, b)
            nearest = distance.argmin(1)
            near = distance[np.arange(len(a)), nearest] < snap
            right, found = len(set(nearest[near].tolist())), int(near.sum())
        counts += right, len(b), found, len(a)
    return counts.tolist()


# OPT-J ----------------------------------------------------------------------------------------------------------------


def opt_j(truth: Any, prediction: Any, snap: float = SNAP, existing: float = 1.0) -> tuple[int, int, int]:
    """TP, PP and AP: true features in turn among their five nearest, then the predicted ones that are left."""
    g, h = ([n for n in graph.nodes if len(graph.edges(n)) not in (0, 2)] for graph in (truth, prediction))
    forward, h_snapped = _matches(g, truth, prediction, snap, existing)
    left = [n for n in h if n not in set(forward.values())]
    backward, g_snapped = _matches(left, prediction, truth, snap, existing)
    pairs = [(len(g_snapped.edges(i)), len(h_snapped.edges(j)) if j is not None else 0) for i, j in forward.items()]
    pairs += [(len(g_snapped.edges(i)) if i is not None else 0, len(h_snapped.edges(j))) for j, i in backward.items()]
    return sum(min(p) for p in pairs), sum(b for _, b in pairs), sum(a for a, _ in pairs)


def _matches(features: list[Any], own: Any, other: Any, snap: float, existing: float) -> tuple[dict[Any, Any], Any]:
    """For each feature the node of the other map, with all features projected into that, that costs least."""
    if not features:
        return {}, other
    places = positions(own, features)
    snapped, projected = project(other, places, snap, existing)
    nodes = [n for n in snapped.nodes if len(snapped.edges(n)) not in (0, 2) or n in projected]
    distances, indices = cKDTree(positions(snapped, nodes)).query(places, k=min(5, len(nodes)))
    matches: dict[Any, Any] = {}
    used: set[Any] = set()
    rows = zip(features, distances.reshape(len(places), -1).tolist(), indices.reshape(len(places), -1), strict=True)
    for feature, distance, index in rows:
        best, order = math.inf, len(own.edges(feature))
        matches[feature] = None
        for far, number in zip(distance, index, strict=True):
            node = nodes[number]
            if far <= snap and node not in used:
                cost = far + 100 * abs(order - len(snapped.edges(node)))
                if cost < best:
                    best, matches[feature] = cost, node
        used.add(matches[feature])
    used.discard(None)
    return matches, snapped


def on_edges(points: Floats, first: Floats, last: Floats) -> tuple[Floats, Floats, Floats]:
    """Of all points (N) and segments (E): share along the segment, the closest point on it, and its distance."""
    way = (last - first)[None]
    share = ((points[:, None] - first[None]) * way).sum(2) / ((way * way).sum(2) + 1e-12)
    place = first[None] + np.clip(share, 0, 1)[:, :, None] * way
    return share, place, np.linalg.norm(place - points[:, None], axis=2)


def project(graph: Any, points: Floats, snap: float, existing: float) -> tuple[Any, set[Any]]:
    """A copy with a node where a point is closest to an edge, and the nodes that points were projected to."""
    snapped, edges = graph.copy(), list(graph.edges)
    first, last = positions(graph, [u for u, _ in edges]), positions(graph, [v for _, v in edges])
    share, place, distance = on_edges(points, first, last)
    inserted: dict[int, list[int]] = {}
    projected: set[Any] = set()
    for number in range(len(points)):
        edge = int(distance[number].argmin())
        if distance[number, edge] >= snap:
            continue
        u, v = edges[edge]
        if share[number, edge] <= 0 or np.linalg.norm(first[edge] - points[number]) < existing:
            projected.add(u)
        elif share[number, edge] >= 1 or np.linalg.norm(last[edge] - points[number]) < existing:
            projected.add(v)
        else:
            inserted.setdefault(edge, []).append(number)
            projected.add(("on", number))
    for edge, numbers in inserted.items():
        numbers.sort(key=lambda n: share[n, edge])
        snapped.add_nodes_from((("on", n), {"pos": tuple(place[n, edge])}) for n in numbers)
        snapped.remove_edge(*edges[edge])
        nx.add_path(snapped, (edges[edge][0], *(("on", n) for n in numbers), edges[edge][1]))
    return snapped, projected
