"""OPT-P: measures whether the paths of one map are connected in the other.

The source is decomposed into paths that share no edge (:mod:`~vergence.maps.metrics.opt_p_paths`), and each is matched
to the target (:mod:`~vergence.maps.metrics.opt_p_match`). Matched road is removed, so it can match one path
only. A path's score is the probability that two random points on it are connected: with matched runs s,
Σ l(s)² / l(path)².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vergence.core.seeding import derive
from vergence.maps.graph import Floats, RoadGraph, as_graph
from vergence.maps.metrics.agreement import Agreement
from vergence.maps.metrics.opt_p_match import Match, Matcher
from vergence.maps.settings import OptP


@dataclass(frozen=True, eq=False)
class PathScore:
    """Precision and recall, in all and per decomposition, and the locations of mistakes."""

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
        """Standard deviation of F1 over decompositions."""
        return float(np.std([a.f1 for a in self.each], ddof=1)) if len(self.each) > 1 else 0.0


def opt_p(truth: Any, prediction: Any, settings: OptP = OptP(), seed: int = 0, repeats: int = 3) -> PathScore:
    """Path precision and recall of a predicted map, averaged over ``repeats`` random decompositions."""
    cut = [_pieces(as_graph(g, name), settings) for g, name in ((truth, "the truth"), (prediction, "the prediction"))]
    recall, precision = Matcher(cut[0], cut[1], settings), Matcher(cut[1], cut[0], settings)
    each, missed, invented = [], np.zeros(len(cut[0])), np.zeros(len(cut[1]))
    for repeat in range(repeats):
        of_truth, of_prediction = (m.match(derive("opt_p", seed, repeat)) for m in (recall, precision))
        each.append(Agreement(*_sums(of_prediction, settings), *_sums(of_truth, settings), pooled=False))
        missed += ~of_truth.matched
        invented += ~of_prediction.matched
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
    """The sum of the scores, and of their weights."""
    counted = len(match.scores) - (match.skipped if settings.unsampled == "skip" else 0)
    if match.scores and not counted:  # the other map was empty from the start
        return 0.0, 1.0
    weights = [1.0] * counted if settings.weights == "paths" else match.lengths[:counted]
    return sum(w * s for w, s in zip(weights, match.scores[:counted], strict=True)), sum(weights)
