"""Differences between runs: config, environment, metrics, costs, and the step at which the learning curves diverge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vergence.contract.config import flat
from vergence.core.errors import VergenceError
from vergence.reading.tables import read_json
from vergence.runs.folder import Run

Values = tuple[Any, ...]
"""One value per run; None where a run has none."""

_ALWAYS_DIFFER = ("date", "command")
_COSTS = ("steps", "seconds", "seconds_a_step", "samples_a_second", "peak_memory")


@dataclass(frozen=True)
class Compared:
    """Identification of a run in a comparison."""

    folder: Path
    system: str
    preset: str
    variant: str
    date: str
    finished: bool


@dataclass(frozen=True)
class Curve:
    """Summary of a learning curve: first and last value, minimum and maximum with their steps."""

    points: int
    first: float
    last: float
    least: float
    least_at: int
    most: float
    most_at: int


@dataclass(frozen=True)
class Comparison:
    """Several runs side by side; differences are relative to the first run."""

    runs: tuple[Compared, ...]
    config: dict[str, Values]
    """Settings that differ, by dotted name as in flags; machine settings begin with ``runtime``."""
    environment: dict[str, Values]
    metrics: dict[str, Values]
    """Metrics of all runs, including equal ones."""
    costs: dict[str, Values]
    curves: dict[str, tuple[Curve | None, ...]]
    parted: tuple[int | None, ...]
    """The first step at which a run's records differ from the first run's; None if they never do."""
    shared: tuple[int, ...]
    """Number of steps recorded by both this run and the first. If 0, ``parted`` means nothing."""


def compare(folders: Sequence[Path]) -> Comparison:
    """Compare finished or unfinished runs, written by any version."""
    if len(folders) < 2:
        raise VergenceError(f"a comparison needs at least two runs, got {len(folders)}")
    runs = [Run.open(folder) for folder in folders]
    orders = [_object(run.folder / "config.json") for run in runs]
    environments = [_object(run.folder / "environment.json", there=False) for run in runs]
    results = [run.result for run in runs]
    records = [run.records() for run in runs]
    metrics = [run.metrics for run in runs]
    shown = tuple(map(_named, runs, orders, environments))
    return Comparison(
        shown,
        {name.removeprefix("config."): values for name, values in _changed(orders).items()},
        _changed([{k: v for k, v in environment.items() if k not in _ALWAYS_DIFFER} for environment in environments]),
        _beside(metrics),
        {name: tuple(getattr(r, name, None) for r in results) for name in _COSTS if any(results)},
        _curves(records),
        tuple(_parted(records[0], other) for other in records),
        tuple(len(_by_place(records[0]).keys() & _by_place(other).keys()) for other in records),
    )


def _named(run: Run, order: Mapping[str, Any], environment: Mapping[str, Any]) -> Compared:
    system, preset, variant = (str(order.get(key, "")) for key in ("system", "preset", "variant"))
    return Compared(run.folder, system, preset, variant, str(environment.get("date", "")), run.result is not None)


def difference(value: float | None, first: float | None) -> float | None:
    """Difference of a metric to the first run's; None unless both are finite."""
    if value is None or first is None or not (math.isfinite(value) and math.isfinite(first)):
        return None
    return value - first


def _object(path: Path, there: bool = True) -> dict[str, Any]:
    if not there and not path.exists():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise VergenceError(f"{path} is damaged: it is not a JSON object")
    return content


def _changed(objects: Sequence[Mapping[str, Any]]) -> dict[str, Values]:
    """Values that differ between the objects, by dotted name; None where a run has no such field."""
    leaves = [flat(value) for value in objects]
    names = sorted(set().union(*leaves))
    found = {name: tuple(leaf.get(name) for leaf in leaves) for name in names}
    return {name: values for name, values in found.items() if any(v != values[0] for v in values)}


def _beside(rows: Sequence[Mapping[str, float]]) -> dict[str, Values]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row.get(name) for row in rows) for name in names}


def _curves(records: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, tuple[Curve | None, ...]]:
    lines: list[dict[str, list[tuple[int, float]]]] = []
    for run in records:
        mine: dict[str, list[tuple[int, float]]] = {}
        for record in run:
            for group, where in (("losses", record.get("phase", "")), ("metrics", record.get("split", ""))):
                for name, value in record.get(group, {}).items():
                    if value is not None and math.isfinite(value):
                        mine.setdefault(f"{where} {name}".strip(), []).append((record["total"], value))
        lines.append(mine)
    names = dict.fromkeys(name for mine in lines for name in mine)
    return {name: tuple(_summary(mine.get(name)) for mine in lines) for name in names}


def _summary(line: Sequence[tuple[int, float]] | None) -> Curve | None:
    if not line:
        return None
    least, most = min(line, key=lambda p: p[1]), max(line, key=lambda p: p[1])
    return Curve(len(line), line[0][1], line[-1][1], least[1], least[0], most[1], most[0])


def _by_place(records: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], Any]:
    return {(r["total"], r.get("phase", ""), r.get("split", "")): (r.get("losses"), r.get("metrics")) for r in records}


def _parted(first: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> int | None:
    a, b = _by_place(first), _by_place(other)
    return min((place[0] for place in a.keys() & b.keys() if a[place] != b[place]), default=None)
