"""``vergence train``: train one variant, from scratch, from weights, or resumed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from vergence import catalogue
from vergence.cli.options import Output, joined, peek, read, take_name
from vergence.cli.show import document, metrics_table
from vergence.contract.config import to_json
from vergence.contract.training import one_length, phases_of
from vergence.core.errors import VergenceError
from vergence.core.progress import show_progress
from vergence.engine.distribute import launch, leads, under_torchrun
from vergence.runs.folder import ROOT, Run, runs, same_or_refuse
from vergence.runs.order import Order

DESCRIPTION = "Train one variant of a system; the run's folder holds everything needed to repeat it."


@dataclass(frozen=True)
class TrainOptions:
    """How to start."""

    preset: str = "tiny"
    """A named config: tiny trains in minutes, paper is as published."""
    variant: str = ""
    """The method or a baseline; default: the method."""
    init: str = ""
    """Weights to start from; layers that do not fit are initialised."""
    resume: str = ""
    """The folder of a run to resume, or `last` for the newest unfinished one."""
    from_run: str = ""
    """The folder of a run to repeat from the start."""
    report: bool = True
    """Draw pictures and write report.html at the end."""


def train(args: Sequence[str]) -> int:
    old = _old_run(args)
    default, rest = _starting_point(args, old)
    default = replace(default, config=one_length(default.config, _lengths(default.config, rest)))
    kind = joined(
        ("options", TrainOptions(default.preset, default.variant, default.init)),
        ("output", Output()),
        ("runtime", default.runtime),
        ("config", default.config),
    )
    parsed: Any = read(kind, rest, f"train {default.system}", DESCRIPTION)
    options, output = parsed.options, parsed.output
    order = replace(default, config=parsed.config, runtime=parsed.runtime, init=options.init)
    system = catalogue.load(order.system)
    if options.resume:
        assert old is not None
        same_or_refuse(old, order)
    elif not system.trains:
        raise system.not_offered("training")
    if order.runtime.devices * order.runtime.nodes > 1 and not under_torchrun():
        return launch(args, order.runtime, output.quiet)
    return _carry_out(order, old if options.resume else None, output, options.report, ["vergence", "train", *args])


def _lengths(config: Any, args: Sequence[str]) -> dict[str, str]:
    """The lengths of phases that the arguments give, by dotted name; what is no number is left to the parser."""
    names = [f"{phase}.{field}" for phase in phases_of(config) for field in ("epochs", "steps")]
    given = {name: peek(args, f"--{name}") or "" for name in names}
    return {name: value for name, value in given.items() if value.isdecimal()}


def _starting_point(args: Sequence[str], old: Run | None) -> tuple[Order, list[str]]:
    """The defaults of the flags: a named preset and variant, or the order of an old run."""
    if old is None:
        name, rest = take_name(args, "train")
        settings = catalogue.settings(name)
        preset = peek(rest, "--preset") or "tiny"
        variant = peek(rest, "--variant") or settings.default_variant(preset)
        return Order(name, preset, variant, settings.configure(preset, variant)), rest
    order = old.order
    for flag in ("--preset", "--variant"):
        if peek(args, flag):
            raise VergenceError(f"{flag} does not go with an old run: {old.folder} has its own")
    if args and not args[0].startswith("-") and args[0] != order.system:
        raise VergenceError(f"{old.folder} is a run of {order.system!r}, not of {args[0]!r}")
    return order, [a for n, a in enumerate(args) if n or a.startswith("-")]


def _old_run(args: Sequence[str]) -> Run | None:
    resume, from_run, root = peek(args, "--resume"), peek(args, "--from-run"), Path(peek(args, "--runs") or ROOT)
    if resume and from_run:
        raise VergenceError("--resume continues a run and --from-run repeats one: give only one of them")
    if resume == "last":
        name, _ = take_name(args, "train")
        unfinished = next((run for run in runs(name, root) if not (run.folder / "result.json").exists()), None)
        if unfinished is None:
            raise VergenceError(f"no unfinished run of {name} in {root / name}")
        return unfinished
    folder = resume or from_run
    return Run.open(Path(folder)) if folder else None


def _carry_out(order: Order, old: Run | None, output: Output, report: bool, command: Sequence[str]) -> int:
    from vergence.engine.devices import joined
    from vergence.engine.execute import execute

    system = catalogue.load(order.system)
    with show_progress(output.quiet or not leads()) as progress, joined(order.runtime) as fabric:
        created = Run.create(order, output.runs, command) if old is None and leads() else old
        run = cast(Run, fabric.broadcast(created))
        try:
            metrics = execute(run, progress, order.runtime, fabric)
        except VergenceError:
            if old is None and leads() and not (run.folder / "checkpoints").exists():
                shutil.rmtree(run.folder, ignore_errors=True)  # it has no checkpoint to resume from
            raise
        if report and leads():
            from vergence.report.build import report_run

            report_run(run, progress)
    if not leads():
        return 0
    if output.json:
        document({"run": str(run.folder), "metrics": metrics, "order": to_json(order)})
        return 0
    label = system.variants[order.variant].label if order.variant in system.variants else order.variant
    metrics_table(f"{order.system} {order.preset}, {run.measured_on}", system.metrics, {label: metrics})
    print(f"run: {run.folder}" + (f"\nreport: {run.folder / 'report.html'}" if report else ""))
    return 0
