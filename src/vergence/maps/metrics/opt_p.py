"""OPT-P: are the paths of one map connected in the other?

The source is taken apart into paths that share no edge. Each is matched to the target by dynamic programming: a place
on the path may follow any road nearby or none, and two neighbouring places hang together if their roads do, within
reach of the stretch between them. What was matched is removed, so a road can answer for one path only. A path's score
is the chance that two random places on it are connected: with matched runs s, Σ l(s)² / l(path)².

All geometry (which roads are near which places) is computed once, by trees; a path then costs a few array operations
and one pass over its places.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from vergence.core.errors import VergenceError
from vergence.core.seeding import derive
from vergence.maps.geometry import Near, near, ragged, starts_of
from vergence.maps.graph import Floats, Ints, RoadGraph, as_graph
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.roads import Road, roads

BREAK = 1e4
"""The price of a gap: so many times its length squared, against the squared distance of a match."""
TIE = 1e-9
"""What a match inside an edge costs above one at a node, in square pixels."""


@dataclass(frozen=True)
class OptP:
    """How paths are taken and matched."""

    snap: float = 25.0
    """How far a place may be from the road it is matched to, in pixels."""
    piece: float = 20.0
    """The longest stretch between two places of a path, in pixels."""
    pieces: Literal["even", "halved"] = "even"
    """Cut straight roads evenly, so that control points do not matter; or halve edges, as the public code does."""
    unsampled: Literal["zero", "skip"] = "zero"
    """Paths that are left when the other map has been used up: count them as unmatched, or not at all (public code)."""
    weights: Literal["paths", "length"] = "paths"
    """Every path counts the same (paper), or by its length."""
    loops: Literal["whole", "open"] = "whole"
    """A path that ends where it has been: keep it whole, or without the road that closes it (public code)."""
    hops: int = 0
    """The most edges between two neighbouring matches (0: no limit within reach; public code: 5)."""

    def __post_init__(self) -> None:
        if not (self.snap > 0 and self.piece > 0 and self.hops >= 0):
            raise VergenceError(
                f"OPT-P has snap > 0, piece > 0 and hops >= 0, got {self.snap}, {self.piece} and {self.hops}"
            )


class Path(NamedTuple):
    """Places and stretches of a path, as numbers of the source's nodes and edges."""

    nodes: list[int]
    edges: list[int]


class Match(NamedTuple):
    """One decomposition, matched."""

    paths: list[Path]
    scores: list[float]
    """Of the paths, in order."""
    lengths: list[float]
    matched: NDArray[np.bool_]
    """Of the source's pieces: which are connected in the target."""
    skipped: int = 0
    """Paths at the end that found nothing left of the target."""


@dataclass(frozen=True, eq=False)
class PathScore:
    """Precision and recall, decomposition by decomposition, and where the mistakes are."""

    agreement: Agreement
    each: tuple[Agreement, ...]
    truth: RoadGraph
    """The truth in pieces."""
    prediction: RoadGraph
    missed: Floats
    """By piece of the truth: the share of decompositions in which it was not matched."""
    invented: Floats
    """By piece of the prediction, likewise."""

    @property
    def spread(self) -> float:
        """The deviation of F1 over decompositions."""
        return float(np.std([a.f1 for a in self.each], ddof=1)) if len(self.each) > 1 else 0.0


def opt_p(truth: Any, prediction: Any, settings: OptP = OptP(), seed: int = 0, repeats: int = 3) -> PathScore:
    """Path precision and recall of a predicted map, averaged over ``repeats`` decompositions, which are random."""
    cut = [_pieces(as_graph(g, name), settings) for g, name in ((truth, "the truth"), (prediction, "the prediction"))]
    recall, precision = Matcher(cut[0], cut[1], settings), Matcher(cut[1], cut[0], settings)
    each, missed, invented = [], np.zeros(len(cut[0])), np.zeros(len(cut[1]))
    for repeat in range(repeats):
        found, right = (m.match(derive("opt_p", seed, repeat)) for m in (recall, precision))
        each.append(Agreement(*_sums(right, settings), *_sums(found, settings), pooled=False))
        missed += ~found.matched
        invented += ~right.matched
    count = len(each)
    agreement = each[0] if count == 1 else Agreement(
        sum(a.precision for a in each), count, sum(a.recall for a in each), count, pooled=False
    )  # fmt: skip
    if not len(cut[0]) and not len(cut[1]):
        agreement = Agreement(0, 0, 0, 0, pooled=False)
    return PathScore(agreement, tuple(each), cut[0], cut[1], missed / count, invented / count)


