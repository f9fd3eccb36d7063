"""Results shipped with a system besides its claims, in its ``results`` folder: metrics and costs of a run
(``run.json``), its benchmark (``bench.json``), and one picture (``picture.png`` with ``picture.json``).

Each file records the command, date and versions it was made with.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vergence import catalogue
from vergence.contract.claims import Needs
from vergence.contract.config import from_json, to_json
from vergence.contract.data import EMBEDDED
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import finite, make_folder, replacing, write_json
from vergence.core.progress import Progress
from vergence.reading.pictures import read_picture
from vergence.reading.tables import read_json
from vergence.runs.versions import Environment, environment, refuse_uncommitted

if TYPE_CHECKING:
    from PIL import Image

    from vergence.runs.folder import Run
    from vergence.studies.subject import Subject

LARGEST = 150_000
"""Maximum size of a stored picture in bytes: it is part of every install."""
WIDEST = 1400
"""Maximum width and height of a stored picture in pixels."""
COLOURS = (256, 128)
"""Palette sizes tried, until a stored picture is small enough; fewer would spoil photographs."""


@dataclass(frozen=True)
class Cost:
    """Cost of one variant, from its first seed; None if not measured."""

    parameters: int | None = None
    macs: int | None = None
    """Multiply-adds per sample."""
    seconds_a_step: float | None = None
    seconds: float | None = None
    """Training and evaluation."""
    samples_a_second: float | None = None
    peak_memory: int | None = None


@dataclass(frozen=True)
class Row:
    """One variant of a stored run."""

    metrics: dict[str, tuple[float | None, ...]]
    """One value per seed; None if not finite."""
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class StoredRun:
    """The table of one ``vergence run``."""

    preset: str
    data: str
    rows: dict[str, Row]
    command: str
    environment: Environment
    traces: dict[str, str] = field(default_factory=dict)
    """Digests of the variants' traces, by trace name; empty unless the data is embedded."""


@dataclass(frozen=True)
class StoredBench:
    """Results of one ``vergence bench``: contests and training steps, as in its ``--json`` output."""

    contests: tuple[dict[str, Any], ...]
    steps: tuple[dict[str, Any], ...]
    command: str
    environment: Environment


@dataclass(frozen=True)
class Picture:
    """Caption of a system's picture, and how it was made."""

    caption: str
    command: str
    environment: Environment


def run(name: str) -> StoredRun | None:
    """The stored run shipped with a system."""
    return _read(StoredRun, name, "run.json")


def bench(name: str) -> StoredBench | None:
    """The stored benchmark shipped with a system."""
    return _read(StoredBench, name, "bench.json")


def picture(name: str) -> Picture | None:
    """Metadata of a system's picture; the file itself is ``catalogue.picture(name)``."""
    return _read(Picture, name, "picture.json")


def store_run(subject: Subject, command: str, progress: Progress, wanted: str = "") -> list[Path]:
    """Store a run's table and one of its pictures: the one with the file name ``wanted``, or the first, unless a title
    picture was drawn for the system."""
    from vergence.studies.subject import draw

    refuse_uncommitted()
    name = subject.system.about.name
    with tempfile.TemporaryDirectory() as scratch:
        images = [a for a in draw(subject, Path(scratch), progress) if a.kind == "image"]
        chosen = next((a for a in images if wanted in ("", a.path.stem)), None)
        if wanted and chosen is None:
            stems = [a.path.stem for a in images]
            raise VergenceError(f"the report of {name} has no picture {wanted!r}{did_you_mean(wanted, stems)}")
        seeds = max(len(runs) for runs in subject.runs.values())
        measured_in = replace(_made(name), seeds=tuple(range(seeds)), threads=subject.first.order.runtime.threads)
        rows = {variant: _row(subject, runs) for variant, runs in subject.runs.items()}
        kept = StoredRun(subject.preset, _data(subject), rows, command, measured_in, _traced(subject, progress))
        written = [_write(name, "run.json", kept)]
        stored = picture(name)
        titled = stored is not None and not stored.command.startswith("vergence run ")
        if chosen is not None and (wanted or not titled):
            written.append(store_picture(name, chosen.path, chosen.caption, command))
    return written


