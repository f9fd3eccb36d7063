"""Which camera a wrong first match comes from, and by how much strangers are farther away than the same person.

A network that has learned backgrounds confuses people of one camera (in-camera errors); one that cannot bridge cameras
confuses them across (cross-camera errors).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.seeding import generator
from vergence.metrics.ranking import CHUNK, JUNK, Taken, distances

TRIPLETS = 10_000
"""Random triplets of which the margin is the mean."""


@dataclass(frozen=True)
class CameraErrors:
    """Numbers of queries whose first match is somebody else: from the query's camera, and from another."""

    inside: int
    across: int


def camera_errors(asked: Tensor, ranked: Tensor, queries: Taken, gallery: Taken) -> CameraErrors:
    """Descriptors of queries (Q, D) and of the gallery (G, D). Pictures of the query's identity and camera are left
    out, and so are junk and queries without a match, as in the ranking."""
    inside = across = 0
    rows = max(CHUNK // max(len(gallery), 1), 1)
    for start in range(0, len(queries), rows):
        part = slice(start, start + rows)
        same = queries.identities[part, None] == gallery.identities
        seen_by = queries.cameras[part, None] == gallery.cameras
        left_out = (same & seen_by) | (gallery.identities == JUNK)
        judged = (same & ~left_out).any(1)
        first = distances(asked[part], ranked).masked_fill(left_out.to(asked.device), torch.inf).argmin(1).cpu()
        each = torch.arange(len(first))
        wrong = judged & ~same[each, first]
        inside += int((wrong & seen_by[each, first]).sum())
        across += int((wrong & ~seen_by[each, first]).sum())
    return CameraErrors(inside, across)


@dataclass(frozen=True)
class Margins:
    """Over random triplets of a picture, another of the same person and one of somebody else, with squared
    distances."""

    mean: float
    """How much farther away the stranger is, relative to the mean distance of strangers."""
    separated: float
    """The percentage of triplets in which the stranger is farther away."""


def margins(descriptors: Tensor, queries: Tensor, gallery: Tensor, count: int = TRIPLETS) -> Margins | None:
    """Margins among descriptors (N, D) of queries and gallery with these identities; None where no person of a query
    has two pictures, or all pictures show one. Distractors and junk, which no query shows, are only strangers."""
    identities = torch.cat([queries, gallery]).cpu()
    names, person, sizes = identities.unique(return_inverse=True, return_counts=True)
    anchors = (torch.isin(names, queries.cpu()) & (sizes > 1))[person].nonzero()[:, 0]
    if not len(anchors) or len(names) < 2:
        return None
    source = generator("margins", len(identities))

    def drawn(most: Tensor) -> Tensor:
        """Whole numbers from 0 to below ``most``."""
        return (torch.rand(len(most), generator=source, dtype=torch.float64) * most).long()

    anchor = anchors[torch.randint(len(anchors), (count,), generator=source)]
    order = person.argsort(stable=True)  # the pictures of a person side by side
    start, place = sizes.cumsum(0) - sizes, order.argsort()
    own, size = person[anchor], sizes[person[anchor]]
    positive = order[start[own] + (place[anchor] - start[own] + 1 + drawn(size - 1)) % size]
    negative = order[(start[own] + size + drawn(len(order) - size)) % len(order)]
    x = descriptors.float().cpu()
    near, far = ((x[anchor] - x[other]).square().sum(1) for other in (positive, negative))
    scale = far.mean().clamp_min(torch.finfo(far.dtype).tiny)
    return Margins(float((far - near).mean() / scale), float((far > near).double().mean() * 100))
