"""One run from its order to its result: train (or not), judge, draw."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade import catalogue
from saccade.config import to_json
from saccade.context import Context
from saccade.engine import signals
from saccade.engine.devices import make_fabric
from saccade.engine.evaluate import run_evaluation
from saccade.engine.fit import Fit
from saccade.engine.weights import load_model
from saccade.files import write_json
from saccade.progress import Progress
from saccade.run import Run, Runtime
from saccade.seeding import derive, seed_everything
from saccade.system import System


def execute(run: Run, progress: Progress) -> dict[str, float]:
    """Carry a run to its end, from wherever it is; its metrics on the test data."""
    if run.result is not None:
        return dict(run.result["metrics"])
    order = run.order
    system = catalogue.load(order.system)
    with signals.listening() as stop:
        fabric = make_fabric(order.runtime)
        began = time.monotonic()
        model: nn.Module | None = None
        steps, step_seconds, facts = 0, 0.0, None
        if system.trains:
            fit = Fit(run, fabric, progress, stop)
            model, facts = fit(), fit.ctx.facts
            steps, step_seconds = fit.place.total, fit.place.seconds
        with working(system, order.config, run.folder, order.runtime, progress) as ctx:
            ctx.cancelled = stop
            data = system.prepare(ctx, system.data(ctx, "test"))
            if model is None and system.offers("build"):
                facts = system.facts(ctx, data)
                model = system.build(order.config, facts)
            ctx.facts = facts
            judging = time.monotonic()
            metrics = run_evaluation(system, ctx, model, data, fabric)
            judging = time.monotonic() - judging
    write_json(
        run.folder / "result.json",
        {
            "metrics": metrics,
            "facts": to_json(facts),
            "steps": steps,
            "seconds": round(time.monotonic() - began, 2),
            "seconds_a_step": step_seconds / steps if steps else None,
            "samples_a_second": len(data) / max(judging, 1e-9),
            "peak_memory": peak_memory(),
            "threads": torch.get_num_threads(),
        },
    )
    return metrics


@contextmanager
def working(
    system: System[Any, Any], config: Any, folder: Path, runtime: Runtime, progress: Progress, facts: Any = None
) -> Iterator[Context[Any, Any]]:
    """A context for work outside training, with its randomness fixed by the config's seed."""
    fabric = make_fabric(runtime)
    seed = getattr(config, "seed", 0)
    seed_everything(fabric.device, seed, "work")
    generator = torch.Generator(fabric.device).manual_seed(derive(seed, "work", "own"))
    yield Context(
        config=config,
        folder=folder,
        facts=facts,
        device=fabric.device,
        generator=generator,
        progress=progress,
        workers=runtime.workers,
    )


def trained_model(run: Run) -> nn.Module | None:
    """What a run ended with; None for a system without a model."""
    return load_model(run.weights)[0] if run.weights else None


def peak_memory() -> int:
    """The most memory this process has held, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
