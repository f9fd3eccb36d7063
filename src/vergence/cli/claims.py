"""``vergence claims``: the ledger, measured or as it is known."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

import tyro

from vergence import catalogue
from vergence.cli.options import Output, read, without_place
from vergence.cli.show import claims_table, document, table
from vergence.contract.claims import KINDS
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import make_folder
from vergence.core.progress import show_progress
from vergence.runs.machine import Runtime
from vergence.runs.versions import refuse_uncommitted
from vergence.studies.ledger import Entry, known, measure, replay, store, with_traces
from vergence.studies.study import RunPlan

DESCRIPTION = """Measure claims and judge them by a rule fixed beforehand: several values hold if the 90 % interval of
their mean is beyond the threshold. Runs that claims need are trained once and kept; stop and call again to go on."""


@dataclass(frozen=True)
class ClaimsOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems; if none is given, all."""
    kind: str = "exact"
    """Which kinds to measure: exact, cost, empirical, several with commas, or `all`."""
    only: tuple[str, ...] = ()
    """Ids of claims to measure."""
    known: bool = False
    """Show what has been measured, and measure nothing."""
    jobs: int = 0
    """Runs to train at a time (0: one a core)."""
    fresh: bool = False
    """Train again what has been trained."""
    replay: bool = False
    """Train nothing: repeat the first steps behind every stored result, judge the exact claims again, and say which
    results still follow from the code."""
    background: bool = False
    """Go on in the background and write a log."""
    store: bool = False
    """Keep the results in the systems' own `results` folders (for those who publish them), not beside the runs."""
    output: Annotated[Output, tyro.conf.arg(name="")] = field(default_factory=Output)
    runtime: Annotated[Runtime, tyro.conf.arg(name="")] = field(default_factory=Runtime)


def claims(args: Sequence[str]) -> int:
    options = read(ClaimsOptions, args, "claims", DESCRIPTION)
    kinds = _kinds(options.kind)
    names = options.names or tuple(catalogue.names())
    for name in names:
        catalogue.about(name)  # a mistyped name is found before anything is trained
    if options.only:
        _check_ids(options.only, names)
    if options.store:
        refuse_uncommitted()
    if options.background:
        return _in_background(args, options.output)
    plan = RunPlan(options.output.runs, options.jobs, options.fresh, options.store, options.runtime)
    if options.replay:
        return _replay(names, options, plan, args)
    entries: list[Entry] = []
    with show_progress(options.output.quiet) as progress:
        for name in names:
            if not options.known:
                wanted = [c for c in catalogue.load(name).claims if _wanted(c.id, c.kind, options.only, kinds)]
                command = shlex.join(["vergence", "claims", *without_place(args)])
                found = measure(name, wanted, plan, progress, command)
                if found:
                    found = with_traces(name, found, options.jobs, progress) if options.store else found
                    progress.say(f"results: {store(found, _place(name, options))}")
            entries += known(name, options.output.runs)
    if options.output.json:
        document([entry.to_json() for entry in entries])
    else:
        claims_table(entries)
    return 0


def _place(name: str, options: ClaimsOptions) -> Path:
    return catalogue.folder(name) / "results" if options.store else options.output.runs / name


def _replay(names: Sequence[str], options: ClaimsOptions, plan: RunPlan, args: Sequence[str]) -> int:
    command = shlex.join(["vergence", "claims", *without_place(args)])
    traces: dict[str, dict[str, str]] = {}
    exact: list[Entry] = []
    with show_progress(options.output.quiet) as progress:
        for name in names:
            outcome, judged = replay(name, plan, _place(name, options), progress, command)
            traces[name] = outcome.differences if outcome else {}
            exact += judged
    failed = [entry for entry in exact if entry.judgement and entry.judgement.verdict != "holds"]
    if options.output.json:
        document({"traces": traces, "exact": [entry.to_json() for entry in exact]})
        return 0
    rows = [
        [name, str(len(found)), str(sum(not d for d in found.values())), _summary(name, exact)]
        for name, found in traces.items()
    ]
    table("", ["system", "traces", "the same", "exact claims that hold"], rows)
    differing = [[f"{name} {t}", d] for name, found in traces.items() for t, d in found.items() if d]
    if differing:
        table("Traces that differ: results behind them are stale", ["trace", "where"], differing)
    if failed:
        claims_table(failed)
    return 0


def _summary(name: str, exact: Sequence[Entry]) -> str:
    own = [e.judgement for e in exact if e.system == name and e.judgement]
    return f"{sum(j.verdict == 'holds' for j in own)} of {len(own)}"


def _kinds(text: str) -> set[str]:
    kinds: set[str] = set(KINDS) if text == "all" else set(text.split(","))
    unknown = kinds - set(KINDS)
    if unknown:
        raise VergenceError(f"no kind of claim {min(unknown)!r}{did_you_mean(min(unknown), [*KINDS, 'all'])}")
    return kinds


def _wanted(id: str, kind: str, only: Sequence[str], kinds: set[str]) -> bool:
    return id in only if only else kind in kinds


def _check_ids(only: Sequence[str], names: Sequence[str]) -> None:
    ids = {claim.id for name in names for claim in catalogue.load(name).claims}
    for id in only:
        if id not in ids:
            raise VergenceError(f"{' and '.join(names)} have no claim {id!r}{did_you_mean(id, ids)}")


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
        print(f"process {child.pid} measures and writes {log}; stop it with: kill {child.pid}")
    return 0
