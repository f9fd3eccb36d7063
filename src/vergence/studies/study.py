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
"""Timing rounds of a contest when it is evidence for a claim."""


@dataclass(frozen=True)
class RunPlan:
    """How to obtain runs: where they are kept, how many train at a time, and whether old ones are reused."""

    root: Path = ROOT
    jobs: int = 0
    """Runs trained at a time (0: one per core)."""
    fresh: bool = False
    """Train again instead of reusing finished runs."""
    same_code: bool = False
    """Reuse only runs made with exactly this code, including the shared parts."""
    runtime: Runtime = field(default_factory=Runtime)


def order_for(system: str, need: Needs, runtime: Runtime) -> Order:
    """The training order for a need of a claim."""
    config = catalogue.settings(system).configure(need.preset, need.variant, dict(need.changes))
    return Order(system, need.preset, need.variant, with_seed(config, need.seed), runtime)


def finished_runs(orders: Sequence[Order], plan: RunPlan, progress: Progress) -> list[Run]:
    """One finished run per order: existing ones are reused, the others are trained or resumed now."""
    keys = [order.key for order in orders]
    systems = {order.system for order in orders}
    old = {} if plan.fresh else {k: r for s in systems for k, r in index(s, plan.root, plan.same_code).items()}
    needed = dict(zip(keys, orders, strict=True))
    by_key = {
        key: old.get(key) or Run.create(replace(order, runtime=plan.runtime), plan.root)
        for key, order in needed.items()
    }
    todo = [run for run in by_key.values() if run.result is None]
    ready = len(by_key) - len(todo)
    if ready and todo:
        progress.say(f"{ready} of {len(by_key)} runs exist already")
    jobs = min(plan.jobs or max((os.cpu_count() or 1) // max(plan.runtime.threads, 1), 1), len(todo))
    if jobs > 1:
        from vergence.engine.jobs import run_all

        run_all(todo, jobs, progress)
    else:
        from vergence.engine.execute import execute

        for run in todo:
            execute(run, progress)
    return [by_key[key] for key in keys]


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
        """The contest with this id in the system's benchmark."""
        name = self.system.about.name
        module = catalogue.bench(name)
        known: dict[str, Contest] = {c.id: c for c in module.contests()} if module else {}
        if wanted not in known:
            raise VergenceError(f"the bench of {name} has no contest {wanted!r}{did_you_mean(wanted, known)}")
        return known[wanted]

    def _run(self, need: Needs) -> Run:
        if need not in self.runs:
            raise VergenceError(f"the claim uses {need}, which it does not list in its needs")
        return self.runs[need]
