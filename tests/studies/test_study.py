"""Runs that several ask for are trained once, shared and kept."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from helpers import StopAt
from vergence import catalogue
from vergence.contract.claims import Claim, Needs, above
from vergence.core.errors import Interrupted, VergenceError
from vergence.core.progress import Progress
from vergence.runs import versions
from vergence.runs.folder import Run, find, runs
from vergence.runs.machine import Runtime
from vergence.studies.ledger import latest, measure, store, tally
from vergence.studies.study import RunEvidence, RunPlan, finished_runs, order_for

NEEDS = [Needs("sign", 0), Needs("still", 0), Needs("sign", 0)]
FAKES = Path(__file__).parents[1] / "contract" / "fakes"


def orders(needs=NEEDS):
    return [order_for("fake-byhand", need, Runtime()) for need in needs]


@pytest.fixture
def children_know_the_fakes(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(FAKES))


def test_equal_orders_share_a_run_and_later_calls_find_it(tmp_path):
    first = finished_runs(orders(), RunPlan(tmp_path, jobs=1), Progress())
    assert first[0] == first[2] != first[1]
    assert finished_runs(orders(), RunPlan(tmp_path, jobs=1), Progress()) == first
    assert len(list(runs("fake-byhand", tmp_path))) == 2


def test_fresh_trains_again(tmp_path):
    first = finished_runs(orders()[:1], RunPlan(tmp_path, jobs=1), Progress())
    assert finished_runs(orders()[:1], RunPlan(tmp_path, jobs=1, fresh=True), Progress()) != first


def test_a_run_of_other_code_is_not_found(tmp_path, monkeypatch):
    (done,) = finished_runs(orders()[:1], RunPlan(tmp_path, jobs=1), Progress())
    assert find(done.order, tmp_path) == done
    monkeypatch.setattr("vergence.runs.folder.fingerprint", lambda name: "another")
    assert find(done.order, tmp_path) is None


def test_a_damaged_run_folder_is_passed_over(tmp_path):
    (done,) = finished_runs(orders()[:1], RunPlan(tmp_path, jobs=1), Progress())
    (done.folder / "config.json").write_text("{")
    assert find(orders()[0], tmp_path) is None


def test_several_processes_give_the_runs_of_one(tmp_path, children_know_the_fakes):
    seen = []

    class Watch(Progress):
        def start(self, label, total):
            seen.append(label)
            return len(seen)

    one = finished_runs(orders(), RunPlan(tmp_path / "one", jobs=1), Progress())
    two = finished_runs(orders(), RunPlan(tmp_path / "two", jobs=2), Watch())
    for a, b in zip(one, two, strict=True):
        assert (a.folder / "last.safetensors").read_bytes() == (b.folder / "last.safetensors").read_bytes()
    assert {"fake-byhand sign s0 train", "fake-byhand still s0 train"} <= set(seen)


def test_a_child_that_fails_is_told_in_one_sentence(tmp_path, children_know_the_fakes):
    bad = dataclasses.replace(orders()[0], init="nowhere.safetensors")
    with pytest.raises(VergenceError, match=r"failed: nowhere\.safetensors does not exist"):
        finished_runs([bad, orders()[1]], RunPlan(tmp_path, jobs=2), Progress())


def test_a_child_that_diverges_has_the_exit_code_of_a_diverged_run(tmp_path, children_know_the_fakes):
    wild = [Needs(v, changes=(("train.optimiser.lr", 1e30),)) for v in ("sign", "still")]
    with pytest.raises(VergenceError, match="the loss 'fit' is") as failure:
        finished_runs(orders(wild), RunPlan(tmp_path, jobs=2), Progress())
    assert failure.value.exit_code == 1


def test_an_interrupted_study_goes_on(tmp_path):
    with pytest.raises(Interrupted):
        finished_runs(orders(), RunPlan(tmp_path, jobs=1), StopAt(5))
    done = finished_runs(orders(), RunPlan(tmp_path, jobs=1), Progress())
    whole = finished_runs(orders(), RunPlan(tmp_path / "whole", jobs=1), Progress())
    assert [r.records() for r in done] == [r.records() for r in whole]


LONG = """
import sys
from pathlib import Path
from vergence.contract.claims import Needs
from vergence.cli.main import main
from vergence.core.errors import VergenceError
from vergence.core.progress import Progress
from vergence.runs.machine import Runtime
from vergence.studies.study import RunPlan, finished_runs, order_for
needs = [Needs(v, 0, changes=(("train.steps", 2000),)) for v in ("sign", "still")]
try:
    orders = [order_for("fake-byhand", n, Runtime()) for n in needs]
    finished_runs(orders, RunPlan(Path(sys.argv[1]), jobs=2), Progress())
