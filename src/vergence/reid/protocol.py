"""Scores of rankings: mean average precision and CMC by the single-query protocol of Market-1501."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.metrics.ranking import Ranked, Taken, rank, rank_descriptors
from vergence.ops.reciprocal import rerank
from vergence.reid.settings import Protocol


def rank_people(protocol: Protocol, descriptors: Tensor, queries: Taken, gallery: Taken) -> Ranked:
    """Rank the gallery for each query by descriptors (N, D), the queries first; re-ranked if the protocol says so."""
    if not protocol.rerank:
        count = len(queries)
        return rank_descriptors(descriptors[:count], descriptors[count:], queries, gallery, protocol.area)
    try:
        far = rerank(descriptors, len(queries), protocol.k1, protocol.k2, protocol.share)
    except ValueError as why:
        raise VergenceError(str(why)) from None
    return rank(far, queries, gallery, protocol.area)


def scores_of(ctx: Context[Any, Any], ranked: Ranked, data: Any) -> Mapping[str, float]:
    """``map``, ``rank1``, ``rank5`` and ``rank10`` in percent, and the number of queries without a match, if any."""
    count = len(ranked.first)
    if ranked.unmatched == count:
        seen = set(data.cameras)
        why = f"all pictures are from camera {seen.pop()}" if len(seen) == 1 else "no identity is in two cameras"
        raise VergenceError(f"no query has a match from another camera, which the protocol needs: {why}")
    scores = {"map": ranked.mean_precision} | {f"rank{k}": ranked.cmc(k) for k in (1, 5, 10)}
    if ranked.unmatched:
        ctx.progress.say(f"{ranked.unmatched} of {count} queries have no match and are not evaluated")
        scores["unmatched"] = float(ranked.unmatched)
    return scores
