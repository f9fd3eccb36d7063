"""``vergence bench``: cost of the systems and the engine, relative to the plain form and to peers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from vergence.cli.options import read
from vergence.cli.show import document, table
from vergence.core.progress import show_progress

DESCRIPTION = """Time each operator against its plain form and its peers, interleaved in one process: results are
ratios, not seconds. Memory is the peak of one call, measured in a separate process. A training step of the engine is
compared with a bare PyTorch loop: it may add 3 % or 0.3 ms, whichever is more."""


@dataclass(frozen=True)
class BenchOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems; default: all."""
    rounds: int = 7
    """Number of timing rounds; long contests have fewer, but at least 3."""
    threads: int = 1
    """CPU threads."""
    memory: bool = True
    """Measure peak memory too."""
    engine: bool = True
    """Measure the engine's overhead per training step, for systems with a single optimiser."""
    only: str = ""
    """Only the contest with this id, or those whose title contains this text."""
    busy: bool = False
    """Measure even if other processes are using this machine."""
    store: bool = False
    """Store the results in the systems' own `results` folders (for maintainers)."""
    json: bool = False
    """One JSON document on standard output."""
    quiet: bool = False
    """No progress."""


def bench(args: Sequence[str]) -> int:
    options = read(BenchOptions, args, "bench", DESCRIPTION)
    from vergence.api import work

    with show_progress(options.quiet) as progress:
        result = work.bench(
            *options.names,
            rounds=options.rounds,
            threads=options.threads,
            with_memory=options.memory,
            engine=options.engine,
            only=options.only,
            busy=options.busy,
            store=options.store,
            progress=progress,
            command=shlex.join(["vergence", "bench", *args]),
        )
    if options.json:
        document({"contests": result.contests, "steps": result.steps})
    else:
        _show(result.contests, result.steps)
    return 0


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
        table("Speed-up and memory ratio", columns, rows)
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
