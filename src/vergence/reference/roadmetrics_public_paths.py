"""OPT-P by the algorithm of the public code, vectorised where that is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from vergence.reference.roadmetrics_public import SNAP, Floats, on_edges, positions


def opt_p(truth: Any, prediction: Any, seed: int, snap: float = SNAP, existing: float = 10.0) -> tuple[float, float]:
    """Path precision and recall."""
    source = random.Random(seed)
    recall = path_score(prediction.copy(), truth, source, snap, existing)
    return path_score(truth.copy(), prediction, source, snap, existing), recall


def path_score(target: Any, own: Any, source: random.Random, snap: float, existing: float, piece: float = 25.0,
               hops: int = 5) -> float:  # fmt: skip
    """The mean score of the paths of a map that are matched before nothing of the target is left."""
    last, scores = max(target.nodes, default=0), []
    for chain in decomposed(own.copy(), source):
        if not target.number_of_edges():
            break
        if len(chain) < 2:
            continue
        path = _halved(positions(own, chain), piece)
        states = candidates(target, path, snap, existing)
        costs, ways = connections(target, path, states, snap, hops)
        chosen = viterbi(states, costs)
        joined = [ways[i].get((a, b)) for i, (a, b) in enumerate(pairwise(chosen))]
        steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
        runs = [0.0]
        for step, way in zip(steps.tolist(), joined, strict=True):
            runs[-1:] = [runs[-1] + step] if way else [runs[-1], 0.0]
        scores.append(sum(run * run for run in runs) / float(steps.sum()) ** 2)
        for way in joined:
            for u, v in pairwise(way or ()):
                if target.has_edge(u, v):
                    target.remove_edge(u, v)
        _cleaned(target, last)
    return float(np.mean(scores)) if scores else 0.0


def _cleaned(graph: Any, last: Any) -> None:
    """Removes inserted nodes, joining their two neighbours, and nodes without an edge."""
    for node in list(graph.nodes):
        around = list(graph[node])
        if not around:
            graph.remove_node(node)
        elif node > last and len(around) == 2:
            graph.add_edge(*around)
            graph.remove_node(node)


def decomposed(graph: Any, source: random.Random) -> list[list[Any]]:
    """Random chains between dead ends until no edge is left; without dead ends, loops without their last edge."""
    paths = []
    while graph.number_of_nodes():
        chain = _chain(graph, source)
        graph.remove_edges_from(pairwise(chain))
        graph.remove_nodes_from([n for n in chain if not len(graph[n])])
        paths.append(chain)
    return paths


def _chain(graph: Any, source: random.Random) -> list[Any]:
    nodes = [n for n in graph.nodes if len(graph[n]) == 1] or list(graph.nodes)
    chain = [nodes[source.randrange(len(nodes))]]
    loop, on_path, seen, edges = list(chain), set(chain), set(chain), set()
    while chain:
        node = chain[-1]
        if len(chain) > 1 and len(graph[node]) == 1:
            return chain
        ways = [m for m in graph[node] if frozenset((node, m)) not in edges]
        if ways:
            neighbour = ways[source.randrange(len(ways))]
            edges.add(frozenset((node, neighbour)))
            if neighbour in on_path:
                loop = list(chain)
            elif neighbour not in seen:
                chain.append(neighbour)
                on_path.add(neighbour)
                seen.add(neighbour)
        else:
            on_path.discard(chain.pop())
    return loop


def _halved(path: Floats, piece: float) -> Floats:
    points, place = list(path), 0
    while place < len(points) - 1:
        if float(((points[place] - points[place + 1]) ** 2).sum()) > piece**2:
            points.insert(place + 1, 0.5 * (points[place] + points[place + 1]))
        else:
            place += 1
    return np.array(points)


def candidates(graph: Any, path: Floats, snap: float, existing: float) -> list[list[tuple[float, Any]]]:
    """By point of a path: no match, and the node (inserted if need be) at the closest point of every edge in reach."""
    edges = list(graph.edges)
    first, last = positions(graph, [u for u, _ in edges]), positions(graph, [v for _, v in edges])
    share, place, distance = (part.swapaxes(0, 1) for part in on_edges(path, first, last))
    share = np.where(distance < snap, np.clip(share, 0, 1), 10.0)
    order = np.argsort(share, axis=1)
    number = max(graph.nodes)
    states: list[list[tuple[float, Any]]] = [[(0.0, None)] for _ in path]
    for edge, (u, v) in enumerate(edges):
        before, here, end = u, graph.nodes[u]["pos"], graph.nodes[v]["pos"]
        for point in order[edge].tolist():
            if share[edge, point] > 1:
                break
            spot = place[edge, point].tolist()
            if math.dist(spot, end) <= existing:
                states[point].append((distance[edge, point] ** 2, v))
                continue
            if math.dist(spot, here) > existing:
                number += 1
                graph.add_node(number, pos=tuple(spot))
                graph.add_edge(before, number)
                before, here = number, spot
            states[point].append((distance[edge, point] ** 2, before))
        if before != u:
            graph.add_edge(before, v)
            graph.remove_edge(u, v)
    return states


def connections(graph: Any, path: Floats, states: Any, snap: float, hops: int) -> tuple[list[Floats], list[Any]]:
    """Between neighbouring points: costs of all pairs of candidates, and the ways of those that are connected."""
    nodes = list(graph.nodes)
    distance = on_edges(positions(graph, nodes), path[:-1], path[1:])[2]  # (nodes, pieces)
    costs: list[Floats] = []
    ways: list[dict[tuple[int, int], list[Any]]] = []
    for number in range(len(path) - 1):
        near = [nodes[n] for n in np.flatnonzero(distance[:, number] < snap)]
        region = nx.Graph()
        region.add_nodes_from(near)
        for i, node in enumerate(near):
            region.add_edges_from((node, other) for other in near[i + 1 :] if graph.has_edge(node, other))
        reach = dict(nx.all_pairs_shortest_path(region, cutoff=hops))
        gap = 1e4 * float(((path[number + 1] - path[number]) ** 2).sum())
        costs.append(np.full((len(states[number]), len(states[number + 1])), gap))
        ways.append({})
        for i, (_, a) in enumerate(states[number][1:], 1):
            for j, (_, b) in enumerate(states[number + 1][1:], 1):
                if a in reach and b in reach[a]:
                    costs[-1][i, j] = 0.0
                    ways[-1][i, j] = reach[a][b]
    return costs, ways


def viterbi(states: Any, costs: Sequence[Floats]) -> list[int]:
    total, back = np.array([square for square, _ in states[0]]), []
    for place, cost in enumerate(costs, 1):
        whole = total[:, None] + cost
        back.append(whole.argmin(0))
        total = whole.min(0) + np.array([square for square, _ in states[place]])
    chosen = [int(total.argmin())]
    for came in reversed(back):
        chosen.append(int(came[chosen[-1]]))
    return chosen[::-1]
