"""Statements of a paper that a function can find false, and how they are judged.

*exact* claims are identities, invariances and counts: one number against a threshold. *cost* claims are ratios of time
or memory over several rounds. *empirical* claims compare trained systems over paired seeds. Whatever comes as several
values is judged by a rule fixed beforehand: the 90 % interval of their mean against the threshold.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vergence.core.errors import VergenceError

if TYPE_CHECKING:
    from torch import nn

Kind = Literal["exact", "cost", "empirical"]
Verdict = Literal["holds", "does not hold", "not resolved at this scale", "cannot be judged here"]
KINDS: tuple[Kind, ...] = ("exact", "cost", "empirical")
CONFIDENCE = 0.90
_SENSES = {"at most": operator.le, "at least": operator.ge, "below": operator.lt, "above": operator.gt}


class CannotJudge(VergenceError):
    """A claim needs something that is not here; the message says what."""


@dataclass(frozen=True)
class Needs:
    """A trained run that a claim needs. It is trained once and shared."""

    variant: str
    seed: int = 0
    preset: str = "tiny"
    changes: tuple[tuple[str, Any], ...] = ()
    """By dotted name, for comparisons that no variant is named for."""


class Evidence(Protocol):
    """What a claim may look at: the runs it named, and the system's own bench."""

    def metrics(self, need: Needs) -> Mapping[str, float]:
        """What the run's evaluation gave."""

    def model(self, need: Needs) -> nn.Module:
        """The trained model, in evaluation mode."""

    def times(self, contest: str) -> Mapping[str, Sequence[float]]:
        """By rival, how many times as fast ours is in a contest of the system's bench, a ratio a round."""

    def memory(self, contest: str) -> Mapping[str, float]:
        """By rival, how many times as much memory it holds as ours in a contest of the system's bench."""


@dataclass(frozen=True)
class Claim:
    """A statement, where it stands, and the function that finds out."""

    id: str
    statement: str
    """In plain words."""
    source: str
    """Where the paper says it: "Table 1", "Eq. 23"."""
    kind: Kind
    measure: Callable[[Evidence], float | Sequence[float]]
    threshold: float
    sense: Literal["at most", "at least", "below", "above"] = "at most"
    """``below`` and ``above`` are strict: a tie does not hold."""
    unit: str = ""
    paper: str = ""
    """The paper's own figure."""
    needs: tuple[Needs, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What came out."""

    verdict: Verdict
    measured: float | None = None
    """The value, or the mean of several."""
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = field(default=())
    reason: str = ""


def judge(claim: Claim, evidence: Evidence) -> Judgement:
    """Measure, and hold the result against the threshold."""
    try:
        found = claim.measure(evidence)
    except CannotJudge as error:
        return Judgement("cannot be judged here", reason=str(error))
    values = tuple(map(float, found)) if isinstance(found, Sequence) else (float(found),)
    if not values:
        return Judgement("cannot be judged here", reason="nothing was measured")
    mean = sum(values) / len(values)
    # One training decides nothing, however its result is returned.
    spread = isinstance(found, Sequence) or claim.kind == "empirical"
    low, high = interval(values) if spread else (mean, mean)
    return Judgement(_verdict(claim, low, high), mean, low, high, values)


def _verdict(claim: Claim, low: float, high: float) -> Verdict:
    # A value that is not a number compares false with everything, so it can never hold.
    beyond = _SENSES[claim.sense]
    safe, hopeful = (high, low) if claim.sense in ("at most", "below") else (low, high)
    if beyond(safe, claim.threshold):
        return "holds"
    return "not resolved at this scale" if beyond(hopeful, claim.threshold) else "does not hold"


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 90 % interval of the mean (Student's t); endless for a single value."""
    from scipy import stats

    count = len(values)
    if count < 2:
        return -math.inf, math.inf
    mean = sum(values) / count
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread / math.sqrt(count)
    return mean - reach, mean + reach


def above(
    id: str,
    statement: str,
    source: str,
    *,
    better: str,
    worse: str,
    metric: str,
    margin: float = 0.0,
    seeds: int = 5,
    preset: str = "tiny",
    unit: str = "",
    paper: str = "",
) -> Claim:
    """An empirical claim that one variant beats another: paired seeds, the difference above ``margin``."""
    pairs = [(Needs(better, s, preset), Needs(worse, s, preset)) for s in range(seeds)]

    def measure(evidence: Evidence) -> Sequence[float]:
        return [evidence.metrics(b)[metric] - evidence.metrics(w)[metric] for b, w in pairs]

    needs = tuple(need for pair in pairs for need in pair)
    return Claim(id, statement, source, "empirical", measure, margin, "above", unit, paper, needs)
