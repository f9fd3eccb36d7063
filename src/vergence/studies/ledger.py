"""The ledger of claims: judgements, stored with the environment they were measured in and checked for being current."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vergence import catalogue
from vergence.contract.claims import UNTRAINED, Claim, Judgement, Verdict, judge
from vergence.contract.config import from_json, to_json
from vergence.core.errors import VergenceError
from vergence.core.files import lock, make_folder, write_json
from vergence.core.progress import Progress
from vergence.reading.tables import read_json
from vergence.runs.folder import ROOT, Run
from vergence.runs.versions import Environment, environment
from vergence.studies.study import RunEvidence, RunPlan, finished_runs, order_for

if TYPE_CHECKING:
    from vergence.studies.traces import Replay

Age = Literal["current", "unchecked", "stale"]
AGES: dict[Age, str] = {
    "current": "",
    "unchecked": "measured with other code, and not replayed since",
    "stale": "stale: the code computes something else now",
}
FILE = "claims.json"


@dataclass(frozen=True)
class Entry:
    """A claim with its latest judgement, if there is one."""

    system: str
    claim: Claim
    judgement: Judgement | None = None
    age: Age = "current"
    why: str = ""
    """Explanation of ``age``: when it was replayed, or which trace differs."""
    environment: Environment = field(default_factory=Environment)
    command: str = ""
    traces: Mapping[str, str] = field(default_factory=dict)
    """For an empirical result: digests of the traces of its variants, by trace name."""
    fresh: bool = False
    """Judged just now from runs at hand, rather than read from stored results."""

    @property
    def old(self) -> str:
        """A note on its age for readers; empty if it is current."""
        return ": ".join(filter(None, (AGES[self.age], self.why))) if self.age != "current" else ""

    def to_json(self) -> dict[str, Any]:
        claim = self.claim
        return {
            "system": self.system,
            "id": claim.id,
            "statement": claim.statement,
            "source": claim.source,
            "kind": claim.kind,
            "expected": claim.expected,
            "paper": claim.paper,
            "age": self.age if self.judgement else None,
            "traces": dict(self.traces),
            "judgement": _written(asdict(self.judgement)) if self.judgement else None,
            "command": self.command,
            "environment": to_json(self.environment) if self.judgement else None,
        }


def measure(name: str, claims: Sequence[Claim], plan: RunPlan, progress: Progress, command: str) -> list[Entry]:
    """Judge claims of one system. All runs they need are trained first; cost claims are measured last."""
    from vergence.engine.bench import fixed_threads

    needs = list(dict.fromkeys(need for claim in claims for need in claim.needs))
    runs = finished_runs([order_for(name, need, plan.runtime) for need in needs], plan, progress) if needs else []
    by_need = dict(zip(needs, runs, strict=True))
    evidence = RunEvidence(catalogue.load(name), by_need)
    entries = {}
    for claim in progress.track(sorted(claims, key=lambda c: c.kind == "cost"), f"{name} claims"):
        with fixed_threads(1):
            judgement = judge(claim, evidence)
        measured_in = _made(name, claim, [by_need[need] for need in claim.needs])
        age = _age(name, measured_in, {})
        entries[claim.id] = Entry(name, claim, judgement, *age, measured_in, command, fresh=True)
    return [entries[claim.id] for claim in claims]


def _made(name: str, claim: Claim, runs: Sequence[Run]) -> Environment:
    """The current environment; if a run was made with older shared code, with that code's fingerprint."""
    made = Environment.read(environment(name), "the environment")
    older = [e.shared for e in (run.environment() for run in runs) if e.shared != made.shared]
    seeds = tuple(sorted({need.seed for need in claim.needs}))
    return replace(made, seeds=seeds, threads=1, shared=older[0] if older else made.shared)


def store(entries: Sequence[Entry], folder: Path) -> Path:
    """Add entries to the results in a folder. Results of other claims there are kept, if they answer the claims as they
    stand now."""
    path = folder / FILE
    make_folder(folder)
    claims = {claim.id: claim for name in {e.system for e in entries} for claim in catalogue.load(name).claims}
    with lock(folder / ".lock", f"{path} is being written by another process; waiting for it", lambda text: None):
        answering = {item.id for item in _items(path) if item.id in claims and _answers(item, claims[item.id])}
        kept = {item["id"]: item for item in _stored(path) if item["id"] in answering}
        write_json(path, list((kept | {e.claim.id: e.to_json() for e in entries}).values()))
    return path


def latest(name: str, root: Path | None = ROOT) -> list[Entry]:
    """Every claim of a system with its latest result: the user's own (below ``root``) or the one shipped with the
    system. A result judged by another threshold, or from other runs, is not one of this claim."""
    folders = [catalogue.folder(name) / "results", *([root / name] if root is not None else [])]
    claims = {claim.id: claim for claim in catalogue.load(name).claims}
    newest: dict[str, _Item] = {}
    for folder in folders:
        for item in _items(folder / FILE):
            if item.id not in claims or not _answers(item, claims[item.id]):
                continue
            if item.id not in newest or item.environment.date >= newest[item.id].environment.date:
                newest[item.id] = item
    return [_entry(name, claim, newest.get(claim.id), folders) for claim in claims.values()]


