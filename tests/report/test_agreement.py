"""A run of few seeds beside stored results over more: what disagrees is said beside the table."""

import dataclasses

import pytest

from vergence import catalogue
from vergence.api import work
from vergence.contract.claims import Judgement, Needs, above, compared_models
from vergence.core.files import write_json
from vergence.core.progress import Progress
from vergence.report import build
from vergence.report.measured import metrics_table, warnings
from vergence.runs.folder import Run
from vergence.runs.machine import Runtime
from vergence.runs.versions import Environment
from vergence.studies import results
from vergence.studies.ledger import Entry
from vergence.studies.results import Row, StoredRun
from vergence.studies.study import RunPlan, order_for
from vergence.studies.subject import Subject

CLAIM = above("snl-nl", "SNL is better than NL.", "Table 1", better="snl", worse="nl", metric="top1", unit="points")
MADE = Environment(date="2026-05-04T10:00:00+00:00", commit="abc", seeds=(0, 1, 2, 3, 4))
STORED = StoredRun("tiny", "", {"nl": Row({"top1": (79.0, 80.0, 81.0, 80.0, 80.0)}),
                                "snl": Row({"top1": (97.0, 60.0, 70.0, 90.0, 66.0)})}, "", MADE)  # fmt: skip


@pytest.fixture
def subject(tmp_path, monkeypatch):
    """Runs of snl and nl by their Top-1, one value per seed, and a stored judgement of the claim."""
    monkeypatch.setattr(results, "run", lambda name: STORED)

    def subject(verdict, changes=(), claim=CLAIM, **values):
        runs = {}
        for variant, each in values.items():
            for seed, value in enumerate(each):
                run = Run.create(order_for("snl", Needs(variant, seed, "tiny", changes), Runtime()), tmp_path)
                write_json(run.folder / "result.json", {"metrics": {"top1": value}})
                runs.setdefault(variant, []).append(run)
        judgement = Judgement(verdict, -3.0, -8.0, 2.0, (-3.0,) * 5)
        return Subject(catalogue.load("snl"), "tiny", runs, [Entry("snl", claim, judgement, environment=MADE)])

    return subject


def test_one_lucky_seed_is_not_left_without_the_stored_verdict(subject):
    claim, winner = warnings(subject("not resolved at this scale", nl=[79.0], snl=[97.0]))
    assert claim == (
        "“SNL is better than NL.” This run alone (seed 0) gives 18 points; stored results of 2026-05-04, commit abc, "
        "5 seeds (0 to 4), give -3 points, 90 % interval -8 to 2 over 5 seeds: not resolved at this scale."
    )
    assert winner == (
        "Best Top-1 in this run: SNL; in stored results of 2026-05-04, commit abc, 5 seeds (0 to 4): "
        "NL, embedded Gaussian."
    )


def test_an_unlucky_seed_disagrees_with_a_claim_that_holds(subject):
    assert "gives -1 points" in warnings(subject("holds", nl=[79.0, 80.0], snl=[78.0, 79.0]))[0]


@pytest.mark.parametrize(
    ("verdict", "values"),
    [
        ("not resolved at this scale", {"nl": [80.0], "snl": [70.0]}),
        ("does not hold", {"nl": [80.0], "snl": [70.0]}),
        ("does not hold", {"nl": [80.0] * 5, "snl": [97.0] * 5}),  # as many seeds as stored
        ("does not hold", {"nl": [80.0]}),  # the claim compares it with another variant
    ],
)
def test_nothing_is_said_where_they_agree_or_cannot_be_compared(subject, verdict, values):
    assert warnings(subject(verdict, **values)) == []


def test_another_config_is_not_compared_with_stored_results(subject):
    other = subject("does not hold", (("data.noise", 0.123),), nl=[79.0], snl=[97.0])
    assert warnings(other) == []
    assert [group.style for group in metrics_table(other).groups if group.style != "theirs"] == ["ours"]


def test_a_claim_about_models_and_one_judged_by_this_run_are_not_compared(subject):
    models = compared_models("m", "M.", "Eq. 1", {"a": "snl"}, lambda of: 1.0)
    assert not [s for s in warnings(subject("does not hold", claim=models, snl=[97.0])) if s.startswith("“M.”")]
    run = subject("does not hold", nl=[79.0], snl=[97.0])
    fresh = dataclasses.replace(run, entries=[dataclasses.replace(run.entries[0], fresh=True)])
    assert not [sentence for sentence in warnings(fresh) if sentence.startswith("“SNL")]


def test_stored_results_over_more_seeds_stand_beside_the_run_with_their_spread(subject):
    table = metrics_table(subject("holds", nl=[79.0], snl=[97.0]))
    assert [group.heading for group in table.groups][:2] == [
        "this run, seed 0", "stored results of 2026-05-04, commit abc, 5 seeds (0 to 4)"
    ]  # fmt: skip
    assert [cell.text for cell in table.rows[0].cells][:2] == ["79.00", "80.00 ± 0.71"]


def test_several_seeds_have_their_spread_and_uneven_numbers_are_named(subject):
    table = metrics_table(subject("holds", nl=[79.0, 81.0], snl=[97.0]))
    assert table.rows[0].cells[0].text == "80.00 ± 1.41"
    assert [row.note for row in table.rows] == ["2 seeds", "1 seed"]


def test_the_page_says_it(subject, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "draw", lambda *given: [])  # these runs have no weights to draw
    lucky = subject("not resolved at this scale", nl=[79.0], snl=[97.0])
    page = build.write_report(lucky, tmp_path / "out", Progress()).read_text()
    assert page.index('id="table"') < page.index("disagree with this run") < page.index('id="claims"')


def test_a_run_marks_the_claims_that_it_judged_itself(tmp_path):
    system = catalogue.load("flot")
    entries = work._judge(system, RunPlan(tmp_path), Progress(), "vergence run flot", set())
    assert [entry.claim.id for entry in entries] == [claim.id for claim in system.claims]
    assert {entry.claim.kind for entry in entries if entry.fresh}.isdisjoint({"empirical", "cost"})
    assert any(entry.fresh for entry in entries)
