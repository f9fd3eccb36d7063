"""Claims in a report: how many hold, their verdicts by kind, and where each verdict comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vergence.runs.versions import Environment
from vergence.studies.ledger import Entry

STYLES = {"holds": "good", "does not hold": "bad", "not resolved at this scale": "open"}
KINDS = {
    "empirical": "Comparisons of trained variants",
    "cost": "Time and memory",
    "exact": "Exact statements",
    "check": "Checks of the implementation",
}
"""Titles of the kinds, in the order of the page."""
FOLDED = ("exact", "check")
"""Kinds whose claims are folded, as long as all of them hold."""


@dataclass(frozen=True)
class Verdict:
    """One claim as shown."""

    statement: str
    verdict: str
    style: str
    origin: str
    """Where the verdict comes from: this run, or stored results, with their seeds."""
    details: str


@dataclass(frozen=True)
class Kind:
    """Claims of one kind."""

    title: str
    verdicts: tuple[Verdict, ...]
    folded: bool

    @property
    def counts(self) -> tuple[int, int, int]:
        """The number that hold, do not hold, and are open (not resolved, not judged or not measured)."""
        styles = [verdict.style for verdict in self.verdicts]
        good, bad = styles.count("good"), styles.count("bad")
        return good, bad, len(styles) - good - bad


def kinds(entries: Sequence[Entry]) -> list[Kind]:
    """The claims by kind: comparisons first, checks last."""
    groups = []
    for kind, title in KINDS.items():
        verdicts = tuple(_verdict(entry) for entry in entries if entry.claim.kind == kind)
        if verdicts:
            folded = kind in FOLDED and all(verdict.style == "good" for verdict in verdicts)
            groups.append(Kind(title, verdicts, folded))
    return groups


def _verdict(entry: Entry) -> Verdict:
    claim, judgement = entry.claim, entry.judgement
    details = [claim.source, f"expected {claim.sense} {claim.threshold:g} {claim.unit}".strip()]
    if claim.paper:
        details[-1] += f" (paper: {claim.paper})"
    if judgement is None:
        origin = f"measure it with: vergence claims {entry.system} --only {claim.id}"
        return Verdict(claim.statement, "not measured yet", "none", origin, " · ".join(details))
    if judgement.measured is not None:
        details.append(f"measured {interval(entry)}")
    if judgement.reason:
        details.append(judgement.reason)
    style = STYLES.get(judgement.verdict, "none")
    return Verdict(claim.statement, judgement.verdict, style, _origin(entry), " · ".join(details))


def interval(entry: Entry) -> str:
    """The measured value with its interval, and the number of seeds or rounds it was measured over."""
    judgement, claim = entry.judgement, entry.claim
    if judgement is None or judgement.measured is None:
        return "–"
    text, number = f"{judgement.measured:.3g} {claim.unit}".strip(), len(judgement.values)
    if number < 2:
        return text
    over = "rounds" if claim.kind == "cost" else "seeds" if number == len(entry.environment.seeds) else "values"
    return f"{text}, 90 % interval {judgement.low:.3g} to {judgement.high:.3g} over {number} {over}"


def _origin(entry: Entry) -> str:
    seeds = entry.environment.seeds
    if entry.fresh:
        return "this run" + (f", {seeds_text(seeds)}" if seeds else "")
    return " · ".join(filter(None, (stored_text(entry.environment), entry.old)))


def stored_text(environment: Environment) -> str:
    """Date, commit and seeds of stored results."""
    parts = [f"stored results of {environment.date[:10]}" if environment.date else "stored results"]
    if environment.commit:
        plain = environment.commit.removesuffix("+")
        parts.append(f"commit {plain}" + (" with changes" if plain != environment.commit else ""))
    if environment.seeds:
        parts.append(seeds_text(environment.seeds))
    return ", ".join(parts)


def seeds_text(seeds: Sequence[int]) -> str:
    """``seed 3``, ``2 seeds (0, 2)``, or ``5 seeds (0 to 4)``."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    return f"{len(seeds)} seeds ({', '.join(map(str, seeds))})"
