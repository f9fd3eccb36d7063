"""``vergence bench``: what the systems and the engine cost, against the plain form and against peers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from vergence import catalogue
from vergence.cli.options import read
from vergence.cli.show import document, table
from vergence.contract.config import to_json
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress, show_progress
from vergence.studies.results import store_bench

DESCRIPTION = """Time each operator against its plain form and its peers, interleaved in one process: ratios, not
seconds. Memory is the most that one call holds, measured in a process of its own. A step of the engine is held against
a step of a bare PyTorch loop: it may add 3 % or 0.3 ms, whichever is more."""


@dataclass(frozen=True)
class BenchOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems; if none is given, all."""
    rounds: int = 7
    """How often each contestant is timed."""
    threads: int = 1
    """CPU threads."""
    memory: bool = True
    """Measure memory too."""
    engine: bool = True
    """Measure what the engine adds to a training step, for systems that one optimiser trains."""
    only: str = ""
    """Only the contest with this id, or those whose title holds this text."""
    busy: bool = False
    """Compare even if others compute on this machine."""
    store: bool = False
    """Keep the results in the systems' own `results` folders (for those who publish them)."""
    json: bool = False
    """One JSON document on standard output."""
    quiet: bool = False
    """No progress."""


def bench(args: Sequence[str]) -> int:
    options = read(BenchOptions, args, "bench", DESCRIPTION)
    if options.rounds < 2 or options.threads < 1:
        raise VergenceError("bench needs at least 2 rounds and 1 thread")
    from vergence.engine.bench import core_share, refuse_if_busy
    from vergence.engine.overhead import has_bare_loop

    for name in options.names:  # before anything is timed
        if catalogue.bench(name) is None and not has_bare_loop(catalogue.load(name)):
            raise VergenceError(f"{name} has no bench: there is nothing to time")

    if not options.busy:
        refuse_if_busy(core_share(0.5))
    contests: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    with show_progress(options.quiet) as progress:
        for name in options.names or catalogue.names():
            found, stepped = _contests(name, options, progress), _steps(name, options, progress)
            if options.store and (found or stepped):
                command = shlex.join(["vergence", "bench", *args])
                progress.say(f"stored: {store_bench(name, found, stepped, command, options.threads)}")
            contests += found
            steps += stepped
    if options.json:
        document({"contests": contests, "steps": steps})
    else:
        _show(contests, steps)
    return 0


def _contests(name: str, options: BenchOptions, progress: Progress) -> list[dict[str, Any]]:
    from vergence.engine.bench import memory, race, refuse_if_busy

    module = catalogue.bench(name)
    found = [c for c in module.contests() if options.only in (c.id, "") or options.only in c.title] if module else []
    results = []
    for contest in progress.track(found, f"bench {name}"):
        timed = race(contest, options.rounds, options.threads)
        held = memory(name, contest) if options.memory else {}
        for result in timed:
            if not options.busy:
                refuse_if_busy(result.core)
            sizes = held.get(result.rival)
            shown = {"memory": {"ours": sizes.ours, "theirs": sizes.theirs, "ratio": sizes.ratio} if sizes else None}
            results.append({"system": name, **to_json(result), **shown})
    return results


def _steps(name: str, options: BenchOptions, progress: Progress) -> list[dict[str, Any]]:
    from vergence.engine.bench import refuse_if_busy
    from vergence.engine.overhead import has_bare_loop, overhead

    if not options.engine or options.only or not has_bare_loop(catalogue.load(name)):
        return []
    task = progress.start(f"bench {name}: the engine", None)
    found = overhead(name, options.rounds, threads=options.threads)
    progress.finish(task)
    if not options.busy:
        refuse_if_busy(found.core)
    return [to_json(found) | {"added": found.added, "allowed": found.allowed}]


def _show(contests: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]]) -> None:
    if contests:
        rows = [
            [
                f"{r['system']} {r['contest']}",
                r["rival"],
                f"{r['ratio']:.2f}x [{r['low']:.2f}, {r['high']:.2f}]",
                f"{_ms(r['ours'])} / {_ms(r['theirs'])}",
                f"{r['memory']['ratio']:.1f}x" if r["memory"] else "–",
                f"{_mib(r['memory']['ours'])} / {_mib(r['memory']['theirs'])}" if r["memory"] else "–",
            ]
            for r in contests
        ]
        columns = ["what", "against", "faster [quartiles]", "time, ours / theirs", "smaller", "memory, ours / theirs"]
        table("How many times as fast, and as small", columns, rows)
    if steps:
        rows = [
            [r["system"], _ms(r["bare"]), _ms(r["engine"]), _ms(r["added"]), _ms(r["allowed"]), _verdict(r)]
            for r in steps
        ]
        table("A training step", ["what", "bare loop", "engine", "added", "allowed", ""], rows)


def _verdict(step: dict[str, Any]) -> str:
    return "within" if step["added"] <= step["allowed"] else "too much"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _mib(size: int) -> str:
    return f"{size / 2**20:.3g} MiB"
