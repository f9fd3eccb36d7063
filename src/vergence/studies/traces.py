"""Recorded traces of stored results, and their replay: whether the current code still gives these results.

``results/traces.json`` holds the traces of every variant behind a stored empirical result, at its first seed, with the
environment they were recorded in; and where each trace differed in the last replay.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from vergence.contract.claims import Needs
from vergence.contract.config import digest, from_json, to_json
from vergence.core.errors import VergenceError
from vergence.core.files import lock, make_folder, write_json
from vergence.core.progress import Progress
from vergence.engine.trace import Trace, record
from vergence.reading.tables import read_json
from vergence.runs.machine import Runtime
from vergence.runs.versions import Environment, environment, fingerprint, shared_fingerprint
from vergence.studies.study import order_for

FILE = "traces.json"
RUNTIME = Runtime(device="cpu", threads=1)
"""Every trace is computed with these settings."""


@dataclass(frozen=True)
class Recording:
    """Traces recorded together, by name."""

    environment: Environment
    needs: dict[str, Needs]
    traces: dict[str, Trace]


@dataclass(frozen=True)
class Replay:
    """The outcome of the latest replay: where each trace differed; empty where it did not."""

    environment: Environment
    differences: dict[str, str]


@dataclass(frozen=True)
class TraceFile:
    """The contents of ``traces.json``: the traces of one system and the outcome of their last replay."""

    recordings: tuple[Recording, ...] = ()
    replay: Replay | None = None

    @property
    def needs(self) -> dict[str, Needs]:
        return {name: need for r in self.recordings for name, need in r.needs.items()}

    def find(self, name: str) -> tuple[Trace, Environment] | None:
        """A trace and the environment it was recorded in."""
        return next(((r.traces[name], r.environment) for r in self.recordings if name in r.traces), None)

    def without(self, names: Iterable[str]) -> tuple[Recording, ...]:
        """The recordings without the named traces."""
        gone = set(names)
        kept = [
            replace(
                r,
                needs={n: need for n, need in r.needs.items() if n not in gone},
                traces={n: trace for n, trace in r.traces.items() if n not in gone},
            )
            for r in self.recordings
        ]
        return tuple(r for r in kept if r.traces)


def name_of(need: Needs) -> str:
    """A trace's name: ``tiny/snl/s0``."""
    changed = f"+{digest(need.changes)}" if need.changes else ""
    return f"{need.preset}/{need.variant}{changed}/s{need.seed}"


def first_seeds(needs: Iterable[Needs]) -> list[Needs]:
    """For each variant, the need with the lowest seed."""
    lowest: dict[tuple[Any, ...], Needs] = {}
    for need in needs:
        place = (need.preset, need.variant, need.changes)
        if place not in lowest or need.seed < lowest[place].seed:
            lowest[place] = need
    return list(lowest.values())


def read(folder: Path) -> TraceFile:
    """The trace file of a folder; empty if there is none."""
    path = folder / FILE
    if not path.exists():
        return TraceFile()
    stat = path.stat()
    return _parsed(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _parsed(path: Path, modified: int, size: int) -> TraceFile:
    """A trace file as it was at a time: every claim of a system asks for the same one."""
    return from_json(TraceFile, read_json(path), str(path))


def make(system: str, needs: Sequence[Needs], jobs: int, progress: Progress) -> dict[str, Trace]:
    """Compute traces in ``jobs`` processes of one thread each; returns them by name."""
    jobs = min(jobs or os.cpu_count() or 1, len(needs))
    if jobs <= 1:
        return {name_of(n): _trace(system, n) for n in progress.track(needs, f"{system} traces")}
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            traces = pool.map(partial(_trace, system), needs)
            names = [name_of(need) for need in needs]
            return dict(zip(progress.track(names, f"{system} traces"), traces, strict=True))
    finally:
        os.environ.pop("OMP_NUM_THREADS") if before is None else os.environ.update(OMP_NUM_THREADS=before)


def _trace(system: str, need: Needs) -> Trace:
    return record(order_for(system, need, RUNTIME))


def keep(system: str, folder: Path, needs: Sequence[Needs], jobs: int, progress: Progress) -> dict[str, str]:
    """Record the traces of these needs in a folder; returns their digests by name."""
    traces = make(system, needs, jobs, progress)
    recording = Recording(_now(system), {name_of(n): n for n in needs}, traces)
    with _held(folder):
        trace_file = read(folder)
        _write(folder, replace(trace_file, recordings=(*trace_file.without(traces), recording)))
    return {name: trace.digest for name, trace in traces.items()}


def replay(system: str, source: Path, target: Path, jobs: int, progress: Progress) -> Replay:
    """Recompute the traces stored in a folder, compare, and write the outcome into ``target``."""
    trace_file = read(source)
    if not trace_file.recordings:
        raise VergenceError(f"{source} holds no traces of {system}: they are recorded when results are stored")
    now, differences = _now(system), {}
    for name, trace in make(system, list(trace_file.needs.values()), jobs, progress).items():
        old = trace_file.find(name)
        assert old is not None
        differences[name] = old[0].difference(trace, _alike(old[1], now))
    outcome = Replay(now, differences)
    with _held(target):
        _write(target, replace(read(target), replay=outcome))
    return outcome


Age = Literal["current", "unchecked", "stale"]


def age(system: str, made: Environment, digests: Mapping[str, str], folders: Sequence[Path]) -> tuple[Age, str]:
    """Whether a result is current, and why: its code has not changed, or its traces were reproduced.

    Traces are read from the first folder, replays from all of them. A result without traces (an exact claim, a cost)
    is unchecked until it is measured again.
    """
    now = (fingerprint(system), shared_fingerprint(system))
    if (made.code, made.shared) == now:
        return "current", ""
    trace_files = [read(folder) for folder in folders]
    for name, seal in digests.items():
        recorded = trace_files[0].find(name)
        if recorded is not None and recorded[0].digest != seal:
            return "stale", f"{name} was recorded again since, with other values"
    replays = [file.replay for file in trace_files if file.replay is not None]
    latest = next((r for r in replays if (r.environment.code, r.environment.shared) == now), None)
    if not digests or latest is None or not digests.keys() <= latest.differences.keys():
        return "unchecked", ""
    differs = next((f"{name}, {latest.differences[name]}" for name in digests if latest.differences[name]), "")
    if differs:
        return "stale", differs
    return "current", f"replayed {latest.environment.date[:10]}" + (
        f" at {latest.environment.commit}" if latest.environment.commit else ""
    )


def _alike(a: Environment, b: Environment) -> bool:
    """Whether two environments compute bit-identical results."""
    return (a.machine, a.python, a.packages) == (b.machine, b.python, b.packages)


def _now(system: str) -> Environment:
    return replace(Environment.read(environment(system), "the environment"), threads=1)


def _held(folder: Path) -> Any:
    make_folder(folder)
    return lock(folder / ".lock", f"{folder / FILE} is being written by another process; waiting", lambda text: None)


def _write(folder: Path, trace_file: TraceFile) -> None:
    write_json(folder / FILE, to_json(trace_file))
