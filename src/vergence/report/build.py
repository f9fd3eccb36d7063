"""Builds a report page from finished runs and the ledger of claims."""

from __future__ import annotations

import json
import math
import shlex
import statistics
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment

from vergence import catalogue
from vergence.contract.config import to_json
from vergence.contract.data import EMBEDDED
from vergence.contract.settings import Metric
from vergence.core.files import write_text
from vergence.core.progress import Progress, clock
from vergence.drawing.inline import data_uri
from vergence.engine.cost import count
from vergence.engine.weights import identify
from vergence.report.charts import line_chart
from vergence.runs.folder import Result, Run
from vergence.studies.ledger import Entry
from vergence.studies.subject import Subject, draw

STYLES = {
    "holds": "good",
    "does not hold": "bad",
    "not resolved at this scale": "open",
    "cannot be judged here": "none",
}


def report_run(run: Run, progress: Progress) -> Path:
    """The report of a single run."""
    order = run.order
    command = f"vergence train --from-run {shlex.quote(str(run.folder))}"
    subject = Subject(catalogue.load(order.system), order.preset, {order.variant: [run]}, (), [command])
    return write_report(subject, run.folder, progress)


def write_report(subject: Subject, folder: Path, progress: Progress) -> Path:
    """Draw the pictures and write ``report.html`` into a folder."""
    task = progress.start("report", None)
    drawn = draw(subject, folder, progress)
    about = subject.system.about
    parts: dict[str, Any] = {
        "table": _table(subject),
        "claims": [_claim(entry) for entry in subject.entries],
        "curves": _curves(subject),
        "costs": _costs(subject),
        "pictures": [
            {"caption": a.caption, "uri": _data_uri(a.path)} for a in drawn if a.kind == "image" and a.path.exists()
        ],
    }
    sections = [("what", "What was run"), ("table", "Variants"), ("pictures", "Pictures"), ("claims", "Claims")]
    sections += [("curves", "Learning curves"), ("costs", "Cost"), ("made", "Made with")]
    page = {
        "heading": f"{about.name}, {subject.preset}",
        "facts": _facts(subject),
        "commands": subject.commands,
        "sections": [(id, title) for id, title in sections if parts.get(id, True)],
    }
    configs = [(subject.label(v), json.dumps(to_json(runs[0].order), indent=1)) for v, runs in subject.runs.items()]
    resources = files("vergence.report")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        resources.joinpath("page.html").read_text(encoding="utf-8")
    )
    style = resources.joinpath("style.css").read_text(encoding="utf-8")
    html = template.render(about=about, page=page, style=style, made=_made(subject), configs=configs, **parts)
    write_text(folder / "report.html", html)
    progress.finish(task)
    return folder / "report.html"


# The parts ------------------------------------------------------------------------------------------------------------


def _facts(subject: Subject) -> list[tuple[str, str]]:
    order = subject.first.order
    seeds = sorted({run.order.config.seed for runs in subject.runs.values() for run in runs})
    data = getattr(order.config, "data", None)
    source = data if isinstance(data, str) else getattr(data, "source", None)
    spent = sum(run.result.seconds for runs in subject.runs.values() for run in runs if run.result)
    return [
        ("system", f"{order.system}, preset {subject.preset}"),
        ("variants", ", ".join(subject.label(v) for v in subject.runs)),
        ("data", subject.system.embedded(order.config) if source in (None, EMBEDDED) else str(source)),
        ("seeds", ", ".join(map(str, seeds))),
        ("training and evaluation", clock(spent)),
        ("folder", ", ".join(run.folder.name for runs in subject.runs.values() for run in runs)),
    ]


def _table(subject: Subject) -> dict[str, Any] | None:
    metrics = subject.system.metrics
    values = {v: _values(runs) for v, runs in subject.runs.items()}
    shown = [name for name in metrics if any(name in measured for measured in values.values())]
    if not shown:
        return None
    papers: list[dict[str, Any]] = []
    for reported in subject.system.settings.reported:
        names = [name for name in metrics if any(name in row for row in reported.rows.values())]
        beside = not reported.presets or subject.preset in reported.presets
        if beside and any(v in reported.rows for v in subject.runs):
            papers.append({"where": reported.where, "metrics": [metrics[n].label for n in names], "names": names,
                           "rows": reported.rows})  # fmt: skip
    best = {name: _best([_mean(measured[name]) for measured in values.values() if name in measured], metrics[name])
            for name in shown}  # fmt: skip
    rows = []
    for variant, measured in values.items():
        ours = [_cell(measured.get(name), metrics[name], best[name]) for name in shown]
        theirs = []
        for paper in papers:
            for name in paper["names"]:
                figures = [row[name] for v, row in paper["rows"].items() if name in row and v in subject.runs]
                figure = paper["rows"].get(variant, {}).get(name)
                theirs.append(
                    _cell([figure] if figure is not None else None, metrics[name], _best(figures, metrics[name]))
                )
        rows.append({"label": subject.label(variant), "ours": ours, "theirs": theirs})
    seeds = max(len(runs) for runs in subject.runs.values())
    note = f"{subject.first.measured_on}, " + (
        "one seed." if seeds == 1 else f"mean and standard deviation of {seeds} seeds."
    )
    heads = [f"{metrics[n].label} {metrics[n].unit}".strip() for n in shown]
    return {"title": "Variants", "metrics": heads, "papers": papers, "rows": rows, "note": note}


