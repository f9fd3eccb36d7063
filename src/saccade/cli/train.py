"""``saccade train``: one variant, from the start, from weights, or from where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade import catalogue
from saccade.cli.options import Output, joined, peek, read, take_name
from saccade.cli.show import document, metrics_table
from saccade.config import to_json
from saccade.errors import SaccadeError
from saccade.progress import show_progress
from saccade.run import ROOT, Order, Run, Runtime, runs, same_or_refuse
from saccade.system import System

DESCRIPTION = "Train one variant of a system; the run's folder holds everything needed to repeat it."


@dataclass(frozen=True)
class TrainOptions:
    """What to start from."""

    preset: str = "tiny"
    """A named config: tiny runs here in minutes, paper is as published."""
    variant: str = ""
    """The method or a baseline; if none is given, the method."""
    init: str = ""
    """Weights to start from; what does not fit is new."""
    resume: str = ""
    """The folder of a run to go on with, or `last` for the newest unfinished one."""
    from_run: str = ""
    """The folder of a run to repeat from the start."""
    report: bool = True
    """Draw pictures and write report.html at the end."""


def train(args: Sequence[str]) -> int:
    resume, from_run, root = peek(args, "--resume"), peek(args, "--from-run"), Path(peek(args, "--runs") or ROOT)
    if resume and from_run:
        raise SaccadeError("--resume goes on with a run and --from-run repeats one: give one of them")
    old = _old_run(args, resume, from_run, root)
    if old is None:
        name, rest = take_name(args, "train")
        system = catalogue.load(name)
        preset = peek(rest, "--preset") or "tiny"
        variant = peek(rest, "--variant") or default_variant(system, preset)
        default = Order(name, preset, variant, system.configure(preset, variant))
    else:
        default = old.order
        rest = list(args[1:]) if args and args[0] == default.system else list(args)
    kind = joined(("options", TrainOptions), ("output", Output), ("runtime", Runtime), ("config", default.config))
    start: Any = kind(
        TrainOptions(default.preset, default.variant, default.init), Output(), default.runtime, default.config
    )
    given: Any = read(kind, rest, f"train {default.system}", DESCRIPTION, start)
    options, output = given.options, given.output
    order = Order(default.system, default.preset, default.variant, given.config, given.runtime, options.init)
    if not catalogue.load(order.system).trains:
        raise catalogue.load(order.system).not_offered("training")
    if resume and old is not None:
        same_or_refuse(old, order)
        run = old
    else:
        run = Run.create(order, output.runs)
    return _carry_out(run, output, options.report)


def default_variant(system: System[Any, Any], preset: str) -> str:
    """The variant that the preset is, as it stands."""
    plain = system.configure(preset)
    return next((v for v in system.variants if system.configure(preset, v) == plain), next(iter(system.variants)))


def _old_run(args: Sequence[str], resume: str | None, from_run: str | None, root: Path) -> Run | None:
    if resume == "last":
        name, _ = take_name(args, "train")
        unfinished = (run for run in runs(name, root) if run.result is None)
        found = next(unfinished, None)
        if found is None:
            raise SaccadeError(f"no unfinished run of {name} in {root / name}")
        return found
    folder = resume or from_run
    return Run.open(Path(folder)) if folder else None


def _carry_out(run: Run, output: Output, report: bool) -> int:
    from saccade.engine.execute import execute

    order = run.order
    system = catalogue.load(order.system)
    with show_progress(output.quiet) as progress:
        metrics = execute(run, progress)
        if report:
            from saccade.report.build import report_run

            report_run(run, progress)
    if output.json:
        document({"run": str(run.folder), "metrics": metrics, "order": to_json(order)})
        return 0
    label = system.variants[order.variant].label if order.variant in system.variants else order.variant
    metrics_table(f"{order.system} {order.preset}, test data", system.metrics, {label: metrics})
    print(f"run: {run.folder}" + (f"\nreport: {run.folder / 'report.html'}" if report else ""))
    return 0
