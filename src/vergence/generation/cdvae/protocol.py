"""The protocol: translated pictures against the real ones of the same held-out object.

L1 and SSIM are the paper's. Beside them: whether a picture shows the right view (of all real views of its object, the
one asked for is nearest) and the right object (of all real objects in that view, its own is nearest), and how well a
linear probe reads the view from the code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from skimage.metrics import structural_similarity
from torch import Tensor

from vergence.contract.context import Context
from vergence.generation.cdvae.model import CDVAE, drawn
from vergence.generation.cdvae.settings import METRICS, Config, Facts
from vergence.generation.turntables import Pairs, Turntable

Ctx = Context[Config, Facts]
AT_ONCE = 64
RIDGE = 1e-2
"""Of the linear probe, relative to the mean square of the codes."""


def scores(ctx: Ctx, model: CDVAE, data: Turntable) -> Mapping[str, float]:
    """All metrics; those that compare views are not numbers where no object is seen from two."""
    rows = [_measured(ctx, model, batch) for batch in ctx.batches(Pairs(data), AT_ONCE, "pairs")]
    whole = {name: ctx.gather([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    if not whole:
        return dict.fromkeys(METRICS, math.nan) | {"reconstruction": _reconstruction(ctx, model, data)}
    of = {name: torch.cat(parts) for name, parts in whole.items()}
    return {
        "l1": _mean(of["l1"]),
        "ssim": _mean(of["ssim"]),
        "view": nearest(of["made"], of["real"], of["object"]),
        "identity": nearest(of["made"], of["real"], of["to"]),
        "probe": probe(of["code"], of["to"], of["object"]),
        "reconstruction": _mean(of["reconstruction"]),
        "copied": _mean(of["copied"]),
        "average": others_mean(of["real"], of["to"]),
    }


def _measured(ctx: Ctx, model: CDVAE, batch: Any) -> dict[str, Tensor]:
    real = as_bytes(batch["target"])
    made = as_bytes(model(batch["source"], batch["from"], batch["to"]))
    mean, spread = model.translator.encode(batch["target"], model.rows(batch["to"]))
    again = as_bytes(model.translator.decode(mean, model.rows(batch["to"])))
    code = drawn(mean, spread, ctx.generator)
    return {
        "made": made, "real": real, "code": code.double().cpu(), "to": batch["to"].cpu(),
        "object": batch["object"].cpu(), "l1": difference(made, real), "ssim": similarity(made, real),
        "reconstruction": difference(again, real), "copied": difference(as_bytes(batch["source"]), real),
    }  # fmt: skip


def _reconstruction(ctx: Ctx, model: CDVAE, data: Turntable) -> float:
    parts = []
    for batch in ctx.batches(data, AT_ONCE, "pictures"):
        again = model(batch["picture"], batch["view"], batch["view"])
        parts.append(difference(as_bytes(again), as_bytes(batch["picture"])))
    return _mean(torch.cat(ctx.gather(parts)))


def as_bytes(pictures: Tensor) -> Tensor:
    """Pictures from -1 to 1 as bytes, on the CPU."""
    return ((pictures.float().cpu() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def difference(one: Tensor, other: Tensor) -> Tensor:
    """Mean absolute difference of bytes (B, 3, S, S), (B,), from 0 to 255."""
    return (one.double() - other.double()).abs().flatten(1).mean(1)


def similarity(one: Tensor, other: Tensor) -> Tensor:
    """SSIM of bytes (B, 3, S, S), (B,): scikit-image's, mean over colours."""
    pairs = zip(one.numpy(), other.numpy(), strict=True)
    return torch.tensor(
        [structural_similarity(a, b, channel_axis=0, data_range=255) for a, b in pairs], dtype=torch.float64
    )


def nearest(made: Tensor, real: Tensor, group: Tensor) -> float:
    """Per cent of pictures whose nearest real one (L1) within their group is their own."""
    right = []
    for key in group.unique():
        own = (group == key).nonzero().flatten()
        if len(own) > 1:
            one, other = (side[own].flatten(1).float() for side in (made, real))
            right.append(torch.cdist(one, other, p=1).argmin(1) == torch.arange(len(own)))
    return 100 * _mean(torch.cat(right)) if right else math.nan


def others_mean(real: Tensor, group: Tensor) -> float:
    """L1 of the mean of all other objects in the same view: what a picture costs that ignores its input."""
    parts = []
    for key in group.unique():
        own = real[group == key].double()
        if len(own) > 1:
            parts.append(difference((own.sum(0) - own) / (len(own) - 1), own))
    return _mean(torch.cat(parts)) if parts else math.nan


def probe(codes: Tensor, views: Tensor, objects: Tensor) -> float:
    """Per cent of views that ridge regression on the codes (N, d) of every other object names right on the rest."""
    _, place = objects.unique(return_inverse=True)
    known = place % 2 == 0
    if known.all() or not known.any():
        return math.nan
    width = int(views.max()) + 1
    full = torch.cat([codes, torch.ones(len(codes), 1, dtype=codes.dtype)], 1)
    x, y = full[known], torch.eye(width, dtype=codes.dtype)[views[known]]
    square = x.mT @ x
    ridge = RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=codes.dtype)
    weights = torch.linalg.solve(square + ridge, x.mT @ y)
    return 100 * _mean((full[~known] @ weights).argmax(1) == views[~known])


def _mean(values: Tensor) -> float:
    return float(values.double().mean())
