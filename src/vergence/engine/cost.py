"""What a model costs, counted without running it: parameters, and multiply-adds on meta tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from vergence.contract.system import AnySystem


@dataclass(frozen=True)
class Cost:
    """Cost of one model on one sample."""

    parameters: int
    macs: int


def parameters(model: nn.Module) -> int:
    """Trainable and frozen parameters, tied ones once."""
    return sum(p.numel() for p in model.parameters())


def count(system: AnySystem, config: Any, facts: Any) -> Cost | None:
    """Parameters and multiply-adds of the model for one sample of its published size; None without a model."""
    if not (system.offers("build") and system.offers("example")):
        return None
    with torch.device("meta"):
        model: nn.Module = system.build(config, facts).eval()
        example = system.example(config, facts)
        # The counter counts two operations per multiply-add; on the meta device, attention counts as matrix products.
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(*example)
    return Cost(parameters(model), counter.get_total_flops() // 2)
