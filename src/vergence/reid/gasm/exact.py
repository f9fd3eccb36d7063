"""Statements that a computation decides: what the distance of Eq. 4 must satisfy, in float64, forward and backward;
and the matching check, which needs no training."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.metrics.ranking import distances
from vergence.nn.saliency import Saliency, SaliencyHead, fused, map_loss, saliency_pool
from vergence.ops.local_matching import matching_distances, reconstruction_distances
from vergence.reference import local_matching as plain
from vergence.reid.gasm.model import Described, pair_distances
from vergence.reid.gasm.settings import SALIENCY, Matching

ROOT = 1e-7
"""Tolerance of a distance that is zero: the root of the rounding of a product."""


def _unit(*shape: int, seed: str) -> Tensor:
    return F.normalize(noise(*shape, seed=seed), dim=-1)


def _weights(*shape: int, seed: str) -> Tensor:
    drawn = uniform(*shape, seed=seed)
    return drawn / drawn.sum(-1, keepdim=True)


def matching_is_its_definition(_: Evidence) -> float:
    """Against all pairs of locations at once; gradients through unit vectors too."""
    raw = [noise(3, 6, 5, seed="query").requires_grad_(), noise(4, 7, 5, seed="gallery").requires_grad_()]
    query, gallery = (F.normalize(x, dim=-1) for x in raw)
    weights = _weights(3, 6, seed="weights").requires_grad_()
    ours, theirs = matching_distances(query, gallery, weights), plain.matching(query, gallery, weights)
    return max(apart_with_gradients(ours, theirs, [*raw, weights]),
               apart(ours, plain.matching_by_picture(query, gallery, weights)))  # fmt: skip


def reconstruction_is_its_definition(_: Evidence) -> float:
    """DSR with factors that are computed once, against the public code's loop over pairs, forward and backward."""
    raw = [noise(2, 4, 6, seed="query").requires_grad_(), noise(3, 5, 6, seed="gallery").requires_grad_()]
    query, gallery = (F.normalize(x, dim=-1) for x in raw)
    weights = _weights(2, 4, seed="weights").requires_grad_()
    ours = reconstruction_distances(query, gallery, weights, ridge=0.05)
    return apart_with_gradients(ours, plain.reconstruction(query, gallery, weights, ridge=0.05), [*raw, weights])


def itself_is_at_zero(_: Evidence) -> float:
    """The distance of a picture to itself, whatever the saliency."""
    x = _unit(4, 24, 8, seed="x")
    return float(matching_distances(x, x, _weights(4, 24, seed="weights")).diagonal().abs().max())


def bounds_are_kept(_: Evidence) -> float:
    """How far distances leave the range from 0 to 2; opposite vectors reach 2."""
    x = _unit(1, 1, 8, seed="x")
    far = matching_distances(
        torch.cat([x, _unit(20, 1, 8, seed="more")]), torch.cat([-x, x]), torch.ones(21, 1).double()
    )
    return max(apart(far[0, 0], x.new_tensor(2.0)), float(-far.min()), float(far.max()) - 2)


def order_does_not_matter(_: Evidence) -> float:
    """Locations of the gallery in another order, and those of the query together with their saliency."""
    query, gallery, weights = _unit(3, 12, 6, seed="q"), _unit(4, 9, 6, seed="g"), _weights(3, 12, seed="w")
    before = matching_distances(query, gallery, weights)
    rows, others = uniform(12, seed="rows").argsort(), uniform(9, seed="others").argsort()
    return max(apart(matching_distances(query, gallery[:, others], weights), before),
               apart(matching_distances(query[:, rows], gallery, weights[:, rows]), before))  # fmt: skip


def more_locations_are_never_farther(_: Evidence) -> float:
    """The largest growth of a distance when the gallery picture gains locations."""
    query, gallery, weights = _unit(3, 12, 6, seed="q"), _unit(4, 9, 6, seed="g"), _weights(3, 12, seed="w")
    more = torch.cat([gallery, _unit(4, 5, 6, seed="more")], 1)
    return float((matching_distances(query, more, weights) - matching_distances(query, gallery, weights)).max())


