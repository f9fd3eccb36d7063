"""``vergence run``: a paper as a command."""

from __future__ import annotations

import shlex
import statistics
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from vergence import catalogue
from vergence.cli.options import Output, read, take_name, without_place
from vergence.cli.show import claims_table, document, metrics_table
from vergence.core.progress import show_progress
from vergence.runs.machine import Runtime

if TYPE_CHECKING:
    from vergence.api.work import PaperRun

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
    from vergence.api import work

    with show_progress(options.output.quiet) as progress:
        done = work.run(
            name,
            preset=options.preset,
            variants=options.variants,
            every=options.all,
            seeds=options.seeds,
            claimed=options.claimed,
            data=options.data,
            jobs=options.jobs,
            fresh=options.fresh,
            store=options.store,
            picture=options.picture,
            runs=options.output.runs,
            runtime=options.runtime,
            progress=progress,
            command=shlex.join(["vergence", "run", *without_place(args)]),
        )
    _print(done, options)
    if options.open:
        webbrowser.open(done.report.resolve().as_uri())
    return 0


def _print(done: PaperRun, options: RunOptions) -> None:
    settings = catalogue.settings(done.system)
    rows = {
        variant: {m: statistics.fmean(values) for m, values in row.items() if m in settings.metrics}
        for variant, row in done.metrics.items()
    }
    if options.output.json:
        document(
            {
                "system": done.system,
                "preset": done.preset,
                "metrics": rows,
                "runs": {variant: [str(run.folder) for run in runs] for variant, runs in done.runs.items()},
                "claims": [entry.to_json() for entry in done.claims],
                "report": str(done.report),
            }
        )
        return
    labelled = {settings.label(variant): row for variant, row in rows.items()}
    counts = sorted({len(runs) for runs in done.runs.values()})
    several = f"mean of {counts[-1]} seeds" if len(counts) == 1 else f"means of {counts[0]} to {counts[-1]} seeds"
    seeds = several if counts[-1] > 1 else "one seed"
    metrics_table(f"{done.system} {done.preset}, test data, {seeds}", settings.metrics, labelled)
    if done.claims:
        claims_table(done.claims)
    print(f"report: {done.report}")
