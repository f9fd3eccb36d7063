"""Whether a run agrees with stored results over more seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from vergence.contract.claims import CannotJudge, Needs
from vergence.runs.folder import Run
from vergence.studies import results
from vergence.studies.ledger import Entry
from vergence.studies.results import StoredRun
from vergence.studies.study import order_for
from vergence.studies.subject import Subject


@dataclass(frozen=True)
class Disagreement:
    """A stored verdict over more seeds, and values of the same claim on the seeds of a run that suggest another one."""

    entry: Entry
    seeds: tuple[int, ...]
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


def disagreements(subject: Subject) -> list[Disagreement]:
    """Empirical claims whose stored verdict over more seeds is not what the seeds of this run alone suggest."""
    by_seed = _by_seed(subject)
    found = []
    for entry in subject.entries:
        judgement = entry.judgement
        if entry.fresh or entry.claim.kind != "empirical" or judgement is None or judgement.measured is None:
            continue
        measured = _measured(entry, subject.preset, by_seed)
        if not 0 < len(measured) < len(judgement.values):
            continue
        one = Disagreement(entry, tuple(measured), tuple(measured.values()))
        if entry.claim.meets(one.mean) != (judgement.verdict == "holds"):
            found.append(one)
    return found


def more_seeds(subject: Subject) -> StoredRun | None:
    """The stored table of the same preset and data, if it has more seeds than this run."""
    stored = results.run(subject.system.about.name)
    runs = [run for runs in _by_seed(subject).values() for run in runs.values()]
    if stored is None or stored.preset != subject.preset or len(runs) != sum(map(len, subject.runs.values())):
        return None
    own = max(len(runs) for runs in subject.runs.values())
    return stored if own < max(map(_count, stored.rows.values()), default=0) else None


def _count(row: results.Row) -> int:
    return max(map(len, row.metrics.values()), default=0)


def _by_seed(subject: Subject) -> dict[int, dict[str, Run]]:
    """The runs by seed and variant, without those whose config is not exactly the preset's."""
    by_seed: dict[int, dict[str, Run]] = {}
    for variant, runs in subject.runs.items():
        for run in runs if variant in subject.system.variants else ():
            seed = run.order.config.seed
            usual = order_for(subject.system.about.name, Needs(variant, seed, subject.preset), run.order.runtime)
            if run.order.key == usual.key:
                by_seed.setdefault(seed, {})[variant] = run
    return by_seed


def _measured(entry: Entry, preset: str, by_seed: Mapping[int, Mapping[str, Run]]) -> dict[int, float]:
    """The claim's value on each of these seeds; empty if it needs other runs, or more than metrics."""
    needs = entry.claim.needs
    if not needs or any(need.preset != preset or need.changes for need in needs):
        return {}
    measured = {}
    for seed, runs in sorted(by_seed.items()):
        if all(need.variant in runs for need in needs):
            try:
                value = entry.claim.measure(_OneSeed(runs))
            except CannotJudge:
                return {}
            measured[seed] = float(value[0] if isinstance(value, Sequence) else value)
    return measured


@dataclass(frozen=True)
class _OneSeed:
    """Evidence from runs of one seed by variant, whichever seed is asked for."""

    runs: Mapping[str, Run]

    def metrics(self, need: Needs) -> dict[str, float]:
        return self.runs[need.variant].metrics

    def model(self, need: Needs) -> NoReturn:
        raise CannotJudge("only metrics are compared")

    def times(self, contest: str) -> NoReturn:
        raise CannotJudge("only metrics are compared")

    def memory(self, contest: str) -> NoReturn:
        raise CannotJudge("only metrics are compared")

    def parameters(self, preset: str, variant: str | None = None) -> NoReturn:
        raise CannotJudge("only metrics are compared")
