"""Studies: the runs that a comparison or a claim needs, trained once and shared."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vergence import catalogue
from vergence.contract.benchmark import Contest
from vergence.contract.claims import CannotJudge, Needs
from vergence.contract.config import from_json
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.progress import Progress
from vergence.runs.folder import ROOT, Run, index
from vergence.runs.machine import Runtime
from vergence.runs.order import Order, with_seed

if TYPE_CHECKING:
    from torch import nn

ROUNDS = 7
"""How often a contest is timed for a claim."""


@dataclass(frozen=True)
class RunPlan:
    """How to get runs: where they are kept, how many at a time, and whether old ones will do."""

    root: Path = ROOT
    jobs: int = 0
    """Runs at a time (0: one a core)."""
    fresh: bool = False
    """Train again what has been trained."""
    same_code: bool = False
    """Take only runs that were made with exactly this code, shared parts and all."""
    runtime: Runtime = field(default_factory=Runtime)


def order_for(system: str, need: Needs, runtime: Runtime) -> Order:
    """The order that a need stands for."""
    config = catalogue.settings(system).configure(need.preset, need.variant, dict(need.changes))
    return Order(system, need.preset, need.variant, with_seed(config, need.seed), runtime)


def finished_runs(orders: Sequence[Order], plan: RunPlan, progress: Progress) -> list[Run]:
    """Finished runs of the orders: those there are, and the others trained (or carried on) now."""
    keys = [order.key for order in orders]
    systems = {order.system for order in orders}
    old = {} if plan.fresh else {k: r for s in systems for k, r in index(s, plan.root, plan.same_code).items()}
    needed = dict(zip(keys, orders, strict=True))
    found = {
        key: old.get(key) or Run.create(replace(order, runtime=plan.runtime), plan.root)
        for key, order in needed.items()
    }
    todo = [run for run in found.values() if run.result is None]
    ready = len(found) - len(todo)
    if ready and todo:
        progress.say(f"{ready} of {len(found)} runs are there already")
    jobs = min(plan.jobs or max((os.cpu_count() or 1) // max(plan.runtime.threads, 1), 1), len(todo))
    if jobs > 1:
        from vergence.engine.jobs import run_all

        run_all(todo, jobs, progress)
    else:
        from vergence.engine.execute import execute

        for run in todo:
            execute(run, progress)
    return [found[key] for key in keys]


@dataclass
class RunEvidence:
    """Evidence backed by finished runs and the system's benchmark."""

    system: AnySystem
    runs: dict[Needs, Run]

    def metrics(self, need: Needs) -> dict[str, float]:
        return self._run(need).metrics

    def model(self, need: Needs) -> nn.Module:
        from vergence.engine.weights import load_model

        weights = self._run(need).weights
        if weights is None:
            raise VergenceError(f"{self._run(need).folder} has no weights")
        return load_model(weights)[0]

    def times(self, contest: str) -> dict[str, Sequence[float]]:
        from vergence.engine.bench import core_share, race, refuse_if_busy

        try:
            refuse_if_busy(core_share(0.5))
        except VergenceError as error:
            raise CannotJudge(str(error)) from None
        return {result.rival: result.ratios for result in race(self._contest(contest), ROUNDS)}

    def memory(self, contest: str) -> dict[str, float]:
        from vergence.engine.bench import memory

        return {rival: held.ratio for rival, held in memory(self.system.about.name, self._contest(contest)).items()}

    def parameters(self, preset: str, variant: str | None = None) -> int:
        import torch

        settings = self.system.settings
        facts: Any = from_json(settings.facts, dict(settings.published[preset].facts), f"the facts of {preset}")
        with torch.device("meta"):
            model: nn.Module = self.system.build(settings.configure(preset, variant), facts)
        return sum(p.numel() for p in model.parameters())

    def _contest(self, wanted: str) -> Contest:
        """The contest of the system's bench with an id."""
        name = self.system.about.name
        module = catalogue.bench(name)
        known: dict[str, Contest] = {c.id: c for c in module.contests()} if module else {}
        if wanted not in known:
            raise VergenceError(f"the bench of {name} has no contest {wanted!r}{did_you_mean(wanted, known)}")
        return known[wanted]

    def _run(self, need: Needs) -> Run:
        if need not in self.runs:
            raise VergenceError(f"the claim looks at {need}, which it does not name among its needs")
        return self.runs[need]
