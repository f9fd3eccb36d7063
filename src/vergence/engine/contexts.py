"""Contexts as the engine gives them to hooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from vergence.contract.context import Context, Stage
from vergence.contract.identity import Identity
from vergence.core.progress import Progress
from vergence.engine.devices import float_type
from vergence.engine.weights import load_model
from vergence.runs.machine import Machine


def make_context(
    config: Any, folder: Path, fabric: Fabric, machine: Machine, progress: Progress, stage: Stage, facts: Any = None
) -> Context[Any, Any]:
    """A context on a machine; its generator is not seeded yet."""
    kind = float_type(machine)

    def load(path: Path) -> tuple[nn.Module, Identity]:
        model, identity = load_model(path)
        return model.to(fabric.device, kind), identity

    return Context(
        config=config,
        folder=folder,
        facts=facts,
        stage=stage,
        device=fabric.device,
        float_type=kind,
        generator=torch.Generator(fabric.device),
        progress=progress,
        workers=machine.workers,
        rank=fabric.global_rank,
        world=fabric.world_size,
        autocast=fabric.autocast,
        agree=fabric.broadcast,
        load=load,
    )