except VergenceError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def test_a_signal_stops_every_child_and_the_same_command_goes_on_to_the_same_bits(tmp_path, children_know_the_fakes):
    """The real thing: two children, interrupted from outside, and the same command again."""
    command = [sys.executable, "-c", LONG]
    process = subprocess.Popen([*command, str(tmp_path / "a")], stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len([p for p in tmp_path.glob("a/fake-byhand/*/metrics.jsonl") if p.stat().st_size > 3000]) == 2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "resumes from here" in said
    assert not any(str(tmp_path) in line for line in running()), "a child is still there"
    assert len(list(tmp_path.glob("a/fake-byhand/*/checkpoints/0*"))) == 2
    assert not list(tmp_path.glob("a/fake-byhand/*/result.json"))
    needs = [Needs(v, 0, changes=(("train.steps", 2000),)) for v in ("sign", "still")]
    for place in "ab":
        finished_runs(
            [order_for("fake-byhand", n, Runtime()) for n in needs], RunPlan(tmp_path / place, jobs=1), Progress()
        )
    for variant in ("sign", "still"):
        one, two = (next(tmp_path.glob(f"{x}/fake-byhand/*-{variant}-s0/last.safetensors")) for x in "ab")
        assert one.read_bytes() == two.read_bytes()


def wait_for(happened, seconds=60):
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def running():
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.parent.name != str(os.getpid()):
                lines.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return lines


def test_evidence_is_only_what_a_claim_named(tmp_path):
    done = finished_runs(orders()[:1], RunPlan(tmp_path, jobs=1), Progress())
    shelf = RunEvidence(catalogue.load("fake-byhand"), {NEEDS[0]: done[0]})
    assert "error" in shelf.metrics(NEEDS[0])
    assert shelf.model(NEEDS[0])(__import__("torch").zeros(1, 6)).shape == (1, 1)
    with pytest.raises(VergenceError, match="does not list"):
        shelf.metrics(NEEDS[1])


def test_costs_are_measured_through_the_systems_own_bench(monkeypatch):
    from types import SimpleNamespace

    from vergence.contract.benchmark import Contest
    from vergence.contract.claims import CannotJudge
    from vergence.engine.bench import Memory

    listed = SimpleNamespace(contests=lambda: [Contest("race", "a race", lambda: None, {"twin": lambda: None})])
    monkeypatch.setattr(catalogue, "bench", lambda name: listed)
    monkeypatch.setattr("vergence.engine.bench.core_share", lambda seconds=0: 1.0)
    shelf = RunEvidence(catalogue.load("fake-byhand"), {})
    assert len(shelf.times("race")["twin"]) == 7
    with pytest.raises(VergenceError, match="no contest 'rac' .*did you mean 'race'"):
        shelf.times("rac")
    monkeypatch.setattr("vergence.engine.bench.memory", lambda system, contest: {"twin": Memory(8192, 4 * 8192)})
    assert shelf.memory("race") == {"twin": 4.0}
    monkeypatch.setattr("vergence.engine.bench.core_share", lambda seconds=0: 0.3)
    with pytest.raises(CannotJudge, match="too busy"):
        shelf.times("race")


# The ledger ---------------------------------------------------------------------------------------------------------


CLAIMS = [
    above("sign-above-still", "S.", "T. 1", better="still", worse="sign", metric="error", seeds=3),
    Claim("cost", "C.", "T. 2", "cost", lambda _: [2.0, 2.1, 2.2], 1.5, "at least"),
    Claim("exact", "E.", "Eq. 1", "exact", lambda _: 0.0, 0.0),
]


@pytest.fixture
def with_claims(monkeypatch):
    monkeypatch.setattr(type(catalogue.load("fake-byhand")), "claims", CLAIMS)


def test_claims_are_measured_stored_and_known(tmp_path, with_claims):
    entries = measure("fake-byhand", CLAIMS, RunPlan(tmp_path, jobs=1), Progress(), "the command")
    assert [e.claim.id for e in entries] == ["sign-above-still", "cost", "exact"]
    assert len(entries[0].judgement.values) == 3
    assert entries[0].environment.seeds == (0, 1, 2)
    store(entries, tmp_path / "fake-byhand")
    found = latest("fake-byhand", tmp_path)
    assert [e.judgement for e in found] == [e.judgement for e in entries]
    assert {e.age for e in found} == {"current"}
    assert found[1].command == "the command"
    assert len(list(runs("fake-byhand", tmp_path))) == 6


def test_storing_one_claim_keeps_the_others(tmp_path, with_claims):
    both = measure("fake-byhand", CLAIMS[1:], RunPlan(tmp_path, jobs=1), Progress(), "")
    store(both[:1], tmp_path / "fake-byhand")
    store(both[1:], tmp_path / "fake-byhand")
    assert [e.judgement is not None for e in latest("fake-byhand", tmp_path)] == [False, True, True]


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": 0.5},
        {"sense": "at least"},
        {"needs": tuple(need for need in CLAIMS[0].needs if need.seed)},
        {"needs": (*CLAIMS[0].needs, dataclasses.replace(CLAIMS[0].needs[0], seed=3))},
    ],
)
def test_a_result_judged_otherwise_is_not_one_of_the_claim(change, tmp_path, with_claims, monkeypatch):
    store(measure("fake-byhand", CLAIMS[:1], RunPlan(tmp_path, jobs=1), Progress(), ""), tmp_path / "fake-byhand")
    reworded = dataclasses.replace(CLAIMS[0], statement="In other words.", unit="in other words", paper="+1")
    for claim, answered in ((reworded, True), (dataclasses.replace(CLAIMS[0], **change), False)):
        monkeypatch.setattr(type(catalogue.load("fake-byhand")), "claims", [claim])
        assert (latest("fake-byhand", tmp_path)[0].judgement is not None) == answered


