"""``vergence weights``: list the starter weights of the systems, or train them again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from vergence import catalogue
from vergence.cli.options import Output, read
from vergence.cli.show import document, table
from vergence.contract.config import to_json
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.progress import show_progress
from vergence.runs.machine import Runtime

DESCRIPTION = """Small trained weights shipped with the systems, so that prediction works right away: how they were
trained, on which data, and their metrics. --train trains those of a system again."""


@dataclass(frozen=True)
class WeightsOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems; default: all."""
    train: bool = False
    """Train the starter weights of the named systems again and replace them."""
    only: str = ""
    """Only the starter weights with this name."""
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    runtime: Annotated[Runtime, tyro.conf.arg(name="")] = field(default_factory=Runtime)


def weights(args: Sequence[str]) -> int:
    options = read(WeightsOptions, args, "weights", DESCRIPTION)
    for name in options.names:
        catalogue.about(name)
    if options.train:
        if not options.names:
            raise VergenceError("name the systems whose starter weights are to be trained")
        for name in options.names:
            _train(name, options)
    rows = [row for name in options.names or catalogue.names() for row in _rows(name)]
    if options.output.json:
        document(rows)
        return 0
    if not rows:
        print("no starter weights here")
        return 0
    shown = [
        [row["system"], row["name"], row["about"]["note"], row["quality"], f"{row['bytes'] / 1e3:.0f} kB"]
        for row in rows
    ]
    table("", ["system", "weights", "what they do", "on test data", "size"], shown)
    return 0


def _train(name: str, options: WeightsOptions) -> None:
    from vergence.api import work
    from vergence.engine.starters import store

    starters = catalogue.settings(name).starters
    if not starters:
        raise VergenceError(f"{name} declares no starter weights")
    if options.only and options.only not in starters:
        raise VergenceError(f"{name} has no starter weights {options.only!r}{did_you_mean(options.only, starters)}")
    with show_progress(options.output.quiet) as progress:
        for key, starter in starters.items():
            if options.only in ("", key):
                run = work.train(
                    name,
                    preset=starter.preset,
                    variant=starter.variant,
                    seed=starter.seed,
                    runs=options.output.runs,
                    runtime=options.runtime,
                    progress=progress,
                )
                command = shlex.join(["vergence", "weights", name, "--train"])
                progress.say(f"starter weights: {store(name, key, starter, run, command)}")


def _rows(name: str) -> list[dict[str, Any]]:
    from vergence.engine.starters import read_about
    from vergence.engine.weights import identify

    metrics, rows = catalogue.settings(name).metrics, []
    for key, path in catalogue.starters(name).items():
        about = read_about(path)
        best = [(m, about.quality.get(m)) for m in metrics if about.quality.get(m) is not None][:2]
        quality = ", ".join(
            f"{metrics[m].label} {value:.{metrics[m].digits}f} {metrics[m].unit}".strip() for m, value in best
        )
        rows.append(
            {
                "system": name,
                "name": key,
                "variant": identify(path).variant,
                "quality": quality,
                "bytes": path.stat().st_size,
                "about": to_json(about),
                "path": str(path),
            }
        )
    return rows
