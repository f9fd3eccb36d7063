"""PyTorch optimisers from their description."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from vergence.contract.training import Optimiser
from vergence.core.errors import VergenceError


def build_optimiser(spec: Optimiser, module: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a module's trainable parameters, in groups by learning rate and weight decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            multipliers = (_match(spec.rates, name), _match(spec.decays, name))
            groups.setdefault(multipliers, []).append(parameter)
    for pattern in (*spec.rates, *spec.decays):
        if not any(fnmatchcase(name, pattern) for name, _ in module.named_parameters()):
            raise VergenceError(f"no parameter name matches the pattern {pattern!r} of the optimiser's rates or decays")
    if not groups:
        raise VergenceError("there is nothing to train: no parameter of the model requires a gradient")
    described: list[dict[str, Any]] = [
        {"params": parameters, "rate": rate, "lr": spec.lr * rate, "weight_decay": spec.weight_decay * decay}
        for (rate, decay), parameters in groups.items()
    ]
    # One fused call per group: on small networks the loop over parameters costs as much as the arithmetic.
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for g in groups.values() for p in g)
    if spec.kind == "sgd":
        return torch.optim.SGD(described, lr=spec.lr, momentum=spec.momentum, nesterov=spec.nesterov, fused=fused)
    if spec.kind == "adam":
        return torch.optim.Adam(described, lr=spec.lr, betas=spec.betas, fused=fused)
    return torch.optim.AdamW(described, lr=spec.lr, betas=spec.betas, fused=fused)


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every group, each with its multiplier."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["rate"]


def state_by_name(optimiser: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """An optimiser's state of each parameter, by the parameter's name in the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(parameter)]: dict(memory) for parameter, memory in optimiser.state.items()}


def load_state_by_name(optimiser: torch.optim.Optimizer, model: nn.Module, memories: dict[str, Any]) -> None:
    """Restore an optimiser's state; parameters that are new since then start fresh."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    state = {}
    for index, parameter in enumerate(p for group in optimiser.param_groups for p in group["params"]):
        if names[id(parameter)] in memories:
            state[index] = memories[names[id(parameter)]]
        elif isinstance(optimiser, torch.optim.SGD) and optimiser.defaults["momentum"]:
            # The same first step as without a buffer; fused SGD wants one for every parameter or for none.
            state[index] = {"momentum_buffer": torch.zeros_like(parameter)}
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def _match(multipliers: dict[str, float], name: str) -> float:
    return next((value for pattern, value in multipliers.items() if fnmatchcase(name, pattern)), 1.0)
