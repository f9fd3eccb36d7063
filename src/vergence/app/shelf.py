"""Contents of a system's page, read on each request: picture, reports, claims and weights."""

from __future__ import annotations

import html
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence.app.files import is_inside, shown
from vergence.contract.about import About
from vergence.core.errors import VergenceError
from vergence.core.progress import about_minutes
from vergence.runs.folder import Run, runs
from vergence.studies import results
from vergence.studies.ledger import Entry, latest

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg")
MOST_METRICS = 8
NEWEST = 6
"""Maximum number of reports and weights listed per kind."""


@dataclass(frozen=True)
class Report:
    """The report of a run or a comparison."""

    id: str
    title: str
    path: Path
    pictures: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Weights:
    """Weights for a demo."""

    id: str
    title: str
    path: Path


def systems() -> list[About]:
    """Metadata of all systems; third-party systems that fail to import are left out."""
    pages = []
    for name in catalogue.names():
        try:
            pages.append(catalogue.about(name))
        except VergenceError:
            continue
    return pages


def tasks(pages: Sequence[About]) -> list[str]:
    """All tasks of the systems."""
    return sorted({task for page in pages for task in page.tasks})


# Pictures -------------------------------------------------------------------------------------------------------------


def picture(name: str, root: Path) -> Path | None:
    """A system's title picture: the stored one, else one of its newest report or run."""
    stored = catalogue.picture(name)
    if stored is not None:
        return stored
    folders = [*sorted((root / name / "reports").glob("*"), reverse=True), *(run.folder for run in runs(name, root))]
    return next((pictures[0] for folder in folders if (pictures := _pictures(folder, root))), None)


def _pictures(folder: Path, root: Path) -> tuple[Path, ...]:
    found = sorted(p for p in (folder / "pictures").glob("*") if p.suffix.lower() in PICTURES)
    return tuple(p for p in found if is_inside(p, root))


def drawn(page: About) -> str:
    """A placeholder SVG for a system without a picture: bars derived from its name."""
    seed = [ord(letter) for letter in page.name * 24]
    hue = sum(seed) * 47 % 360
    bars = []
    for number in range(24):
        height = 30 + seed[number] * (number * number + 7) % 120
        colour = f"hsl({(hue + 3 * number) % 360} 45% {52 + seed[number] % 18}%)"
        bars.append(f'<rect x="{number * 20}" y="{270 - height}" width="14" height="{height}" fill="{colour}"/>')
    name = html.escape(page.name)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 270" font-family="system-ui,sans-serif">'
        f'<rect width="480" height="270" fill="hsl({hue} 30% 94%)"/>{"".join(bars)}'
        f'<text x="24" y="64" font-size="40" font-weight="600" fill="hsl({hue} 40% 28%)">{name}</text></svg>'
    )


# Reports --------------------------------------------------------------------------------------------------------------


def reports(name: str, root: Path) -> list[Report]:
    """The newest comparisons, then the newest single runs."""
    both = [p.parent for p in sorted((root / name / "reports").glob("*/report.html"), reverse=True)]
    single = [run.folder for run in runs(name, root)]
    return [*_newest(both, "comparison", root), *_newest(single, "run", root)]


def _newest(folders: Sequence[Path], what: str, root: Path) -> list[Report]:
    found = [folder for folder in folders if is_inside(folder / "report.html", root)]
    return [_report(folder, what, root) for folder in found[:NEWEST]]


def _report(folder: Path, what: str, root: Path) -> Report:
    name = shown(folder.name)
    date, rest = _dated(name)
    title = f"{'all variants' if what == 'comparison' else 'one run'}: {rest or name}, {date}"
    return Report(f"{what}-{name}", title, folder / "report.html", _pictures(folder, root))


def _dated(name: str) -> tuple[str, str]:
    """Split ``20261116-143911-tiny`` into a readable date and the rest."""
    stamp, rest = name[:15], name[16:]
    try:
        return f"{datetime.strptime(stamp, '%Y%m%d-%H%M%S'):%d %B %Y, %H:%M}", rest
    except ValueError:
        return name, ""


def report(name: str, id: str, root: Path) -> Report | None:
    """The listed report with this id; no other file is opened."""
    return next((found for found in reports(name, root) if found.id == id), None)


# Weights --------------------------------------------------------------------------------------------------------------


def weights(name: str, root: Path) -> list[Weights]:
    """Weights of the newest finished runs, then of unfinished runs, then the starter weights."""
    found = [run for run in runs(name, root) if run.weights]
    done = [run for run in found if (run.folder / "result.json").exists()]
    return [*_listed(name, [*done, *(run for run in found if run not in done)]), *_starters(name)]