def test_storing_drops_results_that_answer_no_claim_any_more(tmp_path, with_claims, monkeypatch):
    folder = tmp_path / "fake-byhand"
    store(measure("fake-byhand", CLAIMS[1:], RunPlan(tmp_path, jobs=1), Progress(), ""), folder)
    assert sum(tally("fake-byhand", tmp_path).values(), Counter()).total() == 2
    now = [dataclasses.replace(CLAIMS[1], threshold=99.0), CLAIMS[2]]
    monkeypatch.setattr(type(catalogue.load("fake-byhand")), "claims", now)
    store(measure("fake-byhand", now[1:], RunPlan(tmp_path, jobs=1), Progress(), ""), folder)
    assert sum(tally("fake-byhand", tmp_path).values(), Counter()).total() == 1


def test_a_result_of_other_variants_is_not_one_of_the_claim(tmp_path, with_claims, monkeypatch):
    (entry,) = measure("fake-byhand", CLAIMS[:1], RunPlan(tmp_path, jobs=1), Progress(), "")
    store([dataclasses.replace(entry, traces={"tiny/sign/s0": "a"})], tmp_path / "fake-byhand")
    assert latest("fake-byhand", tmp_path)[0].judgement is None
    store([dataclasses.replace(entry, traces={"tiny/sign/s0": "a", "tiny/still/s0": "b"})], tmp_path / "fake-byhand")
    assert latest("fake-byhand", tmp_path)[0].judgement is not None


@pytest.mark.parametrize("what", ["fingerprint", "shared_fingerprint"])
def test_results_of_other_code_say_so(what, tmp_path, with_claims, monkeypatch):
    store(measure("fake-byhand", CLAIMS[2:], RunPlan(tmp_path, jobs=1), Progress(), ""), tmp_path / "fake-byhand")
    monkeypatch.setattr(f"vergence.studies.traces.{what}", lambda name: "another")
    assert latest("fake-byhand", tmp_path)[2].age == "unchecked"


def test_an_endless_interval_survives_storing(tmp_path, with_claims, monkeypatch):
    one = [Claim("cost", "C.", "T.", "cost", lambda _: [1.0], 1.5, "at least")]
    monkeypatch.setattr(type(catalogue.load("fake-byhand")), "claims", one)
    store(measure("fake-byhand", one, RunPlan(tmp_path, jobs=1), Progress(), ""), tmp_path / "fake-byhand")
    (entry,) = latest("fake-byhand", tmp_path)
    assert (entry.judgement.low, entry.judgement.high) == (float("-inf"), float("inf"))
    assert entry.judgement.verdict == "not resolved at this scale"


