"""Claims: falsifiable statements of a paper, and how they are judged; and checks of the implementation.

*exact* claims are statements of the paper that a computation decides: one number against a threshold. *empirical*
claims compare trained systems over paired seeds. *cost* claims are ratios of time or memory over several rounds. Each
has a verdict, and any of them may be false. A *check* is no claim: it is an identity, a count or an invariance that
this implementation must satisfy, and the contract tests demand that it holds. Several values are judged by a rule fixed
beforehand: the 90 % confidence interval of their mean against the threshold.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from vergence.core.errors import VergenceError

if TYPE_CHECKING:
    from torch import nn

Kind = Literal["check", "exact", "empirical", "cost"]
Verdict = Literal["holds", "does not hold", "not resolved at this scale", "cannot be judged here"]
Sense = Literal["at most", "at least", "below", "above"]
KINDS: tuple[Kind, ...] = ("check", "exact", "empirical", "cost")
UNTRAINED: tuple[Kind, ...] = ("check", "exact")
"""Kinds that need neither training nor timing."""
CONFIDENCE = 0.90
_SENSES = {"at most": operator.le, "at least": operator.ge, "below": operator.lt, "above": operator.gt}


class CannotJudge(VergenceError):
    """A claim needs something that is not available here; the message says what."""


@dataclass(frozen=True)
class Needs:
    """A trained run that a claim needs. It is trained once and shared by all claims."""

    variant: str
    seed: int = 0
    preset: str = "tiny"
    changes: tuple[tuple[str, Any], ...] = ()
    """Config changes by dotted name, for comparisons without a variant of their own."""


class Evidence(Protocol):
    """What a claim may use: the runs it needs, and the system's benchmarks."""

    def metrics(self, need: Needs) -> Mapping[str, float]:
        """The metrics of the run."""

    def model(self, need: Needs) -> nn.Module:
        """The trained model, in evaluation mode."""

    def times(self, contest: str) -> Mapping[str, Sequence[float]]:
        """Speed-up over each rival in the contest with this id: one ratio per round."""

    def memory(self, contest: str) -> Mapping[str, float]:
        """Peak memory of each rival relative to ours, in the contest with this id."""

    def parameters(self, preset: str, variant: str | None = None) -> int:
        """The number of parameters of a preset of published size."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper (or, of kind ``check``, one about our code), and the function that measures it."""

    id: str
    statement: str
    """In plain words."""
    source: str
    """Where the paper says it: "Table 1", "Eq. 23"."""
    kind: Kind
    measure: Callable[[Evidence], float | Sequence[float]]
    threshold: float
    sense: Sense = "at most"
    """``below`` and ``above`` are strict: a tie does not hold."""
    unit: str = ""
    paper: str = ""
    """The paper's own figure."""
    needs: tuple[Needs, ...] = ()

    def meets(self, value: float) -> bool:
        """Whether a single value lies on the claimed side of the threshold."""
        return bool(_SENSES[self.sense](value, self.threshold))

    @property
    def expected(self) -> str:
        """The threshold in words."""
        return f"{self.sense} {self.threshold:g} {self.unit}".strip()


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, with the measured values."""

    verdict: Verdict
    measured: float | None = None
    """The value, or the mean of several."""
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = field(default=())
    reason: str = ""


def judge(claim: Claim, evidence: Evidence) -> Judgement:
    """Measure a claim and compare the result with its threshold."""
    try:
        result = claim.measure(evidence)
    except CannotJudge as error:
        return Judgement("cannot be judged here", reason=str(error))
    values = tuple(map(float, result)) if isinstance(result, Sequence) else (float(result),)
    if not values:
        return Judgement("cannot be judged here", reason="nothing was measured")
    mean = sum(values) / len(values)
    # A single training decides nothing, even if the claim returns a plain number.
    spread = isinstance(result, Sequence) or claim.kind == "empirical"
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
    """The 90 % confidence interval of the mean (Student's t); infinite for a single value."""
    from scipy import stats

    count = len(values)
    if count < 2:
        return -math.inf, math.inf
    mean = sum(values) / count
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * spread / math.sqrt(count)
    return mean - reach, mean + reach


Run = str | tuple[str, str] | Needs
"""A run that a comparison names: a variant of ``tiny``, a variant and a preset, or a whole :class:`Needs`."""
Seeds = int | Sequence[int]
"""The number of seeds, from 0 on; or the seeds themselves."""


def compared(
    id: str,
    statement: str,
    source: str,
    runs: Mapping[str, Run],
    measure: Callable[[Mapping[str, Mapping[str, float]]], float],
    *,
    threshold: float = 0.0,
    sense: Sense = "above",
    seeds: Seeds = 5,
    unit: str = "",
    paper: str = "",
) -> Claim:
    """An empirical claim about metrics of several runs with the same seed: ``measure({name: metrics})`` for each seed.

    ::

        compared("refined", "Refinement helps.", "Table 1", {"run": "flot"},
                 lambda of: of["run"]["epe_before"] - of["run"]["epe"], seeds=3, unit="m")
    """
    by_seed = _by_seed(runs, seeds)

    def judge(evidence: Evidence) -> Sequence[float]:
        return [measure({name: evidence.metrics(need) for name, need in needs.items()}) for needs in by_seed]

    return Claim(id, statement, source, "empirical", judge, threshold, sense, unit, paper, _all(by_seed))


def compared_models(
    id: str,
    statement: str,
    source: str,
    runs: Mapping[str, Run],
    measure: Callable[[Mapping[str, Any]], float],
    *,
    threshold: float = 0.0,
    sense: Sense = "above",
    seeds: Seeds = 5,
    unit: str = "",
    paper: str = "",
) -> Claim:
    """Like :func:`compared`, for claims about the trained models themselves: ``measure({name: model})``."""
    by_seed = _by_seed(runs, seeds)

    def judge(evidence: Evidence) -> Sequence[float]:
        return [measure({name: evidence.model(need) for name, need in needs.items()}) for needs in by_seed]

    return Claim(id, statement, source, "empirical", judge, threshold, sense, unit, paper, _all(by_seed))


def above(
    id: str,
    statement: str,
    source: str,
    *,
    better: str,
    worse: str,
    metric: str,
    margin: float = 0.0,
    seeds: Seeds = 5,
    preset: str = "tiny",
    unit: str = "",
    paper: str = "",
) -> Claim:
    """An empirical claim that one variant beats another: paired seeds, the difference above ``margin``."""
    runs = {"better": (better, preset), "worse": (worse, preset)}

    def lead(of: Mapping[str, Mapping[str, float]]) -> float:
        return of["better"][metric] - of["worse"][metric]

    return compared(id, statement, source, runs, lead, threshold=margin, seeds=seeds, unit=unit, paper=paper)


def faster(
    id: str,
    statement: str,
    source: str,
    contest: str,
    rival: str,
    *,
    threshold: float,
    sense: Sense = "at least",
    paper: str = "",
) -> Claim:
    """A cost claim: the speed-up over ``rival`` in the contest with this id."""
    return Claim(id, statement, source, "cost", lambda e: e.times(contest)[rival], threshold, sense, "times", paper)


def lighter(
    id: str,
    statement: str,
    source: str,
    contest: str,
    rival: str,
    *,
    threshold: float,
    sense: Sense = "at least",
    paper: str = "",
) -> Claim:
    """A cost claim: the peak memory of ``rival`` relative to ours, in the contest with this id."""
    return Claim(id, statement, source, "cost", lambda e: e.memory(contest)[rival], threshold, sense, "times", paper)


def parameter_counts(id: str, statement: str, source: str, counts: Mapping[str, int], paper: str = "") -> Claim:
    """A check: parameter counts of presets of published size. A key is a preset or ``preset/variant``."""

    def off(evidence: Evidence) -> float:
        counted = {key: evidence.parameters(*key.split("/", 1)) for key in counts}
        return float(max(abs(counted[key] - count) for key, count in counts.items()))

    return Claim(id, statement, source, "check", off, 0, unit="parameters off", paper=paper)


def _by_seed(runs: Mapping[str, Run], seeds: Seeds) -> list[dict[str, Needs]]:
    each = range(seeds) if isinstance(seeds, int) else seeds
    return [{name: _need(run, seed) for name, run in runs.items()} for seed in each]


def _need(run: Run, seed: int) -> Needs:
    if isinstance(run, Needs):
        return replace(run, seed=seed)
    variant, preset = (run, "tiny") if isinstance(run, str) else run
    return Needs(variant, seed, preset)


def _all(by_seed: Sequence[Mapping[str, Needs]]) -> tuple[Needs, ...]:
    return tuple(dict.fromkeys(need for needs in by_seed for need in needs.values()))
