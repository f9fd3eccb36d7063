"""Timing in one process, interleaved, with fixed threads: only ratios are reported, with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from saccade.benchmark import Contest, Holding
from saccade.engine.memory import child_peak

LEAST = 0.05
"""Seconds that one timing lasts at least: short calls are repeated within it."""


@dataclass(frozen=True)
class Result:
    """How many times as fast (or light) as a rival ours is: the median over rounds, and the quartiles."""

    contest: str
    rival: str
    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    ratios: tuple[float, ...]


def race(contest: Contest, rounds: int, threads: int = 1) -> list[Result]:
    """Time ours and every rival in turn, ``rounds`` times; ratios are taken within a round."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        runners = {"": contest.ours, **contest.rivals}
        repeats = {name: _repeats(run) for name, run in runners.items()}
        times = [{name: _time(run, repeats[name]) for name, run in runners.items()} for _ in range(rounds)]
    finally:
        torch.set_num_threads(before)
    return [_result(contest.name, rival, times) for rival in contest.rivals]


def weigh(holding: Holding) -> list[Result]:
    """What ours and every rival hold at most, in bytes; ratios are how many times as much a rival holds."""
    ours = child_peak(str(holding.ours[0]), *holding.ours[1:])
    found = []
    for rival, work in holding.rivals.items():
        theirs = child_peak(str(work[0]), *work[1:])
        ratio = theirs / max(ours, 1)
        found.append(Result(holding.name, rival, ratio, ratio, ratio, ours, theirs, (ratio,)))
    return found


def _result(contest: str, rival: str, times: list[dict[str, float]]) -> Result:
    ratios = tuple(t[rival] / t[""] for t in times)
    low, middle, high = statistics.quantiles(ratios, n=4)
    ours, theirs = (statistics.median(t[name] for t in times) for name in ("", rival))
    return Result(contest, rival, middle, low, high, ours, theirs, ratios)


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
