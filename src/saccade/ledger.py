"""The ledger: claims judged, stored with what they were measured with, and shown with their age."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from saccade import catalogue
from saccade.claims import Claim, Judgement, judge
from saccade.config import from_json
from saccade.errors import SaccadeError
from saccade.files import read_json, write_json
from saccade.progress import Progress
from saccade.run import ROOT
from saccade.study import Plan, Shelf, obtain, order_for
from saccade.versions import environment, fingerprint, shared_fingerprint

Age = Literal["current", "older shared code", "stale"]
AGES: dict[Age, str] = {
    "current": "",
    "older shared code": "measured with older shared code",
    "stale": "stale: measured with another version of this system",
}
FILE = "claims.json"


@dataclass(frozen=True)
class Entry:
    """A claim and the latest that is known of it."""

    system: str
    claim: Claim
    judgement: Judgement | None = None
    age: Age = "current"
    environment: dict[str, Any] | None = None
    command: str = ""

    def to_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "system": self.system,
            "id": claim.id,
            "statement": claim.statement,
            "source": claim.source,
            "kind": claim.kind,
            "expected": f"{claim.sense} {claim.threshold:g} {claim.unit}".strip(),
            "paper": claim.paper,
            "age": self.age if self.judgement else None,
            "judgement": _finite(asdict(self.judgement)) if self.judgement else None,
            "command": self.command,
            "environment": self.environment,
        }


def measure(name: str, claims: Sequence[Claim], plan: Plan, progress: Progress, command: str) -> list[Entry]:
    """Judge claims of one system. What they need is trained first, together; costs are measured last, alone."""
    needs = list(dict.fromkeys(need for claim in claims for need in claim.needs))
    runs = obtain([order_for(name, need, plan.runtime) for need in needs], plan, progress) if needs else []
    shelf = Shelf(catalogue.load(name), dict(zip(needs, runs, strict=True)))
    made = environment(name)
    entries = []
    for claim in progress.track(sorted(claims, key=lambda c: c.kind == "cost"), f"{name} claims"):
        with _one_thread():
            judgement = judge(claim, shelf)
        seeds = sorted({need.seed for need in claim.needs})
        entries.append(Entry(name, claim, judgement, "current", made | {"seeds": seeds, "threads": 1}, command))
    by_id = {entry.claim.id: entry for entry in entries}
    return [by_id[claim.id] for claim in claims]


def store(entries: Sequence[Entry], folder: Path) -> Path:
    """Add to the results of a folder; what is there of other claims stays."""
    path = folder / FILE
    kept = {item["id"]: item for item in _stored(path)} | {e.claim.id: e.to_json() for e in entries}
    write_json(path, list(kept.values()))
    return path


def known(name: str, root: Path = ROOT) -> list[Entry]:
    """Every claim of a system with the latest result there is: the user's own, else the one that came with it."""
    found: dict[str, dict[str, Any]] = {}
    for folder in (catalogue.folder(name) / "results", root / name):
        for item in _stored(folder / FILE):
            date = (item.get("environment") or {}).get("date", "")
            if date >= (found.get(item["id"], {}).get("environment") or {}).get("date", ""):
                found[item["id"]] = item
    return [_entry(name, claim, found.get(claim.id)) for claim in catalogue.load(name).claims]


def _entry(name: str, claim: Claim, item: dict[str, Any] | None) -> Entry:
    if item is None or not item.get("judgement"):
        return Entry(name, claim)
    made = item.get("environment") or {}
    age: Age = "current"
    if made.get("code") != fingerprint(name):
        age = "stale"
    elif made.get("shared") != shared_fingerprint(name):
        age = "older shared code"
    judgement = from_json(Judgement, _infinite(item["judgement"]), f"the result of {claim.id}")
    return Entry(name, claim, judgement, age, made, str(item.get("command", "")))


def _stored(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    items = read_json(path)
    if not isinstance(items, list) or not all(isinstance(i, dict) and "id" in i for i in items):
        raise SaccadeError(f"{path} is not a list of results")
    return items


def _finite(judgement: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: the ends of an endless interval are written as text."""
    out: dict[str, Any] = json.loads(json.dumps(judgement), parse_constant=str)
    return out


def _infinite(judgement: dict[str, Any]) -> dict[str, Any]:
    return {k: float(v) if k in ("measured", "low", "high") and isinstance(v, str) else v for k, v in judgement.items()}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Measure with one thread, whatever was set before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