def _pieces(graph: RoadGraph, settings: OptP) -> RoadGraph:
    whole = graph.canonical
    return whole.halved(settings.piece) if settings.pieces == "halved" else whole.split(settings.piece)


def _sums(match: Match, settings: OptP) -> tuple[float, float]:
    """Scores added up, and what they are out of."""
    counted = len(match.scores) - (match.skipped if settings.unsampled == "skip" else 0)
    if match.scores and not counted:  # the other map was empty from the beginning
        return 0.0, 1.0
    weights = [1.0] * counted if settings.weights == "paths" else match.lengths[:counted]
    return sum(w * s for w, s in zip(weights, match.scores[:counted], strict=True)), sum(weights)


# Taking a map apart ---------------------------------------------------------------------------------------------------


def decompose(graph: RoadGraph, seed: int, loops: str = "whole") -> list[Path]:
    """Paths that share no edge and together are the graph: from one dead end at random to another.

    What has no dead end left is taken as rings.
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
        """Roads from a random dead end to another (and whether each is walked forward), searched in depth."""
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
    """A set that a random member can be picked from in no time, the same for the same history."""

    def __init__(self, items: Any) -> None:
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


# Matching -------------------------------------------------------------------------------------------------------------


class _Candidates(NamedTuple):
    """Where places of a path may be matched, by place: inside an edge of the target, or at a node of it."""

    place: Ints
    edge: Ints
    share: Floats
    node: Ints
    """-1: inside the edge."""
    square: Floats
    """The squared distance."""


@dataclass(frozen=True, eq=False)
class Matcher:
    """Paths of a source matched to a target, both in pieces."""

    source: RoadGraph
    target: RoadGraph
    settings: OptP = field(default_factory=OptP)

    def match(self, seed: int) -> Match:
        """Take the source apart at random and match every path to what the ones before it have left."""
        paths = decompose(self.source, seed, self.settings.loops)
        return self.match_paths(paths)

    def match_paths(self, paths: list[Path]) -> Match:
        """Match given paths, in order."""
        target = _Target(self.target)
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
    def _near(self) -> tuple[Near, Ints]:
        """Target edges in reach of each source node."""
        found = near(self.source.points, self.target, self.settings.snap)
        return found, starts_of(found.point, len(self.source.points))

    @cached_property
    def _reach(self) -> tuple[Ints, Ints, Ints]:
        """Target nodes in reach of each source piece: keys ``piece * nodes + node`` in order, the nodes, row starts."""
        found = near(self.target.points, self.source, self.settings.snap)
        keys = np.sort(found.edge * max(len(self.target.points), 1) + found.point)
        piece, node = np.divmod(keys, max(len(self.target.points), 1))
        return keys, node, starts_of(piece, len(self.source))

    @cached_property
    def _within(self) -> tuple[Ints, Ints]:
        """Target edges wholly in reach of each source piece (both nodes are, and reach is convex), row starts."""
        keys, node, starts = self._reach
        count = max(len(self.target.points), 1)
        first, edges_at = _by_first_node(self.target)
        owner, index = ragged(first, node)
        edge = edges_at[index]
        piece = np.repeat(np.arange(len(self.source)), np.diff(starts))[owner]
        wanted = piece * count + self.target.edges[edge, 1]
        kept = _position(keys, wanted) >= 0
        return edge[kept], starts_of(piece[kept], len(self.source))

    def _match_path(self, path: Path, steps: Floats, target: _Target) -> NDArray[np.bool_]:
        candidates = self._candidates(path, target)
        links = self._links(path, candidates, target)
        chosen, connected = cheapest(len(path.nodes), candidates, links, steps)
        if connected.any():
            self._remove(path, candidates, chosen, connected, target)
        return connected

    def _candidates(self, path: Path, target: _Target) -> _Candidates:
        """Local minima of the distance along what is left of the target: from any other place nearby one gets to the
        minimum without leaving reach, so nothing is lost by leaving the others out."""
        found, starts = self._near
        place, index = ragged(starts, np.array(path.nodes))
        alive = target.alive[found.edge[index]]
        place, index = place[alive], index[alive]
        edge, share, distance = found.edge[index], found.share[index], found.distance[index]
        inside = (share > 1e-9) & (share < 1 - 1e-9)
        # At a node, the distance is least if it is so on every edge there is at the node.
        nodes = self.target.edges[edge, (share > 0.5).astype(np.int64)]
        keys = place * max(len(self.target.points), 1) + nodes
        at_node = np.flatnonzero(~inside)
        unique, first, counts = np.unique(keys[at_node], return_index=True, return_counts=True)
        least = counts == target.degrees[unique % max(len(self.target.points), 1)]
        kept = np.r_[np.flatnonzero(inside), at_node[first[least]]]
        kept = kept[np.lexsort((nodes[kept], edge[kept], place[kept]))]
        node = np.where(inside, -1, nodes)[kept]
        # Where two roads lie on one another, a map is matched to itself node by node.
        square = distance[kept] ** 2 + TIE * (node < 0)
        return _Candidates(place[kept], edge[kept], share[kept], node, square)

    def _links(self, path: Path, found: _Candidates, target: _Target) -> tuple[Ints, Ints]:
        """Pairs of candidates of neighbouring places that hang together within reach of the stretch between them."""
        count, pieces = max(len(self.target.points), 1), np.array(path.edges)
        _, node, starts = self._reach
        owner, index = ragged(starts, pieces)
        here = owner * count + node[index]  # a vertex is a target node seen from one stretch; sorted
        edges, edge_starts = self._within
        edge_owner, index = ragged(edge_starts, pieces)
        edge = edges[index]
        alive = target.alive[edge]
        edge, edge_owner = edge[alive], edge_owner[alive]
        lines = [_position(here, edge_owner * count + self.target.edges[edge, k]) for k in (0, 1)]
        # Each candidate ends one stretch and begins the next. Inside an edge it is a vertex of its own, one an edge.
        last = len(pieces) - 1
        number = np.arange(len(found.place))
        begins, ends = number[found.place <= last], number[found.place >= 1]
        seen = np.r_[begins, ends]
        stretch = np.r_[found.place[begins], found.place[ends] - 1]
        inside = found.node[seen] < 0
        vertex = _position(here, stretch * count + np.maximum(found.node[seen], 0))
        inner, place = np.unique(stretch[inside] * len(self.target) + found.edge[seen[inside]], return_inverse=True)
        vertex[inside] = len(here) + place
        inner_stretch, inner_edge = np.divmod(inner, max(len(self.target), 1))
        for k in (0, 1):
            to = _position(here, inner_stretch * count + self.target.edges[inner_edge, k])
            lines = [np.r_[lines[0], len(here) + np.flatnonzero(to >= 0)], np.r_[lines[1], to[to >= 0]]]
        size = len(here) + len(inner)
        graph = sparse.coo_matrix((np.ones(len(lines[0])), (lines[0], lines[1])), shape=(size, size))
        begin_vertex, end_vertex = vertex[: len(begins)], vertex[len(begins) :]
        if self.settings.hops:
            return _within_hops(graph, begins, begin_vertex, ends, end_vertex, self.settings.hops)
        _, label = connected_components(graph, directed=False)
        return _join(begins, label[begin_vertex], ends, label[end_vertex])

    def _remove(
        self, path: Path, found: _Candidates, chosen: list[int], connected: NDArray[np.bool_], target: _Target
    ) -> None:
        """Remove the edges that the match runs along. One that is covered by less than half stays."""
        _, node, starts = self._reach
        covered: dict[int, tuple[float, float]] = {}
        places = [(int(e), float(s), int(n)) for e, s, n in zip(found.edge, found.share, found.node, strict=True)]
        for step in np.flatnonzero(connected).tolist():
            piece = path.edges[step]
            allowed = node[starts[piece] : starts[piece + 1]]
            for edge, low, high in target.way(places[chosen[step]], places[chosen[step + 1]], allowed):
                a, b = covered.get(edge, (low, high))
                covered[edge] = min(a, low), max(b, high)
        target.remove([edge for edge, (low, high) in covered.items() if high - low >= 0.5])


def connectivity(steps: Floats, connected: NDArray[np.bool_]) -> float:
    """Σ l(run)² / l(path)²: the chance that two random places of a path are in one connected run."""
    if connected.all():
        return 1.0
    total = float(steps.sum())
    run = np.cumsum(~connected)[connected]
    runs = np.bincount(run, steps[connected]) if len(run) else np.zeros(1)
    return float((runs**2).sum()) / total**2


def cheapest(
    places: int, found: _Candidates, links: tuple[Ints, Ints], steps: Floats
) -> tuple[list[int], NDArray[np.bool_]]:
    """Viterbi: for each place a candidate or none (-1), and which stretches are connected, at the least cost.

    A candidate costs its squared distance, a stretch that is not connected ``BREAK`` times its squared length.
    """
    starts = starts_of(found.place, places).tolist()
    order = np.argsort(links[1], kind="stable")
    sources, link_starts = links[0][order].tolist(), starts_of(links[1][order], len(found.place)).tolist()
    unary, breaks = found.square.tolist(), (BREAK * steps**2).tolist()
    cost = [0.0] * len(unary)
    came: list[int] = [-1] * len(unary)  # the linked candidate before; -1: a gap
    best_before: list[int] = [-1] * places  # the cheapest state of the place before
    best, best_state = 0.0, -1
    none = 0.0
    for place in range(places):
        gap = best + breaks[place - 1] if place else 0.0
        best_before[place] = best_state
        none = gap
        best, best_state = none, -1
        for state in range(starts[place], starts[place + 1]):
            least, source = gap, -1
            for candidate in sources[link_starts[state] : link_starts[state + 1]]:
                if cost[candidate] < least:
                    least, source = cost[candidate], candidate
            cost[state], came[state] = least + unary[state], source
            if cost[state] < best:
                best, best_state = cost[state], state
    chosen, connected = [-1] * places, np.zeros(max(places - 1, 0), bool)
    state = best_state
    for place in range(places - 1, -1, -1):
        chosen[place] = state
        if state >= 0 and came[state] >= 0:
            connected[place - 1] = True
            state = came[state]
        else:
            state = best_before[place]
    return chosen, connected


class _Target:
    """What earlier paths have left of the target."""

    def __init__(self, graph: RoadGraph) -> None:
        self.ends = graph.edges.tolist()
        self.lengths = graph.lengths.tolist()
        self.alive = np.ones(len(graph), bool)
        self.degrees = graph.degrees.copy()
        self.edges_left = len(graph)
        self.at: list[dict[int, int]] = [{} for _ in range(len(graph.points))]
        for number, (u, v) in enumerate(self.ends):
            self.at[u][v] = self.at[v][u] = number

    def remove(self, edges: list[int]) -> None:
        for edge in edges:
            u, v = self.ends[edge]
            del self.at[u][v], self.at[v][u]
            self.alive[edge] = False
            self.degrees[u] -= 1
            self.degrees[v] -= 1
        self.edges_left -= len(edges)

    def way(
        self, a: tuple[int, float, int], b: tuple[int, float, int], allowed: Ints
    ) -> list[tuple[int, float, float]]:
        """The shortest way between two candidates over allowed nodes: edges, and the shares that are covered."""
        (edge_a, share_a, node_a), (edge_b, share_b, node_b) = a, b
        if node_a < 0 and node_b < 0 and edge_a == edge_b:
            return [(edge_a, min(share_a, share_b), max(share_a, share_b))]
        if node_a >= 0 and node_b >= 0:
            if node_a == node_b:
                return []
            direct = self.at[node_a].get(node_b)
            if direct is not None:  # straight, and so the shortest
                return [(direct, 0.0, 1.0)]
        leave, arrive = self._exits(edge_a, share_a, node_a), self._exits(edge_b, share_b, node_b)
        inside = set(allowed.tolist())
        queue = [(far, node, -1, part) for node, (far, part) in leave.items() if node in inside]
        goal = {node: (far, part) for node, (far, part) in arrive.items() if node in inside}
        return self._dijkstra(queue, goal, inside)

    def _exits(self, edge: int, share: float, node: int) -> dict[int, tuple[float, tuple[int, float, float] | None]]:
        """From a candidate to nodes: how far, and the part of its own edge on the way."""
        if node >= 0:
            return {node: (0.0, None)}
        u, v = self.ends[edge]
        length = self.lengths[edge]
        return {u: (share * length, (edge, 0.0, share)), v: ((1 - share) * length, (edge, share, 1.0))}

    def _dijkstra(self, queue: list[Any], goal: dict[int, Any], inside: set[int]) -> list[tuple[int, float, float]]:
        heapq.heapify(queue)
        done: dict[int, tuple[int, Any]] = {}
        best, best_node = np.inf, -1
        while queue and queue[0][0] < best:
            far, node, before, part = heapq.heappop(queue)
            if node in done:
                continue
            done[node] = before, part
            if node in goal and far + goal[node][0] < best:
                best, best_node = far + goal[node][0], node
            for neighbour, edge in self.at[node].items():
                if neighbour in inside and neighbour not in done:
                    heapq.heappush(queue, (far + self.lengths[edge], neighbour, node, (edge, 0.0, 1.0)))
        if best_node < 0:
            raise AssertionError("candidates that hang together have a way between them")
        parts, node = [goal[best_node][1]], best_node
        while node >= 0:
            node, part = done[node]
            parts.append(part)
        return [part for part in parts if part is not None]


def _by_first_node(graph: RoadGraph) -> tuple[Ints, Ints]:
    """Edges by their first node: row starts, edges."""
    order = np.argsort(graph.edges[:, 0], kind="stable")
    return starts_of(graph.edges[order, 0], len(graph.points)), order


def _position(keys: Ints, wanted: Ints) -> Ints:
    """Where ``wanted`` are among sorted keys; -1 where they are not."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def _join(a: Ints, label_a: Ints, b: Ints, label_b: Ints) -> tuple[Ints, Ints]:
    """All pairs with equal labels."""
    order = np.argsort(label_a, kind="stable")
    low, high = (np.searchsorted(label_a[order], label_b, side) for side in ("left", "right"))
    counts = high - low
    owner = np.repeat(np.arange(len(b)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return a[order[low[owner] + offset]], b[owner]


def _within_hops(
    graph: sparse.coo_matrix, a: Ints, vertex_a: Ints, b: Ints, vertex_b: Ints, hops: int
) -> tuple[Ints, Ints]:
    """All pairs whose vertices are at most so many edges apart."""
    size = graph.shape[0]
    one = ((graph + graph.T + sparse.identity(size)) > 0).astype(np.int8).tocsr()
    rows, place = np.unique(vertex_a, return_inverse=True)
    reached = one[rows]
    for _ in range(hops - 1):
        reached = ((reached @ one) > 0).astype(np.int8)
    reached = reached.tocoo()
    keys = np.sort(reached.row.astype(np.int64) * size + reached.col)
    pairs_a = np.repeat(np.arange(len(a)), len(b)) if len(a) * len(b) <= 4096 else None
    if pairs_a is not None:
        pairs_b = np.tile(np.arange(len(b)), len(a))
        kept = _position(keys, place[pairs_a] * size + vertex_b[pairs_b]) >= 0
        return a[pairs_a[kept]], b[pairs_b[kept]]
    row, column = np.divmod(keys, size)
    left, index = _join(np.arange(len(a)), place, np.arange(len(keys)), row)
    first, right = _join(np.arange(len(left)), column[index], np.arange(len(b)), vertex_b)
    return a[left[first]], b[right]