@pytest.mark.parametrize("value", [float("inf"), float("nan"), float("-inf")])
def test_a_value_that_is_no_number_does_not_hold_and_survives_storing(value, tmp_path, with_claims, monkeypatch):
    one = [Claim("exact", "E.", "Eq.", "exact", lambda _: value, 1.5, "at most" if value > 0 else "at least")]
    monkeypatch.setattr(type(catalogue.load("fake-byhand")), "claims", one)
    store(measure("fake-byhand", one, RunPlan(tmp_path, jobs=1), Progress(), ""), tmp_path / "fake-byhand")
    (entry,) = latest("fake-byhand", tmp_path)
    assert entry.judgement.verdict == "does not hold"
    assert repr(entry.judgement.measured) == repr(value)


def test_a_result_that_rests_on_runs_of_older_shared_code_says_so(tmp_path, with_claims):
    import json

    plan = RunPlan(tmp_path, jobs=1)
    measure("fake-byhand", CLAIMS[:1], plan, Progress(), "")
    for path in tmp_path.glob("fake-byhand/*/environment.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"shared": "older"}))
    (entry,) = measure("fake-byhand", CLAIMS[:1], plan, Progress(), "")
    assert entry.age == "unchecked"
    (entry,) = measure("fake-byhand", CLAIMS[:1], dataclasses.replace(plan, same_code=True), Progress(), "")
    assert entry.age == "current"


@pytest.mark.parametrize("name", ["training", "seeding", "context", "claims", "system", "fit", "resnet"])
def test_the_shared_fingerprint_covers_what_a_system_stands_on(name, monkeypatch):
    versions.shared_fingerprint.cache_clear()
    before = versions.shared_fingerprint("snl")
    versions.shared_fingerprint.cache_clear()
    packed, other = versions._packed, versions.zlib.compress(b"another meaning")
    monkeypatch.setattr(versions, "_packed", lambda path, *at: other if path.stem == name else packed(path, *at))
    assert versions.shared_fingerprint("snl") != before
    versions.shared_fingerprint.cache_clear()


BEFORE = '''"""A module."""
from dataclasses import dataclass

@dataclass
class Settings:
    """Of a network."""
    width: int = 8
    """Channels."""

def scaled(x, by=2.0):
    """Twice."""
    return x * by + 1
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Channels."""', '"""How wide."""'),
        ("return x", "# why\n    return x"),
        ('"""A module."""', ""),
        ("x, by", "x,  by"),
    ],
)
def test_words_are_no_part_of_a_fingerprint(old, new):
    assert old in BEFORE
    assert versions._meaning(BEFORE) == versions._meaning(BEFORE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width: int = 8", "width: int = 9"),
        ("by=2.0", "by=2.5"),
        ("+ 1", "- 1"),
        ("x * by", "by * x"),
        ("int", "float"),
    ],
)
def test_constants_defaults_and_operators_are(old, new):
    assert old in BEFORE
    assert versions._meaning(BEFORE) != versions._meaning(BEFORE.replace(old, new))


def test_a_file_that_moves_is_another_file(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "ROOT", tmp_path)
    for place in ("a/x.py", "b/x.py"):
        (tmp_path / place).parent.mkdir()
        (tmp_path / place).write_text(BEFORE)
    assert versions._hash([tmp_path / "a/x.py"]) != versions._hash([tmp_path / "b/x.py"])


def test_runs_of_another_precision_are_not_shared(tmp_path):
    low = dataclasses.replace(orders()[0], runtime=Runtime(precision="bf16-mixed"))
    finished_runs([low], RunPlan(tmp_path, jobs=1, runtime=low.runtime), Progress())
    assert find(low, tmp_path) is not None
    assert find(orders()[0], tmp_path) is None


@pytest.mark.parametrize("content", ["{}", '{"system": 3, "config": {}}', "[" * 100_000, '{"system": "fake-byhand"}'])
def test_a_run_folder_of_any_content_is_passed_over(content, tmp_path):
    folder = tmp_path / "fake-byhand" / "20200101-000000-x-s0"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(content)
    assert find(orders()[0], tmp_path) is None


def test_the_environment_names_versions_and_code():
    made = versions.environment("snl")
    assert made["code"] == versions.fingerprint("snl") != made["shared"]
    assert set(made["packages"]) >= {"torch", "numpy"}


def test_run_folders_of_one_second_have_names_of_their_own(tmp_path):
    made = [Run.create(orders()[0], tmp_path) for _ in range(3)]
    assert len({r.folder for r in made}) == 3
