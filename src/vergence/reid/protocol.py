"""Scores of rankings: mean average precision and CMC by the single-query protocol of Market-1501."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.core.errors import VergenceError
from vergence.metrics.ranking import Ranked, Taken, rank, rank_descriptors
from vergence.ops.reciprocal import rerank
from vergence.reid.data import judged
from vergence.reid.settings import Protocol

NO_MATCH = "no query has a match from another camera, which the protocol needs"


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
        raise VergenceError(f"{NO_MATCH}: {_why_unmatched(data.cameras)}")
    scores = {"map": ranked.mean_precision} | {f"rank{k}": ranked.cmc(k) for k in (1, 5, 10)}
    if ranked.unmatched:
        ctx.progress.say(f"{ranked.unmatched} of {count} queries have no match and are not evaluated")
        scores["unmatched"] = float(ranked.unmatched)
    return scores


def refuse_unmatched(data: Any, source: str, instead: str = "") -> None:
    """Refuse before training what could not be evaluated after it; ``instead`` says what else can be done."""
    queries, gallery = judged(data)
    cameras: dict[int, set[int]] = {}
    for identity, camera in zip(gallery.identities.tolist(), gallery.cameras.tolist(), strict=True):
        cameras.setdefault(identity, set()).add(camera)
    pairs = torch.stack([queries.identities, queries.cameras], 1).tolist()
    if not any(cameras.get(identity, set()) - {camera} for identity, camera in pairs):
        raise VergenceError(f"{source}: {NO_MATCH}: {_why_unmatched(data.cameras)}{instead}")


def _why_unmatched(cameras: Sequence[int]) -> str:
    seen = set(cameras)
    return f"all pictures are from camera {min(seen)}" if len(seen) == 1 else "no identity is in two cameras"
