"""HTML parts of the pages. All values are escaped."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, Template

from vergence.app.files import open_inside, shown
from vergence.app.jobs import Job
from vergence.app.shelf import STYLES, Claimed, Report, Table
from vergence.app.uploads import Upload
from vergence.contract.about import About
from vergence.contract.inputs import Artifact
from vergence.core.errors import VergenceError
from vergence.core.progress import clock
from vergence.reading.tables import parse_json, parse_rows

LONGEST_TEXT = 20_000
MOST_ROWS = 100
MOST_COLUMNS = 14


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals["clock"] = clock
    return environment.from_string(files("vergence.app").joinpath("parts.html").read_text(encoding="utf-8"))


def _part(name: str, *values: Any) -> str:
    return shown(f'<div class="sac">{getattr(_template().module, name)(*values)}</div>')


def style() -> str:
    return files("vergence.app").joinpath("style.css").read_text(encoding="utf-8")


def front(count: int) -> str:
    return _part("front", count)


def cards(pages: Sequence[About], waiting: Mapping[str, str] | None = None) -> str:
    """Tiles of systems; ``waiting`` says by name what those that cannot run yet wait for."""
    return _part("cards", pages, waiting or {})


def head(page: About) -> str:
    return _part("head", page)


def reports(page: About, found: Sequence[Report]) -> str:
    return _part("reports", page, found)


def measured(page: About, table: Table | None, caption: str) -> str:
    """A system's stored table and picture; empty if it has none."""
    return _part("measured", page, table, caption) if table is not None or caption else ""


_KINDS = {
    "empirical": "Comparisons, measured by training",
    "cost": "Cost, measured",
    "exact": "Mathematics of the paper, checked exactly",
    "check": "Checks of the implementation",
}


_PLURAL = {"holds": "hold", "does not hold": "do not hold", "cannot be judged here": "that cannot be judged here"}


def claims(page: About, found: Sequence[Claimed]) -> str:
    """The number of claims of the paper per verdict, then the claims by kind; the checks of the implementation last."""
    groups = [(kind, told, [c for c in found if c.kind == kind]) for kind, told in _KINDS.items()]
    verdicts = [c.verdict for c in found if c.kind != "check"]
    tally = [(_PLURAL.get(v, v), style, verdicts.count(v)) for v, style in STYLES.items()]
    common = found[0].age if found and len({c.age for c in found}) == 1 else ""
    if not common:
        found = [replace(c, figures=f"{c.figures} · {c.age}") if c.age else c for c in found]
        groups = [(kind, told, [c for c in found if c.kind == kind]) for kind, told in _KINDS.items()]
    return _part("claims", page, [g for g in groups if g[2]], [t for t in tally if t[2]], common)


def uploaded(found: Sequence[Upload]) -> str:
    return _part("uploaded", found) if found else ""


def heading(text: str) -> str:
    return f'<div class="sac"><h2>{html.escape(shown(text))}</h2></div>'


def note(text: str) -> str:
    return f'<div class="sac"><p class="note">{html.escape(shown(text))}</p></div>'


def wrong(sentence: str) -> str:
    return f'<div class="sac"><p class="wrong">{html.escape(shown(sentence))}</p></div>'


def job(found: Job, ahead: int) -> str:
    """Progress or outcome of a job."""
    if found.state == "done" and found.what == "prediction":
        items = [_shown(found, number) for number, artifact in enumerate(found.made) if artifact.kind != "folder"]
        return _part("results", found, sorted(items, key=lambda item: item["order"]))
    return _part("job", found, ahead, list(found.progress.pieces.values()))


_ORDER = ("image", "video", "html", "table", "text", "json", "cloud")
"""Order of the results: the most important kind first."""


def _shown(found: Job, number: int) -> dict[str, Any]:
    artifact = found.made[number]
    item: dict[str, Any] = {
        "kind": artifact.kind,
        "caption": artifact.caption,
        "name": artifact.path.name,
        "url": f"/_/result/{found.token}/{number}",
        "moving": artifact.path.suffix.lower() in (".gif", ".webp"),
        "twin": _has_twin(found, number),
        "order": _ORDER.index(artifact.kind) if artifact.kind in _ORDER else len(_ORDER),
    }
    if artifact.kind in ("table", "text", "json") and found.folder is not None:
        item |= _read(artifact, found.folder)
    return item


def _has_twin(found: Job, number: int) -> bool:
    """Whether the same drawing also exists as a raster image, which is shown instead."""
    path = found.made[number].path
    return path.suffix == ".svg" and any(a.path == path.with_suffix(".png") for a in found.made)


def _read(artifact: Artifact, folder: Path) -> dict[str, Any]:
    try:
        with open_inside(artifact.path, folder) as file:
            text = file.read(4 * LONGEST_TEXT).decode("utf-8", "replace")[:LONGEST_TEXT]
    except (VergenceError, OSError):
        return {}
    if "\0" in text:  # binary data: only linked
        return {}
    suffix = artifact.path.suffix.lower()
    with suppress(VergenceError):  # shown as text
        if suffix in (".csv", ".tsv"):
            rows = parse_rows(text, artifact.path, "\t" if suffix == ".tsv" else ",")
            return {"rows": [row[:MOST_COLUMNS] for row in rows[:MOST_ROWS]]}
        if suffix == ".json" and len(text) < LONGEST_TEXT:
            return _as_rows(parse_json(text, artifact.path)) or {"text": text}
    return {"text": text}


def _as_rows(found: Any) -> dict[str, Any]:
    """Rows of a table from a flat JSON object."""
    if isinstance(found, dict) and found and all(isinstance(v, str | int | float | bool) for v in found.values()):
        pairs = [[str(k), f"{v:.4g}" if isinstance(v, float) else str(v)] for k, v in found.items()]
        return {"rows": [["", ""], *pairs]}
    return {}


def download_name(path: Path) -> str:
    """A file name that is safe in a header."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in path.name)
