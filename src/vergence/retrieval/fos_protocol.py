"""Scores of foreground object search by the paper's protocol: mean average precision over cut-outs and patterns."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.metrics.ranking import rank_matches
from vergence.retrieval.foregrounds import Pairs

WHERE = {"map_inside": 1, "map_outside": 0}


def average_precision(similarities: Tensor, fits: Tensor, among: Tensor | None = None) -> Tensor:
    """Average precision (Q,) from 0 to 1 of similarities (Q, F), given which cut-outs fit (Q, F): the mean precision at
    the ranks of those that do, over the whole list. Only cut-outs ``among`` (Q, F) are ranked. NaN where none fits."""
    if not similarities.isfinite().all():
        raise VergenceError("the similarities to rank hold values that are not finite")
    left_out = torch.zeros_like(fits) if among is None else ~among
    ranked = rank_matches(-similarities, fits & ~left_out, left_out)
    return torch.where(ranked.judged, ranked.precision, torch.nan)


def chance(fitting: Tensor, ranked: Tensor) -> Tensor:
    """The expected average precision (Q,) of a random order, where ``fitting`` (Q,) of ``ranked`` (Q,) cut-outs fit.

    A cut-out that fits is at rank k with probability 1 / n, and (k - 1) (r - 1) / (n - 1) others are then expected
    before it: the mean of ``(1 + (k - 1) (r - 1) / (n - 1)) / k`` over k is ``H / n + (r - 1) / (n - 1) (1 - H / n)``
    with the harmonic number H of n.
    """
    most = int(ranked.max()) if len(ranked) else 0
    harmonic = (1 / torch.arange(1, most + 1, dtype=torch.float64)).cumsum(0)
    n, r = ranked.double(), fitting.double()
    share = harmonic[ranked.long() - 1] / n
    return share + (r - 1) / (n - 1).clamp(min=1) * (1 - share)


def cosines(queries: Tensor, gallery: Tensor) -> Tensor:
    """Cosines (Q, F) of embeddings (Q, D) and (F, D), in float64; those of a zero embedding are zero."""
    return F.normalize(queries.double(), dim=1) @ F.normalize(gallery.double(), dim=1).mT


def search_scores(queries: Tensor, gallery: Tensor, data: Pairs) -> dict[str, float]:
    """Scores in per cent of query embeddings (Q, D) against those of the cut-outs (F, D): ``map``, the same where the
    cue is in the box and where it is not, ``map_patterns`` over ranked patterns, and ``chance``."""
    fits = data.relevance()
    similar = cosines(queries, gallery)
    precision = average_precision(similar, fits, data.among)
    judged = ~precision.isnan()
    if not bool(judged.any()):
        raise VergenceError("no query has a cut-out that fits it: there is nothing to evaluate")
    ranked = fits.new_ones(fits.shape) if data.among is None else data.among
    expected = chance((fits & ranked).sum(1)[judged], ranked.sum(1)[judged])
    scores = {"map": _percent(precision), "chance": _percent(expected)}
    if data.where is not None:
        scores |= {name: _percent(precision[data.where == place]) for name, place in WHERE.items()}
    if data.among is None and bool((data.patterns >= 0).all()):
        scores["map_patterns"] = _percent(_over_patterns(queries, gallery, data, fits))
    return scores


def _over_patterns(queries: Tensor, gallery: Tensor, data: Pairs, fits: Tensor) -> Tensor:
    """Average precision (Q,) of ranked patterns; one fits if a cut-out of it does."""
    centroids, known = pattern_embeddings(gallery.double(), data.patterns)
    members = data.patterns == known.unsqueeze(1)  # (P, F)
    relevant = fits.double() @ members.double().mT > 0
    return average_precision(cosines(queries, centroids), relevant)


def similar_scores(gallery: Tensor, patterns: Tensor) -> float:
    """mAP in per cent of cut-outs searched by cut-outs: embeddings (F, D), each against all others, of which those of
    its pattern are relevant. NaN where no pattern has two."""
    known = patterns >= 0
    units, kinds = gallery[known], patterns[known]
    own = torch.eye(len(kinds), dtype=torch.bool)
    same = (kinds.unsqueeze(1) == kinds) & ~own
    return _percent(average_precision(cosines(units, units), same, ~own))


def _percent(values: Tensor) -> float:
    """The mean of what is not NaN, in per cent; NaN of nothing."""
    known = values[~values.isnan()]
    return float(known.double().mean() * 100) if len(known) else float("nan")


def pattern_embeddings(embeddings: Tensor, patterns: Tensor) -> tuple[Tensor, Tensor]:
    """Unit centroids (P, D) of the unit embeddings (N, D) of each pattern that occurs in ``patterns`` (N,), and the
    patterns themselves (P,)."""
    known, places = patterns.unique(return_inverse=True)
    units = F.normalize(embeddings, dim=1)
    sums = torch.zeros(len(known), units.shape[1], dtype=units.dtype, device=units.device)
    return F.normalize(sums.index_add_(0, places, units), dim=1), known
