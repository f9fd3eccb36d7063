"""All eight metrics of one pair of maps or a data set, and comparisons of metrics and methods."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vergence.core.errors import VergenceError
from vergence.maps.graph import Floats, as_graph
from vergence.maps.metrics.agreement import Agreement, together
from vergence.maps.metrics.ccq import ccq
from vergence.maps.metrics.junct import junct
from vergence.maps.metrics.opt_g import opt_g_draws, subg_draws
from vergence.maps.metrics.opt_j import JunctionScore, opt_j
from vergence.maps.metrics.opt_p import PathScore, opt_p
from vergence.maps.metrics.trips import TripScore, mean_trips, trips
from vergence.maps.settings import NAMES, NEW, OLD, Measures


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of all eight metrics."""

    opt_p: Agreement
    opt_j: Agreement
    opt_g: Agreement
    ccq: Agreement
    junct: Agreement
    subg: Agreement
    trips: TripScore
    """TLTS and APLS."""
    spread: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of each random metric over its draws."""
    paths: PathScore | None = None
    """For a single pair: the missed and invented roads."""
    junctions: JunctionScore | None = None

    @property
    def headline(self) -> dict[str, float]:
        """One number per metric: F1, CCQ's quality, TLTS's share of correct trips, APLS."""
        values = {name: getattr(self, name).f1 for name in ("opt_p", "opt_j", "opt_g", "junct", "subg")}
        values |= {"ccq": self.ccq.quality, "tlts": self.trips.correct, "apls": self.trips.similarity}
        return {name: values[name] for name in NAMES}

    @property
    def values(self) -> dict[str, float]:
        """Everything, by name: ``opt_p``, ``opt_p_precision``, ``tlts_too_long``, ``opt_p_spread``."""
        values: dict[str, float] = {}
        for name, value in self.headline.items():
            values[name] = value
            if name == "tlts":
                values |= {f"tlts_{k}": getattr(self.trips, k) for k in ("too_long", "too_short", "infeasible")}
            elif name != "apls":
                agreement: Agreement = getattr(self, name)
                values |= {f"{name}_precision": agreement.precision, f"{name}_recall": agreement.recall}
            if name in self.spread:
                values[f"{name}_spread"] = self.spread[name]
        return values


def compare(truth: Any, prediction: Any, measures: Measures = Measures(), seed: int = 0) -> Scores:
    """All eight measures of a predicted map against the true one: RoadGraphs or networkx graphs."""
    g, h = as_graph(truth, "the truth"), as_graph(prediction, "the prediction")
    seeds = range(seed * measures.repeats, (seed + 1) * measures.repeats)
    paths = opt_p(g, h, measures.opt_p, seed, measures.repeats)
    junctions = opt_j(g, h, measures.opt_j)
    around = opt_g_draws(g, h, measures.subgraphs, seeds)
    older = subg_draws(g, h, measures.subgraphs, seeds)
    travelled = [trips(g, h, measures.trips, s) for s in seeds]
    spread = {
        "opt_p": paths.spread,
        "opt_g": _deviation([a.f1 for a in around]),
        "tlts": _deviation([t.correct for t in travelled]),
        "apls": _deviation([t.similarity for t in travelled]),
        "subg": _deviation([a.f1 for a in older]),
    }
    return Scores(
        paths.agreement, junctions.agreement, together(around), ccq(g, h, measures.ccq), junct(g, h, measures.junct),
        together(older), mean_trips(travelled), spread if measures.repeats > 1 else {}, paths, junctions,
    )  # fmt: skip


def aggregate(scores: Sequence[Scores]) -> Scores:
    """Aggregates over a data set as in the paper: OPT-J, OPT-G, CCQ, JUNCT and SUBG from summed counts, OPT-P, TLTS and
    APLS from the mean over maps. The spread is that of the mean, with independent draws per map."""
    if not scores:
        raise VergenceError("there are no scores to add up")
    if len(scores) == 1:
        return scores[0]
    spread = {
        name: math.sqrt(math.fsum(s.spread[name] ** 2 for s in scores)) / len(scores)
        for name in scores[0].spread
        if all(name in s.spread for s in scores)
    }
    return Scores(
        together([s.opt_p for s in scores]), together([s.opt_j for s in scores]), together([s.opt_g for s in scores]),
        together([s.ccq for s in scores]), together([s.junct for s in scores]), together([s.subg for s in scores]),
        mean_trips([s.trips for s in scores]), spread,
    )  # fmt: skip


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


# Agreement of metrics -------------------------------------------------------------------------------------------------


def correlation_matrix(table: Mapping[str, Sequence[float]], kind: str = "spearman") -> Floats:
    """Correlation of measures over maps (or maps and methods): ``table`` has one column of values per measure.

    ``kind`` is ``spearman`` or ``pearson``. A constant metric has correlation 0.
    """
    from scipy.stats import rankdata

    columns = [np.asarray(values, np.float64) for values in table.values()]
    if len({len(c) for c in columns}) != 1 or not len(columns[0]) > 1:
        raise VergenceError("correlations need the same maps, at least two, for every measure")
    ranked = np.stack([rankdata(c) if kind == "spearman" else c for c in columns])
    centred = ranked - ranked.mean(1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.where(norms[:, None] > 1e-12, centred / norms[:, None], 0.0)
    return np.asarray(np.clip(unit @ unit.T, -1, 1))


def consistency(table: Mapping[str, Sequence[float]], names: Sequence[str], kind: str = "spearman") -> float:
    """The mean correlation of all pairs among the named measures."""
    matrix = correlation_matrix({name: table[name] for name in names}, kind)
    pairs = list(itertools.combinations(range(len(names)), 2))
    return float(np.mean([matrix[i, j] for i, j in pairs]))


def triplets(table: Mapping[str, Sequence[float]], kind: str = "spearman") -> dict[tuple[str, ...], float]:
    """The consistency of the three new measures and of every three of the old ones."""
    return {three: consistency(table, three, kind) for three in (NEW, *itertools.combinations(OLD, 3))}


def rank_methods(
    results: Mapping[str, Sequence[Scores]], by: Callable[[Scores], Mapping[str, float]] = lambda s: s.headline
) -> dict[str, list[str]]:
    """Methods from best to worst by each measure, from their scores on the same maps."""
    totals = {method: by(aggregate(scores)) for method, scores in results.items()}
    measures = next(iter(totals.values()))
    return {m: sorted(totals, key=lambda method: -totals[method][m]) for m in measures}


def preferences(first: Sequence[Scores], second: Sequence[Scores]) -> dict[str, list[float]]:
    """By metric, the lead of the first method over the second on each map (the paper's figure 6)."""
    pairs = list(zip(first, second, strict=True))
    return {m: [a.headline[m] - b.headline[m] for a, b in pairs] for m in NAMES}
