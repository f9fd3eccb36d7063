"""Traces tell whether stored results still follow from the code there is."""

import dataclasses
import json

import pytest

from vergence import catalogue
from vergence.cli.main import main
from vergence.contract.claims import Needs, above
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.engine.trace import STEPS, Trace, record
from vergence.runs import versions
from vergence.runs.machine import Runtime
from vergence.studies import traces
from vergence.studies.ledger import latest, measure, replay, store, with_traces
from vergence.studies.study import RunPlan, order_for

NAME = "fake-byhand"
NEED = Needs("sign", 0)
CLAIMS = [above("c", "S.", "T. 1", better="still", worse="sign", metric="error", seeds=2)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The system keeps its results below a folder of the test's own, and has one empirical claim."""
    monkeypatch.setattr(catalogue, "folder", lambda name: tmp_path / "own")
    monkeypatch.setattr(type(catalogue.load(NAME)), "claims", CLAIMS)
    return tmp_path / "own" / "results"


@pytest.fixture
def stored(place, tmp_path):
    entries = measure(NAME, CLAIMS, RunPlan(tmp_path / "runs", jobs=1), Progress(), "the command")
    store(with_traces(NAME, entries, 1, Progress()), place)
    return place


@pytest.fixture
def other_code(monkeypatch):
    monkeypatch.setattr(traces, "fingerprint", lambda name: "another")
    monkeypatch.setattr(versions, "fingerprint", lambda name: "another")


def trace(need=NEED):
    return record(order_for(NAME, need, Runtime(device="cpu", threads=1)))


def test_a_trace_is_the_first_steps_and_the_metrics_after_them_and_repeats_to_the_bit():
    first = trace()
    assert len(first.losses) == STEPS
    assert set(first.metrics) == {"error"}
    assert first == trace()
    assert first.digest == trace().digest != trace(Needs("still", 0)).digest
    assert first.difference(trace(Needs("sign", 1)), same_machine=True).startswith("step 1: ")


def test_the_first_step_that_differs_is_named():
    one = Trace(({"a": 1.0}, {"a": 0.5}), {"m": 3.0})
    assert one.difference(one, same_machine=True) == ""
    late = dataclasses.replace(one, losses=({"a": 1.0}, {"a": 0.5000001}))
    assert one.difference(late, same_machine=True) == "step 2: a is 0.5000001, was 0.5"
    assert one.difference(late, same_machine=False) == ""
    assert one.difference(dataclasses.replace(one, losses=({"a": 1.1},) * 2), same_machine=False).startswith("step 1")
    assert one.difference(dataclasses.replace(one, metrics={"m": None}), True) == "after 2 steps: m is None, was 3.0"
    assert one.difference(dataclasses.replace(one, metrics={"m": 3.1}), same_machine=False) == ""
    assert one.difference(dataclasses.replace(one, metrics={"m": 3.4}), same_machine=False)
    assert one.difference(dataclasses.replace(one, losses=one.losses[:1]), True) == "1 steps instead of 2"
    assert one.difference(Trace(({"a": 1.0, "b": 2.0},) * 2, {}), True) == "step 1: b is new"


def test_of_each_variant_the_first_seed_is_traced():
    needs = [Needs("a", 3), Needs("a", 1), Needs("b", 2), Needs("a", 0, "paper"), Needs("a", 5, changes=(("x", 1),))]
    assert traces.first_seeds(needs) == [needs[1], needs[2], needs[3], needs[4]]
    names = [traces.name_of(need) for need in traces.first_seeds(needs)]
    assert names[:3] == ["tiny/a/s1", "tiny/b/s2", "paper/a/s0"]
    assert len(set(names)) == 4


def test_results_of_other_code_are_current_again_once_their_traces_came_out_the_same(stored, other_code, tmp_path):
    assert latest(NAME, None)[0].age == "unchecked"
    outcome, _ = replay(NAME, RunPlan(tmp_path / "runs", jobs=1), stored, Progress(), "")
    assert set(outcome.differences) == {"tiny/sign/s0", "tiny/still/s0"}
    assert not any(outcome.differences.values())
    (entry,) = latest(NAME, None)
    assert entry.age == "current"
    assert "replayed" in entry.why


def test_results_whose_traces_differ_are_stale_and_say_at_which_step(stored, other_code, tmp_path, monkeypatch):
    system = type(catalogue.load(NAME))
    update = system.update
    monkeypatch.setattr(system, "update", lambda self, ctx, *rest: update(self, ctx, *rest) | _more(ctx.step))
    replay(NAME, RunPlan(tmp_path / "runs", jobs=1), stored, Progress(), "")
    (entry,) = latest(NAME, None)
    assert entry.age == "stale"
    assert "step 3: more is new" in entry.old


def _more(step):
    import torch

    return {"more": torch.tensor(1.0)} if step >= 2 else {}


def test_a_replay_counts_for_the_code_it_was_made_with_alone(stored, tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "fingerprint", lambda name: "another")
    replay(NAME, RunPlan(tmp_path / "runs", jobs=1), stored, Progress(), "")
    assert latest(NAME, None)[0].age == "unchecked"


def test_a_variant_traced_again_with_other_numbers_makes_older_results_stale(stored, other_code):
    path = stored / traces.FILE
    text = json.loads(path.read_text())
    text["recordings"][0]["traces"]["tiny/sign/s0"]["metrics"]["error"] = 0.123
    path.write_text(json.dumps(text))
    assert latest(NAME, None)[0].age == "stale"


def test_recording_again_replaces_a_trace_and_keeps_the_others(place):
    traces.keep(NAME, place, [NEED, Needs("still", 0)], 1, Progress())
    traces.keep(NAME, place, [NEED], 1, Progress())
    book = traces.read(place)
    assert [sorted(r.traces) for r in book.recordings] == [["tiny/still/s0"], ["tiny/sign/s0"]]
    assert set(book.needs) == {"tiny/sign/s0", "tiny/still/s0"}


def test_a_damaged_book_is_one_sentence(place):
    place.mkdir(parents=True)
    (place / traces.FILE).write_text('{"recordings": 3}')
    with pytest.raises(VergenceError, match=r"traces\.json"):
        traces.read(place)


def test_the_command_replays_and_keeps_the_outcome_beside_the_runs(stored, tmp_path, capsys):
    assert main(["claims", NAME, "--replay", "--jobs", "1", "--quiet", "--json", "--runs", str(tmp_path / "r")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["traces"] == {NAME: {"tiny/sign/s0": "", "tiny/still/s0": ""}}
    assert traces.read(tmp_path / "r" / NAME).replay is not None
    assert traces.read(stored).replay is None


def test_nothing_is_stored_from_a_tree_with_changes(place, monkeypatch, capsys):
    monkeypatch.setattr(versions, "commit", lambda: "abc+")
    assert main(["claims", NAME, "--store", "--quiet"]) == 2
    assert "uncommitted changes" in capsys.readouterr().err
    assert not place.exists()
