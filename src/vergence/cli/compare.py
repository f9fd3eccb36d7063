"""``vergence compare``: differences between runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from vergence import catalogue
from vergence.cli.options import read
from vergence.cli.show import document, table
from vergence.contract.config import to_json
from vergence.contract.settings import Metric
from vergence.core.errors import VergenceError
from vergence.core.progress import clock
from vergence.studies.comparison import Comparison, Curve, difference
from vergence.studies.comparison import compare as compare_runs

DESCRIPTION = """Compare runs side by side: settings and versions that differ, metrics and costs with their difference
to the first run, a summary of the learning curves, and the first step at which they diverge."""


_COSTS = {"seconds": "whole run", "seconds_a_step": "per step", "samples_a_second": "evaluated per second",
          "peak_memory": "peak memory"}  # fmt: skip


@dataclass(frozen=True)
class CompareOptions:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Folders of two or more runs; differences are relative to the first."""
    json: bool = False
    """One JSON document on standard output."""


def compare(args: Sequence[str]) -> int:
    options = read(CompareOptions, args, "compare", DESCRIPTION)
    comparison = compare_runs(options.runs)
    if options.json:
        document(_as_json(comparison))
    else:
        _tell(comparison, _metrics(comparison))
    return 0


def _as_json(found: Comparison) -> dict[str, Any]:
    content: dict[str, Any] = to_json(found)
    content["differences"] = {
        name: [difference(value, values[0]) for value in values] for name, values in found.metrics.items()
    }
    return content


def _metrics(found: Comparison) -> Mapping[str, Metric]:
    """The system's declared metrics, for formatting; empty if the system is not installed."""
    names = {run.system for run in found.runs}
    try:
        return catalogue.load(names.pop()).metrics if len(names) == 1 else {}
    except (VergenceError, ImportError, AttributeError, SyntaxError):
        return {}


def _tell(found: Comparison, metrics: Mapping[str, Metric]) -> None:
    letters = [chr(ord("A") + n) if n < 26 else f"run {n + 1}" for n in range(len(found.runs))]
    rows = [
        [letter, str(run.folder), f"{run.system} {run.preset} {run.variant}", run.date, "yes" if run.finished else "no"]
        for letter, run in zip(letters, found.runs, strict=True)
    ]
    table("", ["", "run", "what", "date", "finished"], rows)
    for what, changed in (("Settings", found.config), ("Versions and machines", found.environment)):
        if changed:
            table(f"{what} that differ", ["", *letters], [[name, *map(_text, v)] for name, v in changed.items()])
        else:
            print(f"{what} do not differ.")
    against = [f"{letter} − A" for letter in letters[1:]]
    if found.metrics:
        body = [_metric_row(name, values, metrics.get(name)) for name, values in found.metrics.items()]
        table("Metrics on test data", ["", *letters, *against], body)
    if found.costs:
        body = [[_COSTS.get(n, n), *(_cost(n, v) for v in values)] for n, values in found.costs.items()]
        table("Cost", ["", *letters], body)
    if found.curves:
        body = [[name, *map(_curve, curves)] for name, curves in found.curves.items()]
        table("Learning curves", ["", *letters], body, "first → last (minimum at step, maximum at step)")
    for letter, parted, shared in list(zip(letters, found.parted, found.shared, strict=True))[1:]:
        if shared:
            same = f"are equal in all {shared} records that both have"
            print(f"the curves of A and {letter} {same if parted is None else f'diverge at step {parted}'}")


def _metric_row(name: str, values: Sequence[float | None], metric: Metric | None) -> list[str]:
    label = f"{metric.label} {metric.unit}".strip() if metric else name

    def shown(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "–"
        return f"{value:.{metric.digits}f}" if metric else f"{value:.4g}"

    cells = []
    for value in values[1:]:
        apart = difference(value, values[0])
        verdict = ""
        if metric and apart:
            verdict = " better" if metric.better(apart, 0.0) else " worse"
        cells.append("–" if apart is None else f"{apart:+.3g}{verdict}")
    return [label, *map(shown, values), *cells]


def _cost(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name == "seconds":
        return clock(value)
    if name == "seconds_a_step":
        return f"{value * 1000:.3g} ms"
    if name == "samples_a_second":
        return f"{value:,.0f}"
    return f"{value / 2**20:,.0f} MiB" if name == "peak_memory" else _text(value)


def _curve(curve: Curve | None) -> str:
    if curve is None:
        return "–"
    ends = f"{curve.first:.4g} → {curve.last:.4g}"
    return f"{ends} ({curve.least:.4g} at {curve.least_at}, {curve.most:.4g} at {curve.most_at})"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
