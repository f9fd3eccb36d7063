"""Decomposition of a map into edge-disjoint paths, for OPT-P."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from vergence.maps.graph import RoadGraph
from vergence.maps.roads import Road, roads


class Path(NamedTuple):
    """A path, as numbers of the source's nodes and edges."""

    nodes: list[int]
    edges: list[int]


def decompose(graph: RoadGraph, seed: int, loops: str = "whole") -> list[Path]:
    """Random edge-disjoint paths that cover the graph, each from one dead end to another.

    Parts without a dead end are decomposed into rings.
    """
    stretches = roads(graph)
    random = np.random.default_rng(seed)
    left = _Left(stretches)
    paths = []
    while left.count:
        taken = left.walk(random)
        paths.append(_path(stretches, taken))
        if loops == "open" and len(paths[-1].edges) > 1 and _closes(paths[-1]):
            *nodes, last = paths[-1].nodes
            *edges, closing = paths[-1].edges
            paths[-1:] = [Path(nodes, edges), Path([nodes[-1], last], [closing])]
        left.remove(taken)
    return paths


def _closes(path: Path) -> bool:
    return path.nodes[-1] in path.nodes[:-1]


class _Left:
    """The roads that no path has taken yet."""

    def __init__(self, stretches: list[Road]) -> None:
        self.ends = [(road.nodes[0], road.nodes[-1]) for road in stretches]
        self.at: dict[int, list[int]] = {}
        for number, (u, v) in enumerate(self.ends):
            self.at.setdefault(u, []).append(number)
            self.at.setdefault(v, []).append(number)  # a ring is twice at its node
        self.count = len(stretches)
        self.dead_ends = _Bag(n for n, there in self.at.items() if len(there) == 1)
        self.nodes = _Bag(self.at)

    def walk(self, random: np.random.Generator) -> list[tuple[int, bool]]:
        """Roads from a random dead end to another (and whether each is walked forward), by depth-first search."""
        start = (self.dead_ends or self.nodes).pick(random)
        no_other = len(self.dead_ends) == 0
        seen: set[int] = set()
        way: list[tuple[int, bool]] = []
        stuck: list[tuple[int, bool]] = []
        node = start
        while True:
            if way and len(self.at[node]) == 1:
                return way
            choices = list(dict.fromkeys(number for number in self.at[node] if number not in seen))
            if choices:
                number = choices[int(random.integers(len(choices)))] if len(choices) > 1 else choices[0]
                seen.add(number)
                u, v = self.ends[number]
                way.append((number, node == u))
                node = v if node == u else u
                continue
            stuck = stuck or list(way)
            if no_other or not way:
                return stuck
            number, forward = way.pop()
            node = self.ends[number][0 if forward else 1]

    def remove(self, taken: list[tuple[int, bool]]) -> None:
        for number, _ in taken:
            for node in self.ends[number]:
                there = self.at[node]
                there.remove(number)
                if len(there) == 1:
                    self.dead_ends.add(node)
                else:
                    self.dead_ends.discard(node)
                if not there:
                    self.nodes.discard(node)
        self.count -= len(taken)


class _Bag:
    """A set with random choice in constant time, deterministic for the same history."""

    def __init__(self, items: Iterable[int]) -> None:
        self.items = sorted(items)
        self.place = {item: index for index, item in enumerate(self.items)}

    def __len__(self) -> int:
        return len(self.items)

    def pick(self, random: np.random.Generator) -> int:
        return self.items[int(random.integers(len(self.items)))]

    def add(self, item: int) -> None:
        if item not in self.place:
            self.place[item] = len(self.items)
            self.items.append(item)

    def discard(self, item: int) -> None:
        index = self.place.pop(item, None)
        if index is not None:
            last = self.items.pop()
            if last != item:
                self.items[index] = last
                self.place[last] = index


def _path(stretches: list[Road], taken: list[tuple[int, bool]]) -> Path:
    nodes: list[int] = []
    edges: list[int] = []
    for number, forward in taken:
        road = stretches[number]
        step = road.nodes if forward else road.nodes[::-1]
        nodes += step[1 if nodes else 0 :]
        edges += road.edges if forward else road.edges[::-1]
    return Path(nodes, edges)
