"""Cost of comparing pictures by their locations: in blocks, all pairs at once, or one gallery picture at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.local_matching import matching_distances, reconstruction_distances
from vergence.reference import local_matching as plain
from vergence.reid.gasm.model import Described, pair_distances
from vergence.reid.gasm.settings import Matching

DENSE, LOOP, PAIRS, FULL = "all pairs at once", "one gallery picture at a time", "one pair at a time", "every picture"
"""Rivals named by the claims about cost."""


def pictures(count: int, places: int, width: int, seed: str) -> Described:
    """Random features of ``count`` pictures with ``places`` locations."""
    source = generator("bench", seed, count)
    local = F.normalize(torch.randn(count, places, width, generator=source), dim=2)
    weights = torch.rand(count, places, generator=source)
    pooled = F.normalize(torch.einsum("nld,nl->nd", local, weights), dim=1)
    return Described(pooled, local, weights / weights.sum(1, keepdim=True))


def contests() -> Iterator[Contest]:
    """Matching at the published size and at that of `tiny`, DSR, and the search of a large gallery."""
    for name, asked, searched, places, width in (("published", 4, 24, 192, 2048), ("small", 48, 256, 72, 96)):
        yield Contest(
            f"matching-{name}",
            f"matching, {asked} x {searched} pictures of {places} locations with {width} channels",
            _matching(matching_distances, asked, searched, places, width),
            {
                DENSE: _matching(plain.matching, asked, searched, places, width),
                LOOP: _matching(plain.matching_by_picture, asked, searched, places, width),
            },
        )
    yield Contest(
        "dsr",
        "DSR, 8 x 16 pictures of 192 locations with 512 channels",
        _matching(reconstruction_distances, 8, 16, 192, 512),
        {PAIRS: _matching(plain.reconstruction, 8, 16, 192, 512)},
    )
    yield Contest(
        "search",
        "2 queries in a gallery of 1,000 pictures of 72 locations, by the nearest 100",
        _search(100),
        {FULL: _search(0)},
    )


def _matching(compute: Callable[..., Any], asked: int, searched: int, places: int, width: int) -> Callable[[], Any]:
    queries, gallery = pictures(asked, places, width, "queries"), pictures(searched, places, width, "gallery")
    return lambda: compute(queries.local, gallery.local, queries.saliency)


def _search(top: int) -> Callable[[], Any]:
    queries, gallery = pictures(2, 72, 96, "queries"), pictures(1000, 72, 96, "gallery")

    def run() -> Any:
        close = None
        if top:
            far = torch.cdist(queries.pooled, gallery.pooled)
            nearest = far.topk(top, largest=False).indices
            close = torch.zeros_like(far, dtype=torch.bool).scatter_(1, nearest, True)
        return pair_distances(Matching(), queries, gallery, close)

    return run
