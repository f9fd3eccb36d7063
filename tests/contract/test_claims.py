"""How claims are judged."""

import math
import random

import pytest
from scipy import stats

from vergence.contract.claims import (
    KINDS,
    UNTRAINED,
    CannotJudge,
    Claim,
    Needs,
    above,
    interval,
    judge,
    parameter_counts,
)


def claim(found, threshold=1.0, sense="at most", kind="exact"):
    def measure(evidence):
        if isinstance(found, Exception):
            raise found
        return found

    return Claim("id", "A statement.", "Eq. 1", kind, measure, threshold, sense)


@pytest.mark.parametrize(
    ("found", "sense", "verdict"),
    [
        (1.0, "at most", "holds"),
        (1.1, "at most", "does not hold"),
        (1.0, "at least", "holds"),
        (0.9, "at least", "does not hold"),
        (math.nan, "at most", "does not hold"),
        (math.nan, "at least", "does not hold"),
        (math.inf, "at most", "does not hold"),
        ([2.0, 2.1, 1.9], "at least", "holds"),
        ([0.0, 0.1, -0.1], "at least", "does not hold"),
        ([0.5, 1.5, 1.0], "at least", "not resolved at this scale"),
        ([5.0], "at least", "not resolved at this scale"),  # one seed decides nothing
        ([1.0, 1.0], "at least", "holds"),
        ([1.0, 1.0], "above", "does not hold"),  # a tie is no victory
        (1.0, "above", "does not hold"),
        (0.9, "below", "holds"),
        ([math.inf, 1.0], "at least", "does not hold"),
        ([], "at least", "cannot be judged here"),
        (CannotJudge("needs ImageNet"), "at most", "cannot be judged here"),
    ],
)
def test_verdicts(found, sense, verdict):
    judgement = judge(claim(found, sense=sense), None)
    assert judgement.verdict == verdict
    if isinstance(found, CannotJudge):
        assert judgement.reason == "needs ImageNet"


def test_a_check_is_judged_as_any_single_value():
    assert judge(claim(1.0, kind="check"), None).verdict == "holds"
    assert judge(claim(1.1, kind="check"), None).verdict == "does not hold"
    assert {"check", "exact"} == set(UNTRAINED) < set(KINDS)


def test_parameter_counts_are_equal_not_at_most():
    class Counter:
        def parameters(self, preset, variant=None):
            return 9 if variant == "small" else 10

    for counts, verdict in (
        ({"paper": 10, "paper/small": 9}, "holds"),
        ({"paper": 11}, "does not hold"),
        ({"paper": 9}, "does not hold"),
    ):
        made = parameter_counts("id", "S.", "Table 1", counts)
        assert made.kind == "check"
        assert judge(made, Counter()).verdict == verdict


def test_one_training_decides_nothing_however_it_is_returned():
    assert judge(claim(5.0, sense="at least", kind="empirical"), None).verdict == "not resolved at this scale"


def test_the_interval_is_students():
    values = [random.Random(i).gauss(3, 2) for i in range(7)]
    expected = stats.t.interval(0.9, 6, loc=sum(values) / 7, scale=stats.sem(values))
    assert interval(values) == pytest.approx(expected)


def test_the_interval_covers_the_truth_nine_times_in_ten():
    source = random.Random(0)
    hits = 0
    for _ in range(2000):
        low, high = interval([source.gauss(1, 3) for _ in range(5)])
        hits += low <= 1 <= high
    assert hits / 2000 == pytest.approx(0.9, abs=0.025)


def test_above_pairs_seeds():
    class Table:
        def metrics(self, need):
            return {"top1": {"a": 10.0, "b": 8.0}[need.variant] + need.seed}

    made = above("id", "A beats B.", "Table 1", better="a", worse="b", metric="top1", margin=1.5, seeds=3)
    assert set(made.needs) == {Needs(v, s) for v in "ab" for s in range(3)}
    judgement = judge(made, Table())
    assert judgement.values == (2.0, 2.0, 2.0)
    assert judgement.verdict == "holds"
