"""Matplotlib figures in one style for all systems: one palette, and files written atomically."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vergence.core.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PALETTE = ("#3b6fb6", "#e08a2c", "#2f9e63", "#b23a48", "#7a5195", "#6b6b6b")
"""Colours of lines, bars and points, in order of use."""
BLUE, ORANGE, GREEN, RED, PURPLE, GREY = PALETTE


def colours(count: int) -> list[str]:
    """``count`` colours of the palette, which repeats after six."""
    return [PALETTE[i % len(PALETTE)] for i in range(count)]


def figure(width: float, height: float, dpi: int = 110) -> Figure:
    """An empty figure with constrained layout; its size is in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=dpi, layout="constrained")


def saved(drawn: Figure, path: Path, tight: bool = False) -> Path:
    """Write a figure atomically, as PNG or SVG by its suffix."""
    kind = path.suffix.lower().removeprefix(".") or "png"
    with replacing(path) as partial:
        drawn.savefig(partial, format=kind, bbox_inches="tight" if tight else None)
    return path


@dataclass(frozen=True)
class Growth:
    """Run time over problem size: for each label one callable per size (None: not at that size)."""

    xlabel: str
    sizes: Sequence[int]
    runs: Mapping[str, Sequence[Callable[[], Any] | None]]
    title: Callable[[Mapping[str, Sequence[tuple[int, float]]]], str] | None = None
    """Title of the panel, computed from sizes and seconds by label."""


def growth(path: Path, panels: Sequence[Growth], ylabel: str, rounds: int = 3) -> Path:
    """Time callables over growing sizes, interleaved, and plot them on log-log axes with the final exponent."""
    drawn = figure(4.9 * len(panels), 3.7)
    for axis, panel in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        times: dict[str, list[tuple[int, float]]] = {label: [] for label in panel.runs}
        for n, works in zip(panel.sizes, zip(*panel.runs.values(), strict=True), strict=True):
            present = {label: run for label, run in zip(panel.runs, works, strict=True) if run}
            for label, taken in seconds(present, rounds).items():
                times[label].append((n, taken))
        for colour, (label, points) in zip(colours(len(times)), times.items(), strict=True):
            (n1, t1), (n2, t2) = points[-2:]
            slope = math.log(t2 / t1) / math.log(n2 / n1)
            axis.loglog(*zip(*points, strict=True), "o-", color=colour, label=f"{label}, at the end n^{slope:.2f}")
        if panel.title:
            axis.set_title(panel.title(times), fontsize=9)
        axis.set(xlabel=panel.xlabel, ylabel=ylabel)
        axis.set_xticks(panel.sizes, map(str, panel.sizes))
        axis.minorticks_off()
        axis.legend(frameon=False)
    return saved(drawn, path)


def seconds(runs: Mapping[str, Callable[[], Any]], rounds: int = 3) -> dict[str, float]:
    """Median seconds of each call, measured in turns after one warm-up call."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(rounds):
        for label, run in runs.items():
            began = time.perf_counter()
            run()
            times[label].append(time.perf_counter() - began)
    return {label: statistics.median(taken) for label, taken in times.items()}