def ignored_locations_do_not_count(_: Evidence) -> float:
    """Other features where the saliency is zero; a single location that counts; and all alike."""
    query, gallery = _unit(3, 12, 6, seed="q"), _unit(4, 9, 6, seed="g")
    weights = _weights(3, 12, seed="w")
    weights[:, 5:] = 0
    other = torch.cat([query[:, :5], _unit(3, 7, 6, seed="other")], 1)
    one = F.one_hot(torch.tensor([4, 0, 11]), 12).double()
    nearest = torch.stack([torch.cdist(query[i, [j]], gallery).amin((1, 2)) for i, j in enumerate([4, 0, 11])])
    same = torch.full((3, 12), 1 / 12, dtype=torch.float64)
    return max(
        apart(matching_distances(other, gallery, weights), matching_distances(query, gallery, weights)),
        apart(matching_distances(query, gallery, one), nearest),
        apart(matching_distances(query, gallery, same), matching_distances(query, gallery)),
    )


def place_does_not_matter(_: Evidence) -> float:
    """The distance to larger maps that hold the query somewhere: shifted, cropped together, among other things."""
    query = _unit(1, 4 * 3, 8, seed="query").unflatten(1, (4, 3))
    worst = 0.0
    for down, across in ((0, 0), (5, 2), (8, 5)):
        gallery = _unit(1, 12, 8, 8, seed=f"around {down}")
        gallery[:, down : down + 4, across : across + 3] = query
        far = matching_distances(query.flatten(1, 2), gallery.flatten(1, 2), _weights(1, 12, seed="w"))
        worst = max(worst, float(far.max()))
    return worst


def directions_differ(_: Evidence) -> float:
    """The mean difference of the distances of pairs in both directions."""
    x, y = _unit(6, 12, 6, seed="x"), _unit(6, 12, 6, seed="y")
    return float((matching_distances(x, y) - matching_distances(y, x).mT).abs().mean())


def pooling_is_an_average(_: Evidence) -> float:
    """Uniform saliency against the average, forward and backward; and maps that are scaled before they are fused."""
    x = noise(2, 6, 5, 3, seed="x").requires_grad_()
    even = torch.full((2, 5, 3), 1 / 15, dtype=torch.float64)
    found = filled(SaliencyHead(6))(x.detach())
    scales = [apart(fused(Saliency(3 * found.mask, 3 * found.parts), kind), fused(found, kind))
              for kind in ("mask", "pose", "mean", "product")]  # fmt: skip
    return max(apart_with_gradients(saliency_pool(x, even), x.mean((2, 3)), [x]), *scales)


def losses_vanish_only_at_their_targets(_: Evidence) -> float:
    """Eqs. 1 and 2 of equal maps; against the Frobenius norm elsewhere, forward and backward; and the gradient at equal
    maps, where that of a norm is undefined."""
    target, predicted = uniform(3, 13, 6, 2, seed="target"), uniform(3, 13, 6, 2, seed="predicted").requires_grad_()
    norms = torch.stack([(p - t).norm() for p, t in zip(predicted, target, strict=True)]).mean()
    equal = target.clone().requires_grad_()
    (slope,) = torch.autograd.grad(map_loss(equal, target), equal)
    return max(apart_with_gradients(map_loss(predicted, target) + 1e-6, norms, [predicted]),
               float(map_loss(target, target).abs()), float(slope.abs().max()))  # fmt: skip


def extra_parameters(evidence: Evidence) -> float:
    """Parameters over the baseline, at the published size."""
    return abs(evidence.parameters("paper", "gasm") - evidence.parameters("paper", "baseline") - SALIENCY)


