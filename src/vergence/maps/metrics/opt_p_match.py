"""Paths of one map matched to another by dynamic programming, for OPT-P.

A point of a path may match any road nearby or none, and two neighbouring points are connected if their roads are,
within reach of the piece between them. All geometry (which roads are near which points) is computed once, by trees; a
path then costs one pass over its points, each with the few roads in its reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vergence.maps.geometry import near, starts_of
from vergence.maps.graph import Floats, Ints, RoadGraph
from vergence.maps.metrics.opt_p_paths import Path, decompose
from vergence.maps.metrics.opt_p_target import Candidate, Target
from vergence.maps.settings import OptP

BREAK = 1e4
"""Cost of a gap per square pixel of its length, relative to the squared distance of a match."""
TIE = 1e-9
"""Extra cost of a match inside an edge over one at a node, in square pixels: it matches a map to itself node by node
where two roads coincide."""


class Match(NamedTuple):
    """The match of one decomposition."""

    paths: list[Path]
    scores: list[float]
    """Scores of the paths, in order."""
    lengths: list[float]
    matched: NDArray[np.bool_]
    """Mask of the source's pieces that are connected in the target."""
    skipped: int = 0
    """Number of last paths for which nothing of the target was left."""


class _Column(NamedTuple):
    """The candidates of a point of a path, each with its cost and the linked candidate before it (-1: a gap)."""

    candidates: list[Candidate]
    costs: list[float]
    came: list[int]
    best_before: int
    """The cheapest candidate of the point before (-1: none)."""


@dataclass(frozen=True, eq=False)
class Matcher:
    """Matches paths of a source to a target, both split into pieces."""

    source: RoadGraph
    target: RoadGraph
    settings: OptP = field(default_factory=OptP)

    def match(self, seed: int) -> Match:
        """Decomposes the source at random and matches each path to what earlier ones have left of the target."""
        paths = decompose(self.source, seed, self.settings.loops)
        return self.match_paths(paths)

    def match_paths(self, paths: list[Path]) -> Match:
        """Matches the given paths, in order."""
        target = Target(self.target, self.settings.hops)
        matched = np.zeros(len(self.source), bool)
        scores, lengths, skipped = [], [], 0
        for path in paths:
            steps = self.source.lengths[path.edges]
            connected = self._match_path(path, steps, target) if target.edges_left else np.zeros(len(steps), bool)
            skipped += not target.edges_left and not connected.any()
            matched[np.array(path.edges)[connected]] = True
            lengths.append(float(steps.sum()))
            scores.append(connectivity(steps, connected))
        return Match(paths, scores, lengths, matched, skipped)

    @cached_property
    def _near(self) -> list[list[Candidate]]:
        """By source node: the closest point of every target edge in reach."""
        found = near(self.source.points, self.target, self.settings.snap)
        inside = (found.share > 1e-9) & (found.share < 1 - 1e-9)
        node = np.where(inside, -1, self.target.edges[found.edge, (found.share > 0.5).astype(np.int64)])
        columns = found.edge, found.share, node, found.distance**2 + TIE * inside
        rows = list(map(Candidate, *(column.tolist() for column in columns)))
        starts = starts_of(found.point, len(self.source.points)).tolist()
        return [rows[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]

    @cached_property
    def _regions(self) -> tuple[Ints, list[int], list[frozenset[int] | None]]:
        """Target nodes in reach of the source's pieces, by piece; where a piece's begin; and as sets, once asked for."""
        found = near(self.target.points, self.source, self.settings.snap)
        order = np.argsort(found.edge, kind="stable")
        starts = starts_of(found.edge[order], len(self.source)).tolist()
        return found.point[order], starts, [None] * len(self.source)

    def _region(self, piece: int) -> frozenset[int]:
        """Target nodes in reach of a source piece. An edge between two of them is in reach too, which is convex."""
        nodes, starts, regions = self._regions
        region = regions[piece]
        if region is None:
            region = regions[piece] = frozenset(nodes[starts[piece] : starts[piece + 1]].tolist())
        return region

    def _match_path(self, path: Path, steps: Floats, target: Target) -> NDArray[np.bool_]:
        columns, last = self._costs(path, steps, target)
        chosen, connected = _traced(columns, last)
        if connected.any():
            self._remove(path, chosen, connected, target)
        return connected

    def _costs(self, path: Path, steps: Floats, target: Target) -> tuple[list[_Column], int]:
        """Viterbi, forwards: the columns of all points, and the cheapest candidate of the last (-1: none).

        A candidate costs its squared distance, a piece that is not connected ``BREAK`` times its squared length.
        """
        breaks = (BREAK * steps**2).tolist()
        columns: list[_Column] = []
        before, costs, best, state = [], [], 0.0, -1  # type: ignore[var-annotated]
        for place, node in enumerate(path.nodes):
            gap = best + breaks[place - 1] if place else 0.0
            candidates = target.candidates(self._near[node])
            links = target.links(before, candidates, self._region(path.edges[place - 1])) if before else None
            column = _Column(candidates, [], [], state)
            best, state = gap, -1
            for number, candidate in enumerate(candidates):
                least, source = gap, -1
                for linked in links[number] if links else ():
                    if costs[linked] < least:
                        least, source = costs[linked], linked
                cost = least + candidate.square
                column.costs.append(cost)
                column.came.append(source)
                if cost < best:
                    best, state = cost, number
            columns.append(column)
            before, costs = candidates, column.costs
        return columns, state

    def _remove(
        self, path: Path, chosen: list[Candidate | None], connected: NDArray[np.bool_], target: Target
    ) -> None:
        """Removes the edges along the match, unless less than half of an edge is covered."""
        covered: dict[int, tuple[float, float]] = {}
        for step in np.flatnonzero(connected).tolist():
            a, b = chosen[step], chosen[step + 1]
            assert a is not None and b is not None
            for edge, low, high in target.way(a, b, self._region(path.edges[step])):
                first, last = covered.get(edge, (low, high))
                covered[edge] = min(first, low), max(last, high)
        target.remove([edge for edge, (low, high) in covered.items() if high - low >= 0.5])


def _traced(columns: list[_Column], state: int) -> tuple[list[Candidate | None], NDArray[np.bool_]]:
    """Viterbi, backwards: for each point the candidate or none, and the mask of connected pieces."""
    chosen: list[Candidate | None] = [None] * len(columns)
    connected = np.zeros(max(len(columns) - 1, 0), bool)
    for place in range(len(columns) - 1, -1, -1):
        column = columns[place]
        if state < 0:
            state = column.best_before
            continue
        chosen[place] = column.candidates[state]
        if column.came[state] >= 0:
            connected[place - 1] = True
            state = column.came[state]
        else:
            state = column.best_before
    return chosen, connected


def connectivity(steps: Floats, connected: NDArray[np.bool_]) -> float:
    """Σ l(run)² / l(path)²: the probability that two random points of a path are in one connected run."""
    if connected.all():
        return 1.0
    total = float(steps.sum())
    run = np.cumsum(~connected)[connected]
    runs = np.bincount(run, steps[connected]) if len(run) else np.zeros(1)
    return float((runs**2).sum()) / total**2
