"""``saccade bench``: what the systems cost, against the plain form and against peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from saccade import catalogue
from saccade.cli.options import read
from saccade.cli.show import document, table
from saccade.config import to_json
from saccade.errors import SaccadeError
from saccade.progress import show_progress

DESCRIPTION = (
    "Time each operator against its plain form and its peers, interleaved in one process: ratios, not seconds."
)


@dataclass(frozen=True)
class BenchOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems; if none is given, all that have a bench."""
    rounds: int = 7
    """How often each contestant is timed."""
    threads: int = 1
    """CPU threads."""
    json: bool = False
    """One JSON document on standard output."""
    quiet: bool = False
    """No progress."""


def bench(args: Sequence[str]) -> int:
    options = read(BenchOptions, args, "bench", DESCRIPTION)
    if options.rounds < 2 or options.threads < 1:
        raise SaccadeError("bench needs at least 2 rounds and 1 thread")
    from saccade.engine.bench import race, weigh

    results, weighed = [], []
    with show_progress(options.quiet) as progress:
        for name in options.names or catalogue.names():
            module = catalogue.bench(name)
            if module is None:
                if name in options.names:
                    raise SaccadeError(f"{name} has no bench")
                continue
            for contest in progress.track(list(module.contests()), f"bench {name}"):
                results += [(name, result) for result in race(contest, options.rounds, options.threads)]
            for holding in progress.track(list(getattr(module, "holdings", list)()), f"memory {name}"):
                weighed += [(name, result) for result in weigh(holding)]
    if options.json:
        found = [("time", *r) for r in results] + [("memory", *r) for r in weighed]
        document([{"what": what, "system": name, **to_json(result)} for what, name, result in found])
    else:
        rows = [
            [
                f"{name} {r.contest}",
                r.rival,
                f"{r.ratio:.2f}x [{r.low:.2f}, {r.high:.2f}]",
                f"{r.ours * 1e3:.3g} ms",
                f"{r.theirs * 1e3:.3g} ms",
            ]
            for name, r in results
        ]
        if rows:
            table("How many times as fast", ["what", "against", "ratio [quartiles]", "ours", "theirs"], rows)
        heavy = [
            [
                f"{name} {r.contest}",
                r.rival,
                f"{r.ratio:.2f}x",
                f"{r.ours / 2**20:.3g} MiB",
                f"{r.theirs / 2**20:.3g} MiB",
            ]
            for name, r in weighed
        ]
        if heavy:
            table("How many times as light", ["what", "against", "ratio", "ours", "theirs"], heavy)
    return 0
