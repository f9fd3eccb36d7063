"""Verdicts of a report: their order, their number, and where each comes from."""

from vergence.contract.claims import Claim, Judgement
from vergence.report.verdicts import interval, kinds, seeds_text
from vergence.runs.versions import Environment
from vergence.studies.ledger import Entry

FIVE = Environment(date="2026-05-04T10:00:00+00:00", commit="abc+", seeds=(0, 1, 2, 3, 4))


def entry(kind, verdict=None, **more):
    claim = Claim("id", "It is so.", "Eq. 1", kind, lambda _: 0.0, 1.0, unit="m")
    values = (1.0,) * (5 if kind == "empirical" else 7 if kind == "cost" else 1)
    judgement = Judgement(verdict, 1.0, 0.5, 1.5, values) if verdict else None
    return Entry("snl", claim, judgement, environment=FIVE if kind == "empirical" else Environment(), **more)


def test_comparisons_come_first_then_cost_and_identities_are_folded_while_they_hold():
    entries = [entry("exact", "holds"), entry("cost", "holds"), entry("empirical", "does not hold")]
    groups = kinds(entries)
    assert [group.folded for group in groups] == [False, False, True]
    assert [group.counts for group in groups] == [(0, 1, 0), (1, 0, 0), (1, 0, 0)]
    assert not kinds([*entries, entry("exact", "does not hold")])[-1].folded


def test_what_is_not_resolved_not_judged_or_not_measured_is_open():
    verdicts = ("holds", "not resolved at this scale", "cannot be judged here", None)
    assert kinds([entry("empirical", verdict) for verdict in verdicts])[0].counts == (1, 0, 3)


def test_a_verdict_says_whether_it_is_of_this_run_or_stored_and_over_which_seeds():
    (group,) = kinds([entry("empirical", "holds", fresh=True), entry("empirical", "holds"), entry("empirical")])
    fresh, stored, missing = (verdict.origin for verdict in group.verdicts)
    assert fresh == "this run, 5 seeds (0 to 4)"
    assert stored == "stored results of 2026-05-04, commit abc with changes, 5 seeds (0 to 4)"
    assert missing == "measure it with: vergence claims snl --only id"
    assert kinds([entry("exact", "holds", fresh=True)])[0].verdicts[0].origin == "this run"


def test_an_interval_names_what_it_was_measured_over():
    assert interval(entry("empirical", "holds")) == "1 m, 90 % interval 0.5 to 1.5 over 5 seeds"
    assert interval(entry("cost", "holds")).endswith("over 7 rounds")
    assert interval(entry("exact", "holds")) == "1 m"


def test_seeds_are_named():
    assert seeds_text([3]) == "seed 3"
    assert seeds_text([0, 1]) == "2 seeds (0, 1)"
    assert seeds_text([0, 2, 5]) == "3 seeds (0, 2, 5)"
    assert seeds_text([1, 2, 3]) == "3 seeds (1 to 3)"
