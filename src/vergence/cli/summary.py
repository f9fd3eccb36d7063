"""A system in ten lines, from what it declares and what is stored: without PyTorch."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any

from vergence import catalogue
from vergence.contract.inputs import SEVERAL, kinds
from vergence.contract.settings import Settings
from vergence.contract.training import phases_of
from vergence.core.progress import about_minutes
from vergence.studies.ledger import tally


@dataclass(frozen=True)
class Counts:
    """Claims by verdict."""

    hold: int = 0
    fail: int = 0
    open: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.hold + other.hold, self.fail + other.fail, self.open + other.open)

    def __str__(self) -> str:
        return f"{self.hold} hold, {self.fail} do not, {self.open} open"


def claim_counts(name: str, kind: str = "") -> Counts:
    """The stored verdicts on a system's claims, of one kind or of all; checks of the implementation are no claims."""
    counts = Counts()
    for each, verdicts in tally(name).items():
        if each == kind or (not kind and each != "check"):
            hold, fail = verdicts["holds"], verdicts["does not hold"]
            counts += Counts(hold, fail, verdicts.total() - hold - fail)
    return counts


def summary(name: str, width: int = 80) -> list[str]:
    """What it is, variants, presets with their sizes, metrics, inputs, weights and claims."""
    page, settings = catalogue.about(name), catalogue.settings(name)
    rows = {
        "does": [page.does, *(task for task in page.tasks if page.brief)],
        "variants": [*settings.variants],
        "presets": [*_presets(settings)],
        "metrics": [f"{m.label} ({m.unit})" if m.unit else m.label for m in settings.metrics.values()],
        "inputs": [*_inputs(settings)] or ["none: it does not predict"],
        "weights": [*_weights(name, settings)] or [_train_first(name, settings)],
        "claims": [_claims(name) or "none measured yet"],
        "try": [_command(name, settings)],
        "more": [f"vergence show {name} --full"],
    }
    first = textwrap.wrap(f"{name}: {page.title} ({page.venue})", width, break_on_hyphens=False)
    return [*first, *(f"{label:<9} {_as_many(items, width - 10)}" for label, items in rows.items())]


def _command(name: str, settings: Settings[Any]) -> str:
    """A command to try: prediction if it works at once, else the comparison."""
    if settings.inputs is None or not (catalogue.starter(name) or _needs_none(settings)):
        return f"vergence run {name}"
    required = [f.name.upper() for f in fields(settings.inputs) if _required(f)]
    return " ".join(["vergence predict", name, *required])


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _needs_none(settings: Settings[Any]) -> bool:
    """Whether there is nothing to train."""
    return not any(phases_of(preset) for preset in settings.presets.values())


def _as_many(items: Sequence[str], width: int) -> str:
    """As many items as fit on a line, and the number of the others."""
    for count in range(len(items), 0, -1):
        rest = f" and {len(items) - count} more" if count < len(items) else ""
        line = ", ".join(items[:count]) + rest
        if len(line) <= width:
            return line
    return items[0] if len(items) == 1 else f"{items[0]} and {len(items) - 1} more"


def _presets(settings: Settings[Any]) -> Iterator[str]:
    first = sorted(settings.presets, key=lambda preset: preset not in ("tiny", "paper"))  # the two that all have
    for preset in first:
        known = settings.published.get(preset)
        notes = [f"{known.parameters:,} parameters"] if known else []
        if preset == "tiny" and settings.minutes:
            notes.append(about_minutes(settings.minutes))
        yield f"{preset} ({', '.join(notes)})" if notes else preset


def _inputs(settings: Settings[Any]) -> Iterator[str]:
    if settings.inputs is None:
        return
    named = kinds(settings.inputs)
    for field in fields(settings.inputs):
        kind = named[field.name]
        text = field.name if field.name == kind.value or kind in SEVERAL else f"{field.name} ({kind.value})"
        yield text if _required(field) else f"[{text}]"


def _weights(name: str, settings: Settings[Any]) -> Iterator[str]:
    for key, path in catalogue.starters(name).items():
        yield f"{key}, {path.stat().st_size / 1000:,.0f} kB: {settings.starters[key].note}"


def _train_first(name: str, settings: Settings[Any]) -> str:
    return "none needed" if _needs_none(settings) else f"none yet: vergence train {name}"


def _claims(name: str) -> str:
    kinds = [kind for kind in ("empirical", "cost", "exact", "check") if kind in tally(name)]
    return "; ".join(f"{kind} {claim_counts(name, kind)}".replace(", 0 do not, 0 open", "") for kind in kinds)