def _traced(subject: Subject, progress: Progress) -> dict[str, str]:
    """Record the variants' traces beside the table and return their digests; none unless the data is embedded."""
    from vergence.studies import traces

    config, name = subject.first.order.config, subject.system.about.name
    if _source(config) not in (None, EMBEDDED):
        return {}
    needs = [Needs(v, min(r.order.config.seed for r in runs), subject.preset) for v, runs in subject.runs.items()]
    return traces.keep(name, _folder(name), needs, 0, progress)


def store_bench(
    name: str, contests: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]], command: str, threads: int
) -> Path:
    """Store the results of a benchmark."""
    refuse_uncommitted()
    stored = StoredBench(tuple(contests), tuple(steps), command, replace(_made(name), threads=threads))
    return _write(name, "bench.json", stored)


def store_picture(name: str, path: Path, caption: str, command: str) -> Path:
    """Store a system's picture, reduced to at most ``LARGEST`` bytes."""
    from PIL import Image

    place = _folder(name) / "picture.png"
    image = read_picture(path).convert("RGB")
    image.thumbnail((WIDEST, WIDEST), Image.Resampling.LANCZOS)
    with replacing(place) as partial:
        while not any(_fits(image, colours, partial) for colours in COLOURS):  # fewer colours first, then fewer pixels
            share = min(max((LARGEST / partial.stat().st_size) ** 0.5, 0.5), 0.95)
            image = image.resize((int(image.width * share), int(image.height * share)), Image.Resampling.LANCZOS)
    _write(name, "picture.json", Picture(caption, command, _made(name)))
    return place


def age(name: str, stored: StoredRun | StoredBench) -> str:
    """A note on the age of a table or benchmark for readers; empty if it is current."""
    from vergence.studies import traces
    from vergence.studies.ledger import AGES

    digests = stored.traces if isinstance(stored, StoredRun) else {}
    return AGES[traces.age(name, stored.environment, digests, [catalogue.folder(name) / "results"])[0]]


def _fits(image: Image.Image, colours: int, path: Path) -> bool:
    from PIL import Image

    image.quantize(colours, kmeans=2, dither=Image.Dither.NONE).save(path, format="PNG", optimize=True)
    return path.stat().st_size <= LARGEST


def _row(subject: Subject, found: Sequence[Run]) -> Row:
    from vergence.engine.cost import count
    from vergence.engine.weights import identify

    first = found[0]
    names = [n for n in subject.system.metrics if all(n in r.metrics for r in found)]
    metrics = {n: tuple(finite(r.metrics[n]) for r in found) for n in names}
    result = first.result
    cost = Cost()
    if result is not None:
        cost = Cost(None, None, result.seconds_a_step, result.seconds, result.samples_a_second, result.peak_memory)
    if first.weights is not None:
        counted = count(subject.system, first.order.config, identify(first.weights).facts)
        if counted is not None:
            cost = replace(cost, parameters=counted.parameters, macs=counted.macs)
    return Row(metrics, cost)


def _data(subject: Subject) -> str:
    """The data of the runs, described in words or as LAYOUT:PATH."""
    config = subject.first.order.config
    source = _source(config)
    return subject.system.embedded(config) if source in (None, EMBEDDED) else str(source)


def _source(config: Any) -> str | None:
    data = getattr(config, "data", None)
    source: str | None = data if isinstance(data, str) else getattr(data, "source", None)
    return source


def _folder(name: str) -> Path:
    folder = catalogue.folder(name) / "results"
    make_folder(folder)
    return folder


def _made(name: str) -> Environment:
    return Environment.read(environment(name), "the environment")


def _write(name: str, file: str, value: Any) -> Path:
    path = _folder(name) / file
    write_json(path, to_json(value))
    return path


def _read(kind: Any, name: str, file: str) -> Any:
    path = catalogue.folder(name) / "results" / file
    if not path.exists():
        return None
    value = read_json(path)
    if isinstance(value, Mapping) and "environment" in value:  # fields that another version wrote are ignored
        value = {**value, "environment": to_json(Environment.read(value["environment"], str(path)))}
    return from_json(kind, value, str(path))
