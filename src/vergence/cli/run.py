"""``vergence run``: reproduce a paper's comparison."""

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

DESCRIPTION = """Train the headline variants on embedded data (or reuse finished runs), print the paper's table as
measured here, check the claims, and write one HTML report with pictures."""


@dataclass(frozen=True)
class RunOptions:
    preset: str = "tiny"
    """A named config."""
    variants: tuple[str, ...] = ()
    """Variants to train; default: the headline variants."""
    all: bool = False
    """All variants, including ablations."""
    seeds: int = 1
    """Number of seeds per variant, from 0."""
    claimed: bool = False
    """Also train all seeds that claims need."""
    data: str = ""
    """LAYOUT:PATH of other data than the preset's."""
    jobs: int = 0
    """Runs to train at a time (0: one per core)."""
    fresh: bool = False
    """Train again instead of reusing finished runs."""
    open: bool = False
    """Open the report in a browser."""
    store: bool = False
    """Store the table, its costs and a picture in the system's own `results` folder (for maintainers)."""
    picture: str = ""
    """File name of the report's picture that `--store` keeps; default: the first, or the title picture drawn before."""
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
    first = next(iter(done.runs.values()))[0]
    counts = sorted({len(runs) for runs in done.runs.values()})
    several = f"mean of {counts[-1]} seeds" if len(counts) == 1 else f"means of {counts[0]} to {counts[-1]} seeds"
    seeds = several if counts[-1] > 1 else "one seed"
    metrics_table(f"{done.system} {done.preset}, {first.measured_on}, {seeds}", settings.metrics, labelled)
    if done.claims:
        claims_table(done.claims)
    print(f"report: {done.report}")
