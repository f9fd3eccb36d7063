"""Training, comparisons, claims and benchmarks from Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from torch import nn

from vergence import catalogue
from vergence.api.models import Model, as_model
from vergence.contract.claims import KINDS, UNTRAINED, Needs
from vergence.contract.config import override, to_json
from vergence.contract.data import change_source
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.progress import Progress
from vergence.engine.bench import core_share, memories, race, refuse_if_busy
from vergence.engine.execute import execute
from vergence.engine.overhead import has_bare_loop, overhead
from vergence.report.build import report_run, write_report
from vergence.runs.folder import ROOT, Run, same_or_refuse
from vergence.runs.machine import Machine, Runtime
from vergence.runs.order import Order, with_seed
from vergence.runs.versions import refuse_uncommitted
from vergence.studies import comparison, ledger, results
from vergence.studies.comparison import Comparison
from vergence.studies.ledger import Entry
from vergence.studies.study import RunPlan, finished_runs, order_for
from vergence.studies.subject import Subject
from vergence.studies.traces import Replay
from vergence.tools import datacheck
from vergence.tools.datacheck import DataCheck
from vergence.tools.exporting import Exported, Target


def predict(
    model: Model | nn.Module | str | Path,
    /,
    *,
    machine: Machine | None = None,
    progress: Progress | None = None,
    **inputs: Any,
) -> Any:
    """Predict with a model, a weights file, or the starter weights of a named system:
    ``predict("flot", first="a.ply", second="b.ply")`` returns a :class:`Result`."""
    return as_model(model).predict(machine=machine, progress=progress, **inputs)


def evaluate(
    model: Model | nn.Module | str | Path,
    *,
    data: str = "",
    split: str = "test",
    changes: Mapping[str, Any] | None = None,
    machine: Machine | None = None,
    progress: Progress | None = None,
) -> dict[str, float]:
    """Metrics by the paper's protocol, on the data of the weights' config or on ``data``, such as "cifar10:PATH"."""
    return as_model(model).evaluate(data=data, split=split, changes=changes, machine=machine, progress=progress)


def export(model: Model | nn.Module | str | Path, path: str | Path, *, to: Target | None = None) -> Exported:
    """Write a model for other programs: ``export("last.safetensors", "model.onnx")``."""
    return as_model(model).export(path, to)


def check_data(source: str, system: str = "", workers: int = 0, progress: Progress | None = None) -> DataCheck:
    """Read every split and sample of ``LAYOUT:PATH``; errors are listed in ``problems``."""
    return datacheck.check(source, system, workers, progress)


def compare(*runs: str | Path | Run) -> Comparison:
    """Differences between runs, given by their folders."""
    return comparison.compare([run.folder if isinstance(run, Run) else Path(run) for run in runs])


# Training -------------------------------------------------------------------------------------------------------------


def train(
    name: str = "",
    *,
    preset: str = "tiny",
    variant: str = "",
    changes: Mapping[str, Any] | None = None,
    seed: int | None = None,
    init: str | Path = "",
    resume: str | Path | Run | None = None,
    runs: Path = ROOT,
    runtime: Runtime | None = None,
    report: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train one variant: ``train("snl", variant="nl", changes={"train.epochs": 3})``. The run's folder holds everything
    needed to repeat it; ``resume`` continues one that was stopped."""
    shown = progress or Progress()
    if resume is not None:
        run = resume if isinstance(resume, Run) else Run.open(Path(resume))
        if changes:
            same_or_refuse(run, replace(run.order, config=override(run.order.config, changes)))
    else:
        settings = catalogue.settings(name)
        if not catalogue.load(name).trains:
            raise catalogue.load(name).not_offered("training")
        chosen = variant or settings.default_variant(preset)
        config = settings.configure(preset, chosen, changes)
        config = config if seed is None else with_seed(config, seed)
        run = Run.create(Order(name, preset, chosen, config, runtime or Runtime(), str(init)), runs)
    execute(run, shown, runtime)
    if report:
        report_run(run, shown)
    return run


# A paper's comparison -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PaperRun:
    """A paper's comparison as measured here."""

    system: str
    preset: str
    runs: dict[str, list[Run]]
    """By variant, one per seed."""
    claims: list[Entry]
    report: Path

    @property
    def metrics(self) -> dict[str, dict[str, list[float]]]:
        """By variant and metric, one value per seed."""
        by_variant = {}
        for variant, runs in self.runs.items():
            each = [run.metrics for run in runs]
            by_variant[variant] = {m: [one[m] for one in each] for m in each[0] if all(m in one for one in each)}
        return by_variant


