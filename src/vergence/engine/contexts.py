"""The contexts that the engine passes to hooks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import nn

from vergence.contract.context import Context, Stage
from vergence.contract.identity import Identity
from vergence.contract.system import AnySystem
from vergence.core.memory import installed
from vergence.core.progress import Progress
from vergence.core.seeding import derive, seed_everything
from vergence.engine.devices import float_type, make_fabric
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
        memory=round(machine.limit * 1e9) or installed() * 3 // 4,
        rank=fabric.global_rank,
        world=fabric.world_size,
        autocast=fabric.autocast,
        agree=fabric.broadcast,
        load=load,
    )


@contextmanager
def working(
    system: AnySystem,
    config: Any,
    folder: Path,
    machine: Machine,
    progress: Progress,
    facts: Any = None,
    fabric: Fabric | None = None,
    stage: Stage = "test",
) -> Iterator[Context[Any, Any]]:
    """A context for work outside training, with its randomness fixed by the config's seed."""
    with undisturbed():
        fabric = fabric or make_fabric(machine)
        seed = getattr(config, "seed", 0)
        seed_everything(fabric.device, seed, "work")
        ctx = make_context(config, folder, fabric, machine, progress, stage, facts)
        ctx.generator.manual_seed(derive(seed, "work", "own"))
        yield ctx


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the caller's number of threads and random states at the end."""
    threads, python, numpy = torch.get_num_threads(), random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)
