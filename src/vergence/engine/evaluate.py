"""Evaluation by a system's own protocol, under the same conditions every time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError
from vergence.core.seeding import derive, seed_everything


def run_evaluation(system: AnySystem, ctx: Context[Any, Any], model: nn.Module | None, data: Data) -> dict[str, float]:
    """A model's metrics on ``data``: in evaluation mode, without gradients, with a fixed seed."""
    if not len(data):
        raise VergenceError(f"there is nothing to evaluate {system.about.name} on: the data is empty")
    seed = getattr(ctx.config, "seed", 0)
    seed_everything(ctx.device, seed, "evaluate")
    ctx.generator.manual_seed(derive(seed, "evaluate", "own"))
    if model is not None:
        model.eval()
    with torch.no_grad(), ctx.autocast():
        metrics = {name: float(value) for name, value in system.evaluate(ctx, model, data).items()}
    metrics = ctx.agree(metrics)
    first = system.judged_by(ctx.config)
    if first not in metrics:  # the others may not apply to this data
        raise VergenceError(f"{system.about.name} is judged by {first!r}, but its evaluation does not return it")
    return metrics
