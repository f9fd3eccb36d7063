"""One run from its order to its result: training (if any), evaluation, and the result file."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from vergence import catalogue
from vergence.contract.config import to_json
from vergence.contract.context import Context
from vergence.contract.data import told_by
from vergence.contract.identity import Identity
from vergence.contract.system import AnySystem
from vergence.core import memory
from vergence.core.errors import Cancelled, Interrupted
from vergence.core.files import save_tensors, write_json
from vergence.core.progress import Progress
from vergence.engine import signals
from vergence.engine.contexts import working
from vergence.engine.devices import make_fabric
from vergence.engine.evaluate import run_evaluation
from vergence.engine.fit import Fit
from vergence.engine.weights import metadata
from vergence.runs.folder import Result, Run
from vergence.runs.machine import Runtime

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def execute(
    run: Run, progress: Progress, runtime: Runtime | None = None, fabric: Fabric | None = None
) -> dict[str, float]:
    """Start or resume a run, and return its metrics on the test data.

    ``runtime`` may differ from the run's own in settings that do not change results, such as workers.
    """
    used = runtime or run.order.runtime
    fabric = fabric or make_fabric(used)
    with run.locked(progress.say) if fabric.global_rank == 0 else nullcontext():
        fabric.barrier()
        finished = fabric.broadcast(run.result is not None)
        return run.metrics if finished else _carry_on(run, fabric, progress, used)


def _carry_on(run: Run, fabric: Fabric, progress: Progress, runtime: Runtime) -> dict[str, float]:
    order = run.order
    system = catalogue.load(order.system)
    began, before = time.monotonic(), 0.0
    memory.reset_peak()
    with signals.listening() as stop:
        model: nn.Module | None = None
        steps, step_seconds, facts = 0, 0.0, None
        if system.trains:
            fit = Fit(run, fabric, progress, stop, runtime)
            model, facts = fit(), fit.ctx.facts
            steps, step_seconds = fit.place.total, fit.place.step_seconds
            before, began = fit.place.seconds, fit.began
        with working(system, order.config, run.folder, runtime, progress, facts, fabric) as ctx:
            ctx.cancelled = stop if ctx.world == 1 else bool
            try:
                raw = system.data(ctx, "test")
                data = system.prepare(ctx, raw)
                if model is None and system.offers("build"):
                    model = _untrained(run, system, ctx, data)
                evaluating = time.monotonic()
                metrics = run_evaluation(system, ctx, model, data)
            except Cancelled:
                hint = f"resume with: vergence train --resume {run.folder}"
                raise Interrupted(f"stopped during the evaluation; {hint}", stop.signal_number) from None
    result = Result(
        metrics=dict(metrics),
        steps=steps,
        seconds=round(before + time.monotonic() - began, 2),
        seconds_a_step=step_seconds / steps if steps else None,
        samples_a_second=len(data) / max(time.monotonic() - evaluating, 1e-9),
        peak_memory=memory.peak(),
        threads=torch.get_num_threads(),
        split=told_by(raw, "split") or "test",
    )
    if fabric.global_rank == 0:
        write_json(run.folder / "result.json", to_json(result))
    return metrics


def _untrained(run: Run, system: AnySystem, ctx: Context[Any, Any], data: Any) -> nn.Module:
    """A model that is used without training; its weights are saved too, so that it can be evaluated and used later."""
    order = run.order
    ctx.facts = system.facts(ctx, data)
    model: nn.Module = system.build(order.config, ctx.facts)
    identity = Identity(order.system, order.preset, order.variant, order.config, ctx.facts)
    save_tensors(run.folder / "last.safetensors", model.state_dict(), metadata(identity, system))
    return model
