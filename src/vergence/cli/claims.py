"""``vergence claims``: measure claims, or show their latest results."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import tyro

from vergence import catalogue
from vergence.cli.options import Output, read, without_place
from vergence.cli.show import claims_table, document, table
from vergence.contract.claims import UNTRAINED
from vergence.core.errors import VergenceError
from vergence.core.files import make_folder
from vergence.core.progress import show_progress
from vergence.runs.machine import Runtime
from vergence.studies.ledger import Entry

DESCRIPTION = """Measure claims and judge them by fixed thresholds: several values hold if the 90 % interval of
their mean is beyond the threshold. Runs that claims need are trained once and kept; after an interruption, the same
command continues."""


@dataclass(frozen=True)
class ClaimsOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems; default: all."""
    kind: str = ""
    """Which kinds: check (of the implementation), exact, empirical, cost (of the paper), several of these separated by
    commas, or `all`; default: checks and exact ones are measured, and `--known` shows all."""
    only: tuple[str, ...] = ()
    """Ids of claims to measure."""
    known: bool = False
    """Show the latest results without measuring anything."""
    jobs: int = 0
    """Runs to train at a time (0: one per core)."""
    fresh: bool = False
    """Train again instead of reusing finished runs."""
    replay: bool = False
    """Without full training, repeat the first steps of every stored result, judge checks and exact claims again, and
    report which results the current code still reproduces."""
    background: bool = False
    """Run in the background and write a log."""
    store: bool = False
    """Store the results in the systems' own `results` folders (for maintainers) instead of beside the runs."""
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    runtime: Annotated[Runtime, tyro.conf.arg(name="")] = field(default_factory=Runtime)


def claims(args: Sequence[str]) -> int:
    options = read(ClaimsOptions, args, "claims", DESCRIPTION)
    for name in options.names:
        catalogue.about(name)  # reject a mistyped name before anything is measured
    if options.background:
        return _in_background(args, options.output)
    from vergence.api import work

    command = shlex.join(["vergence", "claims", *without_place(args)])
    shared: dict[str, Any] = {
        "jobs": options.jobs,
        "store": options.store,
        "runs": options.output.runs,
        "command": command,
    }
    with show_progress(options.output.quiet) as progress:
        if options.replay:
            return _print_replay(work.replay(*options.names, progress=progress, **shared), options.output.json)
        entries = work.claims(
            *options.names,
            kind=options.kind,
            only=options.only,
            known=options.known,
            fresh=options.fresh,
            runtime=options.runtime,
            progress=progress,
            **shared,
        )
    if options.output.json:
        document([entry.to_json() for entry in entries])
    else:
        claims_table(entries)
    return 0


def _print_replay(outcomes: Mapping[str, tuple[Any, list[Entry]]], json: bool) -> int:
    traces = {name: replay.differences if replay else {} for name, (replay, _) in outcomes.items()}
    judged = {name: entries for name, (_, entries) in outcomes.items()}
    if json:
        document({"traces": traces, "claims": [entry.to_json() for entries in judged.values() for entry in entries]})
        return 0
    rows = [
        [name, str(len(differences)), str(sum(not d for d in differences.values())), *_held(judged[name])]
        for name, differences in traces.items()
    ]
    table("", ["system", "traces", "the same", "checks that hold", "exact claims that hold"], rows)
    differing = [[f"{name} {t}", d] for name, differences in traces.items() for t, d in differences.items() if d]
    if differing:
        table("Traces that differ: results behind them are stale", ["trace", "where"], differing)
    failed = [e for entries in judged.values() for e in entries if e.judgement and e.judgement.verdict != "holds"]
    if failed:
        claims_table(failed)
    return 0


def _held(entries: Sequence[Entry]) -> list[str]:
    """Counts of checks and of exact claims that hold."""
    by_kind = [[e.judgement for e in entries if e.judgement and e.claim.kind == kind] for kind in UNTRAINED]
    return [f"{sum(j.verdict == 'holds' for j in judged)} of {len(judged)}" for judged in by_kind]


def _in_background(args: Sequence[str], output: Output) -> int:
    make_folder(output.runs)
    log = output.runs / f"claims-{datetime.now():%Y%m%d-%H%M%S}.log"
    rest = [a for a in args if a != "--background"]
    try:
        with log.open("wb") as file:
            child = subprocess.Popen(
                [sys.executable, "-m", "vergence", "claims", *rest],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
    except OSError as error:
        raise VergenceError(f"cannot write {log}: {error.strerror}") from error
    if output.json:
        document({"process": child.pid, "log": str(log)})
    else:
        print(f"process {child.pid} is measuring and writes to {log}; stop it with: kill {child.pid}")
    return 0
