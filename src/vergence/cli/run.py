"""``vergence run``: a paper as a command."""

from __future__ import annotations

import shlex
import statistics
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vergence import catalogue
from vergence.cli.options import Output, read, take_name, without_place
from vergence.cli.show import claims_table, document, metrics_table
from vergence.contract.claims import Needs
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.progress import Progress, show_progress
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.versions import refuse_uncommitted
from vergence.studies.ledger import Entry, known, measure, store
from vergence.studies.study import RunPlan, obtain, order_for

if TYPE_CHECKING:
    from vergence.studies.subject import Subject

DESCRIPTION = """Train the headline variants on embedded data (or take the runs there are), print the paper's table as
measured here, check the claims, and write one HTML report with pictures."""


@dataclass(frozen=True)
class RunOptions:
    preset: str = "tiny"
    """A named config."""
    variants: tuple[str, ...] = ()
    """Which variants; if none is given, the headline ones."""
    all: bool = False
    """Every variant, ablations too."""
    seeds: int = 1
    """How many seeds of each, from 0."""
    claimed: bool = False
    """And of each variant all the seeds that claims name."""
    data: str = ""
    """Other data than the preset's: LAYOUT:PATH."""
    jobs: int = 0
    """Runs to train at a time (0: one a core)."""
    fresh: bool = False
    """Train again what has been trained."""
    open: bool = False
    """Open the report in a browser."""
    store: bool = False
    """Keep the table, its costs and a picture in the system's own `results` folder (for those who publish them)."""
    picture: str = ""
    """Which of the report's pictures `--store` keeps, by its file name; if none is given, the first."""
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    runtime: Annotated[Runtime, tyro.conf.arg(name="")] = field(default_factory=Runtime)


def run(args: Sequence[str]) -> int:
    name, rest = take_name(args, "run")
    options = read(RunOptions, rest, f"run {name}", DESCRIPTION)
    from vergence.report.build import report_run
    from vergence.studies.subject import Subject

    system = catalogue.load(name)
    variants = _variants(system, options)
    if options.seeds < 1:
        raise VergenceError(f"at least one seed is needed, got {options.seeds}")
    changes = _other_data(system, options)
    needs = [Needs(v, seed, options.preset, changes) for v in variants for seed in _seeds(system, options, v)]
    orders = [order_for(name, need, options.runtime) for need in needs]
    command = shlex.join(["vergence", "run", *without_place(args)])
    if options.store:
        refuse_uncommitted()
    plan = RunPlan(options.output.runs, options.jobs, options.fresh, options.store, options.runtime)
    with show_progress(options.output.quiet) as progress:
        found = obtain(orders, plan, progress)
        by_variant: dict[str, list[Run]] = {}
        for need, done in zip(needs, found, strict=True):
            by_variant.setdefault(need.variant, []).append(done)
        for done in found:
            if not (done.folder / "report.html").exists():
                report_run(done, progress)
        entries = _judge(name, system, plan, progress, command, set(needs))
        subject = Subject(system, options.preset, by_variant, entries, [command])
        report = _report(subject, options, progress)
        if options.store:
            from vergence.studies.results import store_run

            for path in store_run(subject, command, progress, options.picture):
                progress.say(f"stored: {path}")
    _tell(system, options, by_variant, entries, report)
    if options.open:
        webbrowser.open(report.resolve().as_uri())
    return 0


def _other_data(system: AnySystem, options: RunOptions) -> tuple[tuple[str, Any], ...]:
    if not options.data:
        return ()
    data = getattr(system.configure(options.preset), "data", None)
    return (("data" if isinstance(data, str) else "data.source", options.data),)


def _variants(system: AnySystem, options: RunOptions) -> list[str]:
    for variant in options.variants:
        if variant not in system.variants:
            raise VergenceError(
                f"{system.about.name} has no variant {variant!r}{did_you_mean(variant, system.variants)}"
            )
    if options.variants:
        return list(dict.fromkeys(options.variants))
    return [name for name, variant in system.variants.items() if variant.headline or options.all]


def _seeds(system: AnySystem, options: RunOptions, variant: str) -> list[int]:
    named = [need for claim in system.claims for need in claim.needs] if options.claimed else []
    own = {need.seed for need in named if (need.variant, need.preset, need.changes) == (variant, options.preset, ())}
    return sorted(own | set(range(options.seeds)))


def _judge(
    name: str, system: AnySystem, plan: RunPlan, progress: Progress, command: str, there: set[Needs]
) -> list[Entry]:
    """Exact claims now, and empirical ones whose runs are all here; the others as they are known."""
    ready = [c for c in system.claims if c.kind == "exact" or (c.needs and there.issuperset(c.needs))]
    if ready:
        store(measure(name, ready, plan, progress, command), plan.root / name)
    return known(name, plan.root)


def _report(subject: Subject, options: RunOptions, progress: Progress) -> Path:
    from vergence.report.build import write_report

    name = subject.system.about.name
    folder = options.output.runs / name / "reports" / f"{datetime.now():%Y%m%d-%H%M%S}-{options.preset}"
    return write_report(subject, folder, progress)


def _tell(
    system: AnySystem, options: RunOptions, runs: dict[str, list[Run]], entries: list[Entry], report: Path
) -> None:
    rows: dict[str, dict[str, float]] = {}
    for variant, done in runs.items():
        results = [run.metrics_found for run in done]
        rows[variant] = {
            m: statistics.fmean(r[m] for r in results) for m in system.metrics if all(m in r for r in results)
        }
    if options.output.json:
        document(
            {
                "system": system.about.name,
                "preset": options.preset,
                "metrics": rows,
                "runs": {variant: [str(run.folder) for run in done] for variant, done in runs.items()},
                "claims": [entry.to_json() for entry in entries],
                "report": str(report),
            }
        )
        return
    labelled = {system.variants[variant].label: row for variant, row in rows.items()}
    counts = sorted({len(done) for done in runs.values()})
    several = f"mean of {counts[-1]} seeds" if len(counts) == 1 else f"means of {counts[0]} to {counts[-1]} seeds"
    seeds = several if counts[-1] > 1 else "one seed"
    metrics_table(f"{system.about.name} {options.preset}, test data, {seeds}", system.metrics, labelled)
    if entries:
        claims_table(entries)
    print(f"report: {report}")
