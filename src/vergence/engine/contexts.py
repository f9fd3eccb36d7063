"""The contexts that the engine passes to hooks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from vergence.contract.context import Context, Stage
from vergence.contract.identity import Identity
from vergence.contract.system import AnySystem
from vergence.core.memory import installed
from vergence.core.progress import Progress
from vergence.core.seeding import derive, seed_everything
from vergence.engine.devices import Alone, float_type, here
from vergence.engine.weights import load_model
from vergence.runs.machine import Machine

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def make_context(
    config: Any,
    folder: Path,
    place: Fabric | Alone,
    machine: Machine,
    progress: Progress,
    stage: Stage,
    facts: Any = None,
) -> Context[Any, Any]:
    """A context on a machine; its generator is not seeded yet."""
    kind = float_type(machine)

    def load(path: Path) -> tuple[nn.Module, Identity]:
        model, identity = load_model(path)
        return model.to(place.device, kind), identity

    return Context(
        config=config,
        folder=folder,
        facts=facts,
        stage=stage,
        device=place.device,
        float_type=kind,
        generator=torch.Generator(place.device),
        progress=progress,
        workers=machine.workers,
        memory=round(machine.limit * 1e9) or installed() * 3 // 4,
        rank=place.global_rank,
        world=place.world_size,
        autocast=place.autocast,
        agree=place.broadcast,
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
        place = fabric or here(machine)
        seed = getattr(config, "seed", 0)
        seed_everything(place.device, seed, "work")
        ctx = make_context(config, folder, place, machine, progress, stage, facts)
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
