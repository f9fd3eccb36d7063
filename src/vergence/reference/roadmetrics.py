"""The eight road measures as they are defined, with networkx and all pairs: what the fast ones must agree with.

Graphs are ``networkx.Graph`` with ``pos`` and, as a measure asks for it, cut into short edges. What is drawn at random
(paths, starts, trips) is an input.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Floats = NDArray[np.float64]
Point = tuple[float, float]
TIE = 1e-9
SAME = 1e-6
"""Distances that differ by less are equal, in pixels."""


def closest_on_edges(graph: Any, point: Point) -> list[tuple[Any, float, float]]:
    """The closest point of every edge: edge, share along it, distance."""
    edges = list(graph.edges)
    if not edges:
        return []
    start = np.array([graph.nodes[u]["pos"] for u, _ in edges])
    way = np.array([graph.nodes[v]["pos"] for _, v in edges]) - start
    share = np.clip(((np.array(point) - start) * way).sum(1) / (way * way).sum(1), 0, 1)
    distance = np.hypot(*(np.array(point) - start - share[:, None] * way).T)
    return list(zip(edges, share.tolist(), distance.tolist(), strict=True))


def distance_to_segment(point: Floats, start: Floats, end: Floats) -> float:
    way = end - start
    share = min(max(float((point - start) @ way) / float(way @ way), 0.0), 1.0)
    return math.hypot(*(point - start - share * way))


def _length(graph: Any, u: Any, v: Any) -> float:
    return math.dist(graph.nodes[u]["pos"], graph.nodes[v]["pos"])


# OPT-P ----------------------------------------------------------------------------------------------------------------


def match_paths(paths: Sequence[Floats], target: Any, snap: float = 25.0) -> list[float]:
    """Scores of paths (T, 2), each matched to what the ones before it have left of the target."""
    left = target.copy()
    return [_path_score(path, left, snap) for path in paths]


def _path_score(path: Floats, target: Any, snap: float) -> float:
    """Viterbi over all edges in reach of each place, then removal of what was used."""
    states: list[list[Any]] = []
    for place in path:
        near = [c for c in closest_on_edges(target, tuple(place)) if c[2] <= snap]
        states.append([None, *near])
    cost, back = [[0.0 if s is None else _unary(s) for s in states[0]]], []
    regions = []
    for t in range(len(path) - 1):
        gap = 1e4 * float(((path[t + 1] - path[t]) ** 2).sum())
        region = _region(target, path[t], path[t + 1], snap, states[t] + states[t + 1])
        part = {node: number for number, nodes in enumerate(nx.connected_components(region)) for node in nodes}
        regions.append(region)
        row, came = [], []
        for b in states[t + 1]:
            options = []
            for i, a in enumerate(states[t]):
                joined = a is not None and b is not None and part[_name(a)] == part[_name(b)]
                options.append((cost[t][i] + (0.0 if joined else gap), not joined, i))
            best = min(options)
            row.append(best[0] + (0.0 if b is None else _unary(b)))
            came.append((best[2], not best[1]))
        cost.append(row)
        back.append(came)
    state = int(np.argmin(cost[-1]))
    chosen, joined_steps = [state], []
    for came in reversed(back):
        state, joined = came[state]
        chosen.append(state)
        joined_steps.append(joined)
    chosen, joined_steps = chosen[::-1], joined_steps[::-1]
    _remove_used(target, states, chosen, joined_steps, regions)
    return _connectivity(path, joined_steps)


def _unary(candidate: tuple[Any, float, float]) -> float:
    inside = 1e-9 < candidate[1] < 1 - 1e-9
    return candidate[2] ** 2 + TIE * inside


def _name(candidate: tuple[Any, float, float]) -> Any:
    """A candidate at a node is that node; one inside an edge is a new one."""
    (u, v), share, _ = candidate
    return u if share <= 1e-9 else v if share >= 1 - 1e-9 else ("inside", u, v, share)


def _region(target: Any, start: Floats, end: Floats, snap: float, candidates: Iterable[Any]) -> Any:
    """What of the target is in reach of a stretch, with the candidates inserted."""
    nodes = [n for n, d in target.nodes(data=True) if distance_to_segment(np.array(d["pos"]), start, end) <= snap]
    region = nx.Graph()
    region.add_nodes_from(nodes)
    for u, v in target.subgraph(nodes).edges:
        region.add_edge(u, v, weight=_length(target, u, v), part=((u, v), 0.0, 1.0))
    inside: dict[Any, list[tuple[float, Any]]] = {}
    for candidate in candidates:
        if candidate is None:
            continue
        name = _name(candidate)
        region.add_node(name)
        if isinstance(name, tuple):
            inside.setdefault(candidate[0], []).append((candidate[1], name))
    for (u, v), stops in inside.items():
        length = _length(target, u, v)
        line = [(0.0, u), *sorted(stops), (1.0, v)]
        for (a, m), (b, n) in pairwise(line):
            if m in region and n in region and m != n:
                region.add_edge(m, n, weight=(b - a) * length, part=((u, v), a, b))
    return region


def _remove_used(target: Any, states: Any, chosen: list[int], joined: list[bool], regions: list[Any]) -> None:
    covered: dict[Any, list[float]] = {}
    for t, is_joined in enumerate(joined):
        if is_joined:
            a, b = _name(states[t][chosen[t]]), _name(states[t + 1][chosen[t + 1]])
            way = nx.shortest_path(regions[t], a, b, weight="weight")
            for m, n in pairwise(way):
                (u, v), low, high = regions[t].edges[m, n]["part"]
                part = (low, high) if u < v else (1 - high, 1 - low)  # counted from the same end every time
                covered.setdefault(frozenset((u, v)), []).extend(part)
    for edge, shares in covered.items():
        if max(shares) - min(shares) >= 0.5:
            target.remove_edge(*edge)


def _connectivity(path: Floats, joined: Sequence[bool]) -> float:
    steps = np.hypot(*np.diff(path, axis=0).T)
    runs, run = [], 0.0
    for step, is_joined in zip(steps, joined, strict=True):
        if is_joined:
            run += step
        else:
            runs.append(run)
            run = 0.0
    return sum(r * r for r in [*runs, run]) / float(steps.sum()) ** 2


# OPT-J ----------------------------------------------------------------------------------------------------------------


def opt_j(truth: Any, prediction: Any, snap: float = 25.0, alpha: float = 0.01) -> tuple[int, int, int]:
    """TP, PP and AP of the cheapest matches first."""
    g, h = ({n: d for n, d in graph.degree if d != 2} for graph in (truth, prediction))
    options: list[tuple[float, bool, float, Any, Any]] = []
    for i, order in g.items():
        here = truth.nodes[i]["pos"]
        for j, other in h.items():
            far = math.dist(here, prediction.nodes[j]["pos"])
            if far <= snap:
                options.append((alpha * far + abs(order - other), False, far, i, j))
        far = min((c[2] for c in closest_on_edges(prediction, here)), default=math.inf)
        if far <= snap:
            options.append((alpha * far + abs(order - 2), True, far, i, None))
    for j, other in h.items():
        far = min((c[2] for c in closest_on_edges(truth, prediction.nodes[j]["pos"])), default=math.inf)
        if far <= snap:
            options.append((alpha * far + abs(other - 2), True, far, None, j))
    hits = predicted = actual = 0
    free_g, free_h = set(g), set(h)
    for _, _, _, i, j in sorted(options, key=lambda o: (round(o[0], 7), o[1], round(o[2], 5))):
        if (i is None or i in free_g) and (j is None or j in free_h):
            a, b = 2 if i is None else g[i], 2 if j is None else h[j]
            hits, predicted, actual = hits + min(a, b), predicted + b, actual + a
            free_g.discard(i)
            free_h.discard(j)
    return hits, predicted + sum(h[j] for j in free_h), actual + sum(g[i] for i in free_g)


# OPT-G and SUBG -------------------------------------------------------------------------------------------------------


def reached(graph: Any, place: Point, radius: float) -> Floats:
    """Control points within a distance along the roads from the closest point to a place."""
    (u, v), share, _ = min(closest_on_edges(graph, place), key=lambda c: c[2])
    far: dict[Any, float] = {}
    for node, offset in ((u, share * _length(graph, u, v)), (v, (1 - share) * _length(graph, u, v))):
        weight = lambda a, b, _: _length(graph, a, b)  # noqa: E731
        for n, d in nx.single_source_dijkstra_path_length(graph, node, radius + SAME, weight).items():
            far[n] = min(far.get(n, math.inf), d + offset)
    return np.array([graph.nodes[n]["pos"] for n in sorted(far) if far[n] <= radius + SAME]).reshape(-1, 2)


def visits(graph: Any, other: Any, starts: Sequence[Point], snap: float, radius: float) -> list[tuple[Floats, Floats]]:
    """From each start, what is reached in its own map and in the other."""
    found = []
    for start in starts:
        near = min((c[2] for c in closest_on_edges(other, start)), default=math.inf) <= snap
        found.append((reached(graph, start, radius), reached(other, start, radius) if near else np.zeros((0, 2))))
    return found


def opt_g(truth: Any, prediction: Any, starts: tuple[Sequence[Point], Sequence[Point]], snap: float = 25.0,
          radius: float = 300.0) -> tuple[int, int, int]:  # fmt: skip
    """TP, PP and AP over starts in the truth and in the prediction."""
    pairs = visits(truth, prediction, starts[0], snap, radius)
    pairs += [(a, b) for b, a in visits(prediction, truth, starts[1], snap, radius)]
    hits = 0
    for a, b in pairs:
        if len(a) and len(b):
            distance = np.hypot(*(a[:, None] - b[None]).transpose(2, 0, 1))
            rows, columns = linear_sum_assignment(np.minimum(distance, snap))
            hits += int((distance[rows, columns] < snap).sum())
    return hits, sum(len(b) for _, b in pairs), sum(len(a) for a, _ in pairs)


def subg(truth: Any, prediction: Any, starts: Sequence[Point], snap: float = 25.0,
         radius: float = 300.0) -> tuple[int, int, int, int]:  # fmt: skip
    """Right, predicted, found and actual; a predicted point may answer to many true ones, and is right once."""
    right = predicted = found = actual = 0
    for a, b in visits(truth, prediction, starts, snap, radius):
        nearest = []
        for p in a if len(b) else ():
            distance = np.hypot(*(b - p).T)
            if distance.min() < snap:
                nearest.append(next(i for i, d in enumerate(distance) if d <= distance.min() + SAME))
        right, predicted = right + len(set(nearest)), predicted + len(b)
        found, actual = found + len(nearest), actual + len(a)
    return right, predicted, found, actual


# CCQ, trips, JUNCT ----------------------------------------------------------------------------------------------------


def covered(own: Any, other: Any, slack: float = 8.0) -> tuple[float, float]:
    """CCQ: length of the edges whose middle is near the other map, and of all."""
    near = total = 0.0
    for u, v in own.edges:
        length, (a, b) = _length(own, u, v), (own.nodes[n]["pos"] for n in (u, v))
        total += length
        middle = ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2)
        near += length * (min((c[2] for c in closest_on_edges(other, middle)), default=math.inf) <= slack)
    return near, total


def travel(graph: Any, trips: Sequence[tuple[Point, Point]], snap: float = 25.0) -> list[float]:
    """The shortest way between the closest points to both ends of each trip; infinite where there is none."""
    whole = nx.Graph(graph)
    for u, v in whole.edges:
        whole.edges[u, v]["weight"] = _length(whole, u, v)
    found = []
    for trip in trips:
        ends = [min(closest_on_edges(graph, place), key=lambda c: c[2], default=None) for place in trip]
        if any(end is None or end[2] > snap for end in ends):
            found.append(math.inf)
            continue
        local = whole.copy()
        stops: dict[Any, list[tuple[float, str]]] = {}
        for name, (edge, share, _) in zip("ab", ends, strict=True):  # type: ignore[misc]
            stops.setdefault(edge, []).append((share, name))
        for (u, v), places in stops.items():
            line = [(0.0, u), *sorted(places), (1.0, v)]
            for (s, m), (t, n) in pairwise(line):
                local.add_edge(m, n, weight=(t - s) * _length(graph, u, v))
        try:
            found.append(float(nx.shortest_path_length(local, "a", "b", weight="weight")))
        except nx.NetworkXNoPath:
            found.append(math.inf)
    return found


def junct(truth: Any, prediction: Any, snap: float = 25.0, arm: float = 25.0) -> tuple[float, float, int]:
    """Correct, wrong, and how many true junctions, with arms matched within a right angle."""
    v, u = (_junctions(graph, arm) for graph in (truth, prediction))
    pairs = [(math.dist(p, q), i, j) for i, (p, _) in enumerate(v) for j, (q, _) in enumerate(u)]
    free_v, free_u = set(range(len(v))), set(range(len(u)))
    correct = wrong = 0.0
    for far, i, j in sorted(pairs):
        if far <= snap and i in free_v and j in free_u:
            free_v.discard(i)
            free_u.discard(j)
            angles = sorted(
                (abs((a - b + math.pi) % (2 * math.pi) - math.pi), m, n)
                for m, a in enumerate(v[i][1])
                for n, b in enumerate(u[j][1])
            )
            left, right = set(range(len(v[i][1]))), set(range(len(u[j][1])))
            for angle, m, n in angles:
                if angle <= math.pi / 2 and m in left and n in right:
                    left.discard(m)
                    right.discard(n)
            correct += 1 - len(left) / len(v[i][1])
            wrong += len(right) / len(u[j][1])
    return correct, wrong + len(free_u), len(v)


def _junctions(graph: Any, arm: float) -> list[tuple[Point, list[float]]]:
    found = []
    for node, degree in graph.degree:
        if degree >= 3:
            place = graph.nodes[node]["pos"]
            arms = []
            for neighbour in graph[node]:
                line, before, here = [place], node, neighbour
                while True:
                    line.append(graph.nodes[here]["pos"])
                    if graph.degree(here) != 2 or here == node:
                        break
                    before, here = here, next(n for n in graph[here] if n != before)
                x, y = _after(line, arm)
                arms.append(math.atan2(y - place[1], x - place[0]))
            found.append((place, arms))
    return found


def _after(line: list[Point], far: float) -> Point:
    total = sum(math.dist(a, b) for a, b in pairwise(line))
    left = min(far, total / 2)
    for a, b in pairwise(line):
        step = math.dist(a, b)
        if left <= step:
            return a[0] + (b[0] - a[0]) * left / step, a[1] + (b[1] - a[1]) * left / step
        left -= step
    return line[-1]