def run(
    name: str,
    *,
    preset: str = "tiny",
    variants: Sequence[str] = (),
    every: bool = False,
    seeds: int = 1,
    claimed: bool = False,
    data: str = "",
    jobs: int = 0,
    fresh: bool = False,
    store: bool = False,
    picture: str = "",
    runs: Path = ROOT,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> PaperRun:
    """Train the headline variants (or reuse finished runs), check the claims about them, and write one HTML report.
    ``every`` adds the other variants, ``claimed`` all seeds that claims need."""
    system, shown = catalogue.load(name), progress or Progress()
    if seeds < 1:
        raise VergenceError(f"at least one seed is needed, got {seeds}")
    if store:
        refuse_uncommitted()
    chosen = _variants(system, variants, every)
    needs = [
        Needs(variant, seed, preset, tuple(change_source(system.configure(preset), data).items()))
        for variant in chosen
        for seed in _seeds(system, preset, variant, seeds, claimed)
    ]
    plan = RunPlan(runs, jobs, fresh, store, runtime or Runtime())
    command = command or shlex.join(["vergence", "run", name])
    done = finished_runs([order_for(name, need, plan.runtime) for need in needs], plan, shown)
    by_variant: dict[str, list[Run]] = {}
    for need, each in zip(needs, done, strict=True):
        by_variant.setdefault(need.variant, []).append(each)
    for each in done:
        if not (each.folder / "report.html").exists():
            report_run(each, shown)
    entries = _judge(system, plan, shown, command, set(needs))
    subject = Subject(system, preset, by_variant, entries, [command])
    folder = runs / name / "reports" / f"{datetime.now():%Y%m%d-%H%M%S}-{preset}"
    report = write_report(subject, folder, shown)
    if store:
        for path in results.store_run(subject, command, shown, picture):
            shown.say(f"stored: {path}")
    return PaperRun(name, preset, by_variant, entries, report)


def _variants(system: AnySystem, named: Sequence[str], every: bool) -> list[str]:
    for variant in named:
        if variant not in system.variants:
            known = did_you_mean(variant, system.variants)
            raise VergenceError(f"{system.about.name} has no variant {variant!r}{known}")
    if named:
        return list(dict.fromkeys(named))
    return [name for name, variant in system.variants.items() if variant.headline or every]


def _seeds(system: AnySystem, preset: str, variant: str, seeds: int, claimed: bool) -> list[int]:
    named = [need for claim in system.claims for need in claim.needs] if claimed else []
    own = {need.seed for need in named if (need.variant, need.preset, need.changes) == (variant, preset, ())}
    return sorted(own | set(range(seeds)))


def _judge(system: AnySystem, plan: RunPlan, progress: Progress, command: str, there: set[Needs]) -> list[Entry]:
    """Judge checks, exact claims, and empirical ones whose runs all exist; the others keep their latest result."""
    name = system.about.name
    ready = [c for c in system.claims if c.kind in UNTRAINED or (c.needs and there.issuperset(c.needs))]
    measured = ledger.measure(name, ready, plan, progress, command) if ready else []
    if measured:
        ledger.store(measured, plan.root / name)
    fresh = {entry.claim.id: entry for entry in measured}
    return [fresh.get(entry.claim.id, entry) for entry in ledger.latest(name, plan.root)]


# Claims ---------------------------------------------------------------------------------------------------------------


def claims(
    *names: str,
    kind: str = "",
    only: Sequence[str] = (),
    known: bool = False,
    jobs: int = 0,
    fresh: bool = False,
    store: bool = False,
    runs: Path = ROOT,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> list[Entry]:
    """Measure the claims of the named systems (default: all) and judge each by its fixed threshold.

    ``kind`` is check, exact, empirical, cost, several of these separated by commas, or all; by default check and exact.
    ``known`` measures nothing and returns the latest results, by default of all kinds.
    """
    wanted, shown = _kinds(kind or ("all" if known else "check,exact")), progress or Progress()
    systems = names or tuple(catalogue.names())
    for name in systems:
        catalogue.about(name)  # reject a mistyped name before anything is trained
    _refuse_unknown_ids(only, systems)
    if store:
        refuse_uncommitted()
    plan = RunPlan(runs, jobs, fresh, store, runtime or Runtime())
    entries: list[Entry] = []
    for name in systems:
        asked = [c for c in catalogue.load(name).claims if (c.id in only if only else c.kind in wanted)]
        if not known and asked:
            measured = ledger.measure(name, asked, plan, shown, command)
            measured = ledger.with_traces(name, measured, jobs, shown) if store else measured
            shown.say(f"results: {ledger.store(measured, _place(name, runs, store))}")
        ids = {claim.id for claim in asked}
        entries += [entry for entry in ledger.latest(name, runs) if entry.claim.id in ids]
    return entries


def replay(
    *names: str,
    jobs: int = 0,
    store: bool = False,
    runs: Path = ROOT,
    progress: Progress | None = None,
    command: str = "",
) -> dict[str, tuple[Replay | None, list[Entry]]]:
    """Repeat the first training steps of every stored result and judge checks and exact claims again. Returns by system
    the replay (where traces differ) and the claims."""
    if store:
        refuse_uncommitted()
    plan, shown = RunPlan(runs, jobs), progress or Progress()
    systems = names or tuple(catalogue.names())
    return {name: ledger.replay(name, plan, _place(name, runs, store), shown, command) for name in systems}


def _place(name: str, runs: Path, store: bool) -> Path:
    return catalogue.folder(name) / "results" if store else runs / name


def _kinds(text: str) -> set[str]:
    kinds: set[str] = set(KINDS) if text == "all" else set(text.split(","))
    unknown = kinds - set(KINDS)
    if unknown:
        raise VergenceError(f"no kind of claim {min(unknown)!r}{did_you_mean(min(unknown), [*KINDS, 'all'])}")
    return kinds


def _refuse_unknown_ids(only: Sequence[str], names: Sequence[str]) -> None:
    ids = {claim.id for name in names for claim in catalogue.load(name).claims} if only else set()
    for id in only:
        if id not in ids:
            raise VergenceError(f"{' and '.join(names)} have no claim {id!r}{did_you_mean(id, ids)}")


# Benchmarks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BenchResult:
    """Ratios of time and memory, and the engine's overhead per training step."""

    contests: list[dict[str, Any]]
    steps: list[dict[str, Any]]


def bench(
    *names: str,
    rounds: int = 7,
    threads: int = 1,
    with_memory: bool = True,
    engine: bool = True,
    only: str = "",
    busy: bool = False,
    store: bool = False,
    progress: Progress | None = None,
    command: str = "",
) -> BenchResult:
    """Time each operator of the named systems (default: all) against its plain form and its peers, interleaved in one
    process. Results are ratios, not seconds."""
    if rounds < 2 or threads < 1:
        raise VergenceError("bench needs at least 2 rounds and 1 thread")
    for name in names:  # before anything is timed
        if catalogue.bench(name) is None and not has_bare_loop(catalogue.load(name)):
            raise VergenceError(f"{name} has no benchmark")
    if store:
        refuse_uncommitted()
    if not busy:
        refuse_if_busy(core_share(0.5))
    shown, contests, steps = progress or Progress(), list[dict[str, Any]](), list[dict[str, Any]]()
    for name in names or catalogue.names():
        raced = _contests(name, rounds, threads, with_memory, only, busy, shown)
        stepped = _steps(name, rounds, threads, busy, shown) if engine and not only else []
        if store and (raced or stepped):
            shown.say(f"stored: {results.store_bench(name, raced, stepped, command, threads)}")
        contests += raced
        steps += stepped
    return BenchResult(contests, steps)


def _contests(
    name: str, rounds: int, threads: int, with_memory: bool, only: str, busy: bool, progress: Progress
) -> list[dict[str, Any]]:
    module = catalogue.bench(name)
    listed = [c for c in (module.contests() if module else ()) if only == c.id or only in c.title]
    held = memories(name, listed) if with_memory else {}
    rows = []
    for contest in progress.track(listed, f"bench {name}"):
        for result in race(contest, rounds, threads):
            if not busy:
                refuse_if_busy(result.core)
            sizes = held.get(contest.id, {}).get(result.rival)
            shown = {"memory": {"ours": sizes.ours, "theirs": sizes.theirs, "ratio": sizes.ratio} if sizes else None}
            rows.append({"system": name, **to_json(result), **shown})
    return rows


def _steps(name: str, rounds: int, threads: int, busy: bool, progress: Progress) -> list[dict[str, Any]]:
    if not has_bare_loop(catalogue.load(name)):
        return []
    task = progress.start(f"bench {name}: the engine", None)
    step = overhead(name, rounds, threads=threads)
    progress.finish(task)
    if not busy:
        refuse_if_busy(step.core)
    return [to_json(step) | {"added": step.added, "allowed": step.allowed}]