def _answers(item: _Item, claim: Claim) -> bool:
    """Whether a stored result is one of the claim as it stands now: its threshold (units may be reworded), its seeds,
    and its variants where they were stored."""
    from vergence.studies import traces

    runs = {traces.name_of(need) for need in traces.first_seeds(claim.needs)}
    seeds = tuple(sorted({need.seed for need in claim.needs}))
    same = f"{item.expected} ".startswith(f"{claim.sense} {claim.threshold:g} ")
    return same and item.environment.seeds == seeds and set(item.traces) in (set(), runs)


def tally(name: str, root: Path | None = ROOT) -> dict[str, Counter[str]]:
    """The number of stored results by kind of claim and verdict, read without importing the system."""
    newest: dict[str, tuple[str, str, str]] = {}
    for folder in (catalogue.folder(name) / "results", *([root / name] if root is not None else [])):
        for item in _stored(folder / FILE):
            judged, made = item.get("judgement"), item.get("environment")
            if isinstance(judged, dict) and isinstance(made, dict):
                found = (str(made.get("date", "")), str(item.get("kind")), str(judged.get("verdict")))
                newest[item["id"]] = max(newest.get(item["id"], found), found, key=lambda each: each[0])
    counts: dict[str, Counter[str]] = {}
    for _, kind, verdict in newest.values():
        counts.setdefault(kind, Counter())[verdict] += 1
    return counts


def _entry(name: str, claim: Claim, item: _Item | None, folders: Sequence[Path]) -> Entry:
    if item is None:
        return Entry(name, claim)
    made = item.environment
    return Entry(name, claim, item.judgement, *_age(name, made, item.traces, folders), made, item.command, item.traces)


def _age(name: str, made: Environment, digests: Mapping[str, str], folders: Sequence[Path] = ()) -> tuple[Age, str]:
    from vergence.studies import traces

    return traces.age(name, made, digests, folders)


def replay(
    name: str, plan: RunPlan, place: Path, progress: Progress, command: str
) -> tuple[Replay | None, list[Entry]]:
    """Recompute the traces of a system's stored results, judge its checks and exact claims again, and store both in
    ``place``."""
    from vergence.studies import traces

    results = catalogue.folder(name) / "results"
    outcome = traces.replay(name, results, place, plan.jobs, progress) if (results / traces.FILE).exists() else None
    again = [claim for claim in catalogue.load(name).claims if claim.kind in UNTRAINED and not claim.needs]
    judged = measure(name, again, plan, progress, command)
    if judged:
        store(judged, place)
    return outcome, judged


def with_traces(name: str, entries: Sequence[Entry], jobs: int, progress: Progress) -> list[Entry]:
    """Record the traces of the variants behind these entries; returns the entries with the digests."""
    from vergence.studies import traces

    needs = {e.claim.id: traces.first_seeds(e.claim.needs) for e in entries}
    every = list(dict.fromkeys(need for group in needs.values() for need in group))
    if not every:
        return list(entries)
    digests = traces.keep(name, catalogue.folder(name) / "results", every, jobs, progress)
    named = {id: [traces.name_of(need) for need in group] for id, group in needs.items()}
    return [replace(e, traces={n: digests[n] for n in named[e.claim.id]}) for e in entries]


@dataclass(frozen=True)
class _Item:
    """A stored result."""

    id: str
    judgement: Judgement
    environment: Environment
    traces: dict[str, str]
    expected: str
    command: str


def _stored(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    items = read_json(path)
    if not isinstance(items, list) or not all(isinstance(i, dict) and isinstance(i.get("id"), str) for i in items):
        raise VergenceError(f"{path} is not a list of results with ids")
    return items


def _items(path: Path) -> list[_Item]:
    items = []
    for item in _stored(path):
        at = f"the result {item['id']!r} in {path}"
        if item.get("judgement") is not None:
            judgement = from_json(_Written, item["judgement"], at).read(at)
            measured_in = Environment.read(item.get("environment") or {}, at)
            digests = from_json(dict[str, str], item.get("traces", {}), at)
            texts = (str(item.get(field, "")) for field in ("expected", "command"))
            items.append(_Item(item["id"], judgement, measured_in, digests, *texts))
    return items


@dataclass(frozen=True)
class _Written:
    """A judgement as stored in JSON: infinity and NaN are written as text."""

    verdict: Verdict
    measured: float | str | None = None
    low: float | str | None = None
    high: float | str | None = None
    values: tuple[float | str, ...] = ()
    reason: str = ""

    def read(self, at: str) -> Judgement:
        try:
            measured, low, high = (None if v is None else float(v) for v in (self.measured, self.low, self.high))
            return Judgement(self.verdict, measured, low, high, tuple(map(float, self.values)), self.reason)
        except ValueError:
            raise VergenceError(f"{at} holds text where a number is expected") from None


def _written(judgement: Any) -> Any:
    if isinstance(judgement, float) and not math.isfinite(judgement):
        return str(judgement)
    if isinstance(judgement, dict):
        return {k: _written(v) for k, v in judgement.items()}
    return [_written(v) for v in judgement] if isinstance(judgement, list | tuple) else judgement