def candidates_are_compared_fully(_: Evidence) -> float:
    """With every picture among the candidates, the distances of the whole matrix; and with some of them, candidates
    come first with the same distance; for fewer queries than gallery pictures, and for more."""
    three, seven = (
        Described(_unit(n, 6, seed=f"p{n}"), _unit(n, 8, 6, seed=f"l{n}"), _weights(n, 8, seed=f"s{n}")) for n in (3, 7)
    )
    worst = -2.0
    for queries, gallery in ((three, seven), (seven, three)):
        whole = pair_distances(Matching(), queries, gallery)
        every = pair_distances(Matching(), queries, gallery, torch.ones_like(whole, dtype=torch.bool))
        close = uniform(*whole.shape, seed="close") < 0.5
        some = pair_distances(Matching(), queries, gallery, close)
        behind = float(some[close].max() - some[~close].min())
        worst = max(worst, apart(every, whole), apart(some[close], whole[close]), behind)
    return worst


# The matching check ---------------------------------------------------------------------------------------------------

PEOPLE, PARTS, WIDTH, ROWS, COLUMNS = 60, 6, 32, 12, 4


def _person(parts: Tensor, source: torch.Generator) -> tuple[Tensor, Tensor]:
    """A map (12, 4, 32) of a person, two rows for each of 6 parts, in the two middle columns before a random
    background; and where the person is."""
    body = parts.repeat_interleave(ROWS // PARTS, 0)[:, None]
    cells = 1.5 * torch.randn(ROWS, COLUMNS, WIDTH, generator=source)
    cells[:, 1:3] = body + 0.4 * torch.randn(ROWS, 2, WIDTH, generator=source)
    mask = torch.zeros(ROWS, COLUMNS)
    mask[:, 1:3] = 1
    return cells, mask


def matched(hidden: float, shift: int, seed: int) -> dict[str, float]:
    """Rank-1 in per cent of 60 people by four distances, where another person hides a share of the rows of the query
    from below and the gallery is shifted by up to ``shift`` rows."""
    source = generator("matching check", seed)
    everyone = torch.randn(PEOPLE, PARTS, WIDTH, generator=source)
    queries, gallery, salient, whole = [], [], [], []
    for number in range(PEOPLE):
        cells, mask = _person(everyone[number], source)
        other = (number + 1 + int(torch.randint(PEOPLE - 1, (), generator=source))) % PEOPLE
        front, _ = _person(everyone[other], source)
        first = round(ROWS * (1 - hidden))
        cells[first:, 1:3], mask[first:] = front[first:, 1:3], 0
        queries.append(cells)
        salient.append(mask)
        move = int(torch.randint(-shift, shift + 1, (), generator=source))
        cells, mask = _person(everyone[number], source)
        gallery.append(cells.roll(move, 0))
        whole.append(mask.roll(move, 0))

    def weights(masks: Sequence[Tensor]) -> Tensor:
        stacked = torch.stack(list(masks)).flatten(1)
        noisy = (stacked + 0.15 * torch.randn(stacked.shape, generator=source)).clamp(0.02, 1)
        return noisy / noisy.sum(1, keepdim=True)

    x, y = (torch.stack(cells).flatten(1, 2) for cells in (queries, gallery))
    own, theirs = weights(salient), weights(whole)
    pooled = [F.normalize((cells * w[..., None]).sum(1), dim=1) for cells, w in ((x, own), (y, theirs))]
    asked, searched = (F.normalize(cells, dim=-1) for cells in (x, y))
    far = {
        "average": distances(*(F.normalize(cells.mean(1), dim=1) for cells in (x, y))),
        "pooled": distances(*pooled),
        "unweighted": matching_distances(asked, searched),
        "gasm": matching_distances(asked, searched, own),
    }
    right = torch.arange(PEOPLE)
    return {name: float((d.argmin(1) == right).float().mean() * 100) for name, d in far.items()}


def leads(better: str, worse: str, hidden: float, shift: int = 0) -> Callable[[Evidence], list[float]]:
    """Points of rank-1 by which one distance is ahead of another, over 5 seeds."""

    def measure(_: Evidence) -> list[float]:
        found = [matched(hidden, shift, seed) for seed in range(5)]
        return [each[better] - each[worse] for each in found]

    return measure
