"""Timing in one process, interleaved, with fixed threads: only ratios are reported, with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from vergence import catalogue
from vergence.contract.benchmark import Contest
from vergence.core.errors import VergenceError
from vergence.engine.memory import child_peaks

LEAST = 0.05
"""Minimum seconds of one timing: short calls are repeated within it."""
LONGEST = 8.0
"""Seconds after which no further round of a contest begins."""
FEWEST = 3
"""Rounds that a contest has however long they take."""
ENOUGH = 0.9
"""The share of a core that this process must get for its timings to be meaningful."""


@dataclass(frozen=True)
class Result:
    """Speed-up over a rival: the median over rounds, and the quartiles."""

    id: str
    contest: str
    """Its title."""
    rival: str
    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    ratios: tuple[float, ...]
    core: float
    """Median share of a core that the process got between the timings."""


@dataclass(frozen=True)
class Memory:
    """Peak memory of one call of ours and of a rival, in bytes."""

    ours: int
    theirs: int

    @property
    def ratio(self) -> float:
        """The rival's peak relative to ours; peaks below one memory page count as one page."""
        return max(self.theirs, 4096) / max(self.ours, 4096)


def race(contest: Contest, rounds: int, threads: int = 1) -> list[Result]:
    """Time ours and every rival in turn, ``rounds`` times (fewer if they are long); ratios are taken within a round."""
    with fixed_threads(threads):
        runners = {"": contest.ours, **contest.rivals}
        repeats = {name: _repeats(run) for name, run in runners.items()}
        times: list[dict[str, float]] = []
        shares, began = [], time.perf_counter()
        while len(times) < rounds and not (len(times) >= FEWEST and time.perf_counter() - began > LONGEST):
            shares.append(core_share())
            times.append({name: _time(run, repeats[name]) for name, run in runners.items()})
    return [_result(contest, rival, times, statistics.median(shares)) for rival in contest.rivals]


def memory(system: str, contest: Contest) -> dict[str, Memory]:
    """Peak memory of ours against each rival, each measured in its own process."""
    return memories(system, [contest])[contest.id]


def memories(system: str, contests: Sequence[Contest]) -> dict[str, dict[str, Memory]]:
    """:func:`memory` of several contests, by their ids: the processes share the imports."""
    cases = [(system, contest.id, name) for contest in contests for name in ("", *contest.rivals)]
    held = dict(zip(cases, child_peaks(f"{__name__}:contestant", cases), strict=True)) if cases else {}
    return {
        c.id: {rival: Memory(held[system, c.id, ""], held[system, c.id, rival]) for rival in c.rivals} for c in contests
    }


def contestant(system: str, contest: str, rival: str) -> Callable[[], Any]:
    """The function of one contestant; the empty name is ours."""
    module = catalogue.bench(system)
    selected = next((c for c in (module.contests() if module else ()) if c.id == contest), None)
    if selected is None:
        raise VergenceError(f"{system} has no contest {contest!r}")
    return selected.rivals[rival] if rival else selected.ours


def core_share(seconds: float = 0.05) -> float:
    """The share of a core that a busy loop gets: below 1 if other processes compete for it."""
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        pass
    return min((time.process_time() - used) / max(time.perf_counter() - began, 1e-9), 1.0)


def refuse_if_busy(share: float) -> None:
    """Refuse to compare speeds on a machine that is busy with other work."""
    if share < ENOUGH:
        failure = VergenceError(
            f"this machine is too busy to compare: bench got {share:.0%} of a core and needs {ENOUGH:.0%}; "
            "stop other processes, or add --busy to compare anyway"
        )
        failure.exit_code = 1
        raise failure


@contextmanager
def fixed_threads(threads: int) -> Iterator[None]:
    """Compute with ``threads`` threads, then restore the previous number."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _result(contest: Contest, rival: str, times: list[dict[str, float]], core: float) -> Result:
    ratios = tuple(t[rival] / t[""] for t in times)
    low, middle, high = statistics.quantiles(ratios, n=4)
    ours, theirs = (statistics.median(t[name] for t in times) for name in ("", rival))
    return Result(contest.id, contest.title, rival, middle, low, high, ours, theirs, ratios, core)


def _repeats(run: Callable[[], Any]) -> int:
    run()  # the first call pays for caches and allocations
    began = time.perf_counter()
    run()
    return max(1, int(LEAST / max(time.perf_counter() - began, 1e-9)))


def _time(run: Callable[[], Any], repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - began) / repeats
