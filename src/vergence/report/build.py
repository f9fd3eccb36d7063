"""Builds a report page from finished runs and the ledger of claims."""

from __future__ import annotations

import io
import json
import os
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment

from vergence import catalogue
from vergence.contract.config import to_json
from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Artifact
from vergence.core.files import write_text
from vergence.core.progress import Progress, clock
from vergence.drawing.inline import data_uri
from vergence.reading.pictures import read_picture
from vergence.report.charts import line_chart
from vergence.report.measured import costs_table, metrics_table, warnings
from vergence.report.verdicts import kinds, seeds_text
from vergence.runs.folder import Run
from vergence.studies.subject import Subject, draw

INLINE = {"style": "style.css", "script": "charts.js"}
LARGEST = 560_000
"""Bytes of all pictures of a page together: with them, it stays under 1 MB."""


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
        "table": metrics_table(subject),
        "warnings": warnings(subject),
        "claims": kinds(subject.entries),
        "curves": _curves(subject),
        "costs": costs_table(subject),
        "pictures": _pictures(drawn, folder),
    }
    sections = [("what", "What was run"), ("table", "Variants"), ("claims", "Claims"), ("pictures", "Pictures")]
    sections += [("curves", "Learning curves"), ("costs", "Cost"), ("made", "Made with")]
    page = {
        "heading": f"{about.name}, {subject.preset}",
        "facts": _facts(subject),
        "folders": _folders(subject, folder),
        "commands": subject.commands,
        "sections": [(id, title) for id, title in sections if parts.get(id, True)],
    }
    configs = [(subject.label(v), json.dumps(to_json(runs[0].order), indent=1)) for v, runs in subject.runs.items()]
    resources = files("vergence.report")
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        resources.joinpath("page.html").read_text(encoding="utf-8")
    )
    inline = {name: resources.joinpath(file).read_text(encoding="utf-8") for name, file in INLINE.items()}
    html = template.render(about=about, page=page, made=_made(subject), configs=configs, **inline, **parts)
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
        ("seeds", seeds_text(seeds).removeprefix("seed ")),
        ("training and evaluation", clock(spent)),
    ]


def _folders(subject: Subject, folder: Path) -> list[tuple[str, str]]:
    """Name and link of each run's folder, relative to the page."""
    runs = [run for runs in subject.runs.values() for run in runs]
    links = [Path(os.path.relpath(run.folder.resolve(), folder.resolve())).as_posix() for run in runs]
    return [(run.folder.resolve().name, f"{quote(link)}/") for run, link in zip(runs, links, strict=True)]


def _curves(subject: Subject) -> dict[str, Any] | None:
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
        if max(map(len, lines.values())) < 2:  # evaluated once: no curve
            continue
        label = f"{known[name].label} {known[name].unit}".strip() if name in known else name
        charts.append(line_chart(lines, "step", f"{label} on validation data"))
    seed = subject.first.order.config.seed
    note = f"One line per variant, of seed {seed}; the pointer shows values. Long curves are averaged over neighbours."
    return {"charts": charts, "note": note} if (charts := [chart for chart in charts if chart]) else None


def _made(subject: Subject) -> list[tuple[str, str]]:
    environment = subject.first.environment()
    packages = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
    return [
        ("date", environment.date),
        ("Vergence", environment.version + (f", commit {environment.commit}" if environment.commit else "")),
        ("Python", f"{environment.python}; {packages}"),
        ("machine", environment.machine),
    ]


def _pictures(drawn: Sequence[Artifact], folder: Path) -> list[dict[str, str]]:
    """Pictures as data URIs; if together they are too large, those above their share are reduced and link to the
    file."""
    shown = [a for a in drawn if a.kind == "image" and a.path.exists()]
    left, pictures = LARGEST, dict[Path, dict[str, str]]()
    for number, artifact in enumerate(sorted(shown, key=lambda a: a.path.stat().st_size)):  # small ones leave room
        content, share = artifact.path.read_bytes(), left // (len(shown) - number)
        kind, link = _kind(artifact.path), ""
        if len(content) > share:
            kind, content = "webp", reduced(artifact.path, share)
            link = quote(Path(os.path.relpath(artifact.path, folder)).as_posix())
        left -= len(content)
        pictures[artifact.path] = {"caption": artifact.caption, "uri": data_uri(kind, content), "link": link}
    return [pictures[artifact.path] for artifact in shown]


def _kind(path: Path) -> str:
    suffix = path.suffix.lower().removeprefix(".")
    return {"jpg": "jpeg", "svg": "svg+xml"}.get(suffix, suffix)


def reduced(path: Path, largest: int) -> bytes:
    """A picture as WebP of at most ``largest`` bytes, with as many pixels as fit."""
    image = read_picture(path).convert("RGB")
    while True:
        buffer = io.BytesIO()
        image.save(buffer, "WEBP", quality=80)
        if buffer.tell() <= largest or max(image.size) < 64:
            return buffer.getvalue()
        image = image.resize((max(image.width * 4 // 5, 1), max(image.height * 4 // 5, 1)))