def waits(name: str, root: Path) -> str:
    """What a system waits for before anything of it can run, in a few words; empty if it can run now."""
    settings = catalogue.settings(name)
    if settings.inputs is None or catalogue.starter(name) is not None or any(run.weights for run in runs(name, root)):
        return ""
    system = catalogue.load(name)
    if not system.offers("build") or system.offers("needs_model"):
        return ""
    took = f" ({about_minutes(settings.minutes)})" if settings.minutes else ""
    return f"to be trained first{took}" if system.trains else "no weights yet"


def _starters(name: str) -> Iterator[Weights]:
    from vergence.engine.starters import one_line

    for key, path in catalogue.starters(name).items():
        yield Weights(f"starter-{key}", one_line(path), path)


def _listed(name: str, found: Sequence[Run]) -> Iterator[Weights]:
    system: Any = catalogue.load(name)
    for run in found[: 2 * NEWEST]:
        try:
            order = run.order
        except VergenceError:
            continue  # a damaged or older folder
        variant = system.variants[order.variant].label if order.variant in system.variants else order.variant
        date, _ = _dated(shown(run.folder.name))
        assert run.weights is not None
        yield Weights(shown(run.folder.name), f"{variant}, {order.preset}, trained {date}", run.weights)


# Measured -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """The stored results of a system's variants."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]
    """Label and cells, each with whether it is the best of its column."""
    note: str
    command: str
    """What made it."""
    date: str


def table(name: str) -> Table | None:
    """The stored table of a system."""
    stored = results.run(name)
    if stored is None:
        return None
    system = catalogue.load(name)
    columns = [m for m in system.metrics if any(m in row.metrics for row in stored.rows.values())][:MOST_METRICS]
    means = {v: {m: _mean(row.metrics.get(m, ())) for m in columns} for v, row in stored.rows.items()}
    rows = []
    for variant, row in stored.rows.items():
        cells = []
        for m in columns:
            metric, mean = system.metrics[m], means[variant][m]
            others = [means[v][m] for v in means if v != variant]
            best = (
                mean is not None and bool(others) and not any(o is not None and metric.better(o, mean) for o in others)
            )
            cells.append((_cell(row.metrics.get(m, ()), metric.digits), best))
        label = system.variants[variant].label if variant in system.variants else variant
        rows.append((label, tuple(cells)))
    seeds = len(stored.environment.seeds) or 1
    many = "one seed" if seeds == 1 else f"mean and standard deviation of {seeds} seeds"
    note = f"Test data, {stored.preset}, {many}; {stored.data.rstrip('.')}."
    heads = tuple(f"{system.metrics[m].label} {system.metrics[m].unit}".strip() for m in columns)
    return Table(heads, tuple(rows), note, stored.command, stored.environment.date[:10])


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [v for v in values if v is not None]
    return statistics.fmean(numbers) if numbers else None


def _cell(values: Sequence[float | None], digits: int) -> str:
    numbers = [v for v in values if v is not None]
    if not numbers:
        return "–"
    spread = f" ± {statistics.stdev(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{statistics.fmean(numbers):.{digits}f}{spread}"


# Claims ---------------------------------------------------------------------------------------------------------------

STYLES = {
    "holds": "good",
    "does not hold": "bad",
    "not resolved at this scale": "open",
    "cannot be judged here": "none",
    "not measured yet": "none",
}


@dataclass(frozen=True)
class Claimed:
    """A claim with its verdict and figures, as text."""

    statement: str
    kind: str
    verdict: str
    style: str
    figures: str
    age: str = ""
    """A note if the result is not from the current code."""


def claims(name: str, root: Path) -> list[Claimed]:
    """Every claim of a system with its latest result."""
    return [_claimed(entry) for entry in latest(name, root)]


def _claimed(entry: Entry) -> Claimed:
    claim, judgement = entry.claim, entry.judgement
    figures = [claim.source, f"expected {claim.sense} {claim.threshold:g} {claim.unit}".strip()]
    if judgement is None:
        figures.append(f"measure it with: vergence claims {entry.system} --only {claim.id}")
        return Claimed(claim.statement, claim.kind, "not measured yet", "none", " · ".join(figures))
    if judgement.measured is not None:
        text = f"measured {judgement.measured:.3g} {claim.unit}".strip()
        if len(judgement.values) > 1 and judgement.low is not None and judgement.high is not None:
            text += f" (90 % interval {judgement.low:.3g} to {judgement.high:.3g})"
        figures.append(text)
    figures += [judgement.reason] if judgement.reason else []
    verdict, age = judgement.verdict, entry.old
    return Claimed(claim.statement, claim.kind, verdict, STYLES[verdict], " · ".join(figures), age)