def _values(runs: Sequence[Run]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, value in run.metrics.items():
            values.setdefault(name, []).append(value)
    return values


def _cell(values: Sequence[float] | None, metric: Metric, best: float | None) -> dict[str, Any]:
    if not values:
        return {"text": "–", "best": False}
    mean = _mean(values)
    spread = f" ± {statistics.stdev(values):.{metric.digits}f}" if len(values) > 1 else ""
    return {"text": f"{mean:.{metric.digits}f}{spread}", "best": mean == best}


def _best(values: Sequence[float], metric: Metric) -> float | None:
    if len(values) < 2:
        return None
    return max(values) if metric.higher_is_better else min(values)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _claim(entry: Entry) -> dict[str, str]:
    claim, judgement = entry.claim, entry.judgement
    measured, more = "–", []
    if judgement is None:
        verdict, style = "not measured yet", "none"
        more.append(f"measure it with: vergence claims {entry.system} --only {claim.id}")
    else:
        verdict, style = judgement.verdict, STYLES[judgement.verdict]
        if judgement.measured is not None:
            measured = f"{judgement.measured:.3g} {claim.unit}".strip()
            if len(judgement.values) > 1:
                measured += f", 90 % interval {judgement.low:.3g} to {judgement.high:.3g} over {len(judgement.values)}"
        more += [text for text in (judgement.reason, entry.old) if text]
    return {
        "statement": claim.statement,
        "source": claim.source,
        "kind": claim.kind,
        "expected": f"{claim.sense} {claim.threshold:g} {claim.unit}".strip(),
        "paper": claim.paper,
        "measured": measured,
        "verdict": verdict,
        "style": style,
        "more": "; ".join(more),
    }


def _curves(subject: Subject) -> list[str]:
    """One chart per loss and per validation metric, with one line per variant (its first seed)."""
    losses: dict[str, dict[str, list[tuple[float, float]]]] = {}
    metrics: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for variant, runs in subject.runs.items():
        for record in runs[0].records():
            for group, target in (("losses", losses), ("metrics", metrics)):
                for name, value in record.get(group, {}).items():
                    if value is None:
                        continue
                    line = target.setdefault(name, {}).setdefault(subject.label(variant), [])
                    line.append((record["total"], value))
    known = subject.system.metrics
    charts = [line_chart(lines, "step", f"loss: {name}") for name, lines in losses.items()]
    for name, lines in metrics.items():
        label = f"{known[name].label} {known[name].unit}".strip() if name in known else name
        charts.append(line_chart(lines, "step", f"{label} on validation data"))
    return [chart for chart in charts if chart]


def _costs(subject: Subject) -> dict[str, Any] | None:
    rows, threads = [], set()
    for variant, runs in subject.runs.items():
        run, order = runs[0], runs[0].order
        result = run.result or Result({})
        counted = None
        if run.weights is not None:
            counted = count(subject.system, order.config, identify(run.weights).facts)
        threads.add(result.threads)
        rows.append(
            [
                subject.label(variant),
                f"{counted.parameters:,}" if counted else "–",
                _short(counted.macs) if counted else "–",
                f"{result.seconds_a_step * 1000:.0f} ms" if result.seconds_a_step else "–",
                clock(result.seconds),
                f"{result.samples_a_second:,.0f}" if result.samples_a_second else "–",
                f"{result.peak_memory / 2**20:,.0f} MiB" if result.peak_memory else "–",
            ]
        )
    if not rows:
        return None
    columns = ["", "parameters", "multiply-adds", "per step", "whole run", "evaluated per second", "peak memory"]
    return {"columns": columns, "rows": rows, "threads": f"{', '.join(map(str, threads))} thread(s)"}


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:g}"


def _made(subject: Subject) -> list[tuple[str, str]]:
    environment = subject.first.environment()
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    return [
        ("date", environment.date),
        ("Vergence", environment.version + (f", commit {environment.commit}" if environment.commit else "")),
        ("Python", f"{environment.python}; {packages}"),
        ("machine", environment.machine),
    ]


def _data_uri(path: Path) -> str:
    kind = "jpeg" if path.suffix.lower() in (".jpg", ".jpeg") else path.suffix.lower().removeprefix(".")
    return data_uri(kind, path.read_bytes())
