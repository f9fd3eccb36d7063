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
from vergence.maps.graph import Floats, RoadGraph
from vergence.maps.metrics.opt_p_paths import Path, decompose
from vergence.maps.metrics.opt_p_target import Candidates, Target
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
        target = Target(self.target, self._candidates, self.settings.hops)
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
    def _candidates(self) -> Candidates:
        """By source node: the closest point of every target edge in reach."""
        found = near(self.source.points, self.target, self.settings.snap)
        inside = (found.share > 1e-9) & (found.share < 1 - 1e-9)
        node = np.where(inside, -1, self.target.edges[found.edge, (found.share > 0.5).astype(np.int64)])
        columns = found.edge, found.share, node, found.distance**2 + TIE * inside
        starts = starts_of(found.point, len(self.source.points))
        return Candidates(*(column.tolist() for column in (*columns, starts)))

    @cached_property
    def _reach(self) -> tuple[list[int], list[int]]:
        """Target nodes in reach of the source's pieces, by piece; and where those of a piece begin."""
        found = near(self.target.points, self.source, self.settings.snap)
        order = np.argsort(found.edge, kind="stable")
        return found.point[order].tolist(), starts_of(found.edge[order], len(self.source)).tolist()

    def _region(self, piece: int) -> list[int]:
        """Target nodes in reach of a source piece. An edge between two of them is in reach too, which is convex."""
        nodes, starts = self._reach
        return nodes[starts[piece] : starts[piece + 1]]

    def _match_path(self, path: Path, steps: Floats, target: Target) -> NDArray[np.bool_]:
        chosen, connected = self._cheapest(path, steps, target)
        if connected.any():
            self._remove(path, chosen, connected, target)
        return connected

    def _cheapest(self, path: Path, steps: Floats, target: Target) -> tuple[list[int], NDArray[np.bool_]]:
        """Viterbi: for each point of a path the candidate or none (-1), and the mask of connected pieces, at the least
        cost.

        A candidate costs its squared distance, a piece that is not connected ``BREAK`` times its squared length.
        """
        square, breaks = self._candidates.square, (BREAK * steps**2).tolist()
        cost: dict[int, float] = {}
        came: list[dict[int, int]] = []  # by point: the linked candidate before; -1: a gap
        best_before: list[int] = []
        before: list[int] = []
        best, best_state = 0.0, -1
        for place, node in enumerate(path.nodes):
            gap = best + breaks[place - 1] if place else 0.0
            here = target.candidates(node)
            links = target.links(before, here, self._region(path.edges[place - 1])) if before and here else ()
            costs, origins = {}, dict.fromkeys(here, -1)
            best_before.append(best_state)
            best, best_state = gap, -1
            least = dict.fromkeys(here, gap)
            for source, state in links:
                if cost[source] < least[state]:
                    least[state], origins[state] = cost[source], source
            for state in here:
                costs[state] = least[state] + square[state]
                if costs[state] < best:
                    best, best_state = costs[state], state
            came.append(origins)
            cost, before = costs, here
        return _traced(came, best_before, best_state)

    def _remove(self, path: Path, chosen: list[int], connected: NDArray[np.bool_], target: Target) -> None:
        """Removes the edges along the match, unless less than half of an edge is covered."""
        covered: dict[int, tuple[float, float]] = {}
        for step in np.flatnonzero(connected).tolist():
            for edge, low, high in target.way(chosen[step], chosen[step + 1], self._region(path.edges[step])):
                first, last = covered.get(edge, (low, high))
                covered[edge] = min(first, low), max(last, high)
        target.remove([edge for edge, (low, high) in covered.items() if high - low >= 0.5])


def _traced(came: list[dict[int, int]], best_before: list[int], state: int) -> tuple[list[int], NDArray[np.bool_]]:
    """From the last candidate back to the first."""
    chosen, connected = [-1] * len(came), np.zeros(max(len(came) - 1, 0), bool)
    for place in range(len(came) - 1, -1, -1):
        chosen[place] = state
        source = came[place].get(state, -1)
        if source >= 0:
            connected[place - 1] = True
        state = source if source >= 0 else best_before[place]
    return chosen, connected


def connectivity(steps: Floats, connected: NDArray[np.bool_]) -> float:
    """Σ l(run)² / l(path)²: the probability that two random points of a path are in one connected run."""
    if connected.all():
        return 1.0
    total = float(steps.sum())
    run = np.cumsum(~connected)[connected]
    runs = np.bincount(run, steps[connected]) if len(run) else np.zeros(1)
    return float((runs**2).sum()) / total**2
