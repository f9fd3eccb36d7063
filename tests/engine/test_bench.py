"""Races: ratios within a round."""

from contextlib import nullcontext

import pytest

from vergence import catalogue
from vergence.contract.benchmark import Contest
from vergence.core.errors import VergenceError
from vergence.engine import bench
from vergence.engine import overhead as overheads
from vergence.engine.overhead import has_bare_loop, overhead


def test_a_rival_that_takes_three_times_as_long_is_three_times_as_slow(monkeypatch):
    clock = [0.0]

    def takes(seconds):
        def run():
            clock[0] += seconds

        return run

    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(bench, "core_share", lambda: 0.8)
    (result,) = bench.race(Contest("wait", "waiting", takes(0.004), {"slow": takes(0.012)}), rounds=3)
    assert round(result.ratio, 6) == round(result.low, 6) == round(result.high, 6) == 3
    assert len(result.ratios) == 3
    assert result.core == 0.8
    assert (round(result.ours, 6), round(result.theirs, 6)) == (0.004, 0.012)


def test_a_machine_on_which_others_compute_is_refused():
    bench.refuse_if_busy(1.0)
    with pytest.raises(VergenceError, match="too busy to compare: bench got 60% of a core") as refusal:
        bench.refuse_if_busy(0.6)
    assert refusal.value.exit_code == 1


def test_a_process_that_waits_for_its_core_sees_it(monkeypatch):
    used = iter([0.0, 0.02])
    monkeypatch.setattr(bench.time, "process_time", lambda: next(used))
    assert 0.1 < bench.core_share(0.05) < 0.41


def test_memory_is_that_of_each_contestant(monkeypatch):
    monkeypatch.setattr(bench, "child_peaks", lambda target, cases: [100_000 if case[-1] else 20_000 for case in cases])
    assert bench.memory("snl", Contest("sum", "a sum", int, {"dense": int}))["dense"].ratio == 5


def test_contestants_are_found_by_name():
    assert callable(bench.contestant("snl", "snl-64", ""))
    assert callable(bench.contestant("snl", "snl-64", "dense"))
    with pytest.raises(VergenceError, match="snl has no contest 'nothing'"):
        bench.contestant("snl", "nothing", "")


def test_the_cost_of_the_engine_is_a_step_of_it_less_a_bare_one():
    found = overhead("fake-mining", rounds=2, steps=5)
    assert found.engine > 0
    assert found.bare > 0
    assert len(found.extra) == 2
    assert found.allowed == pytest.approx(max(0.03 * found.bare, 0.3e-3))


def test_steps_of_the_engine_and_of_the_bare_loop_are_timed_in_turn(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(overheads.time, "perf_counter", lambda: clock[0])

    def bare():
        while True:
            clock[0] += 3.0
            yield

    bout = overheads._Bout(bare())
    for done, seconds in enumerate((9.0, 5.0, 7.0), 1):
        clock[0] += seconds  # the engine's step
        bout.update(0, done)  # progress of another task: no step has ended
        with pytest.raises(overheads._Enough) if done == 3 else nullcontext():
            bout.update(0, done, total=3)
    assert bout.engine == [9.0, 5.0, 7.0]
    assert bout.bare == [3.0, 3.0, 3.0]
    bout = overheads._Bout(bare())
    with pytest.raises(overheads._Enough):
        for done in range(100):
            bout.update(0, done, total=100)
    assert len(bout.bare) == 2 * overheads.WARM  # long steps: a round ends early


def test_a_contest_of_long_rounds_has_fewer(monkeypatch):
    clock, calls = [0.0], []

    def slow():
        clock[0] += 3.0
        calls.append(1)

    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(bench, "core_share", lambda: 1.0)
    (result,) = bench.race(Contest("wait", "waiting", slow, {"slow": slow}), rounds=7)
    assert len(result.ratios) == bench.FEWEST


def test_a_system_that_is_not_trained_by_one_optimiser_has_no_bare_loop():
    assert not has_bare_loop(catalogue.load("fake-game"))
    assert not has_bare_loop(catalogue.load("fake-byhand"))
    assert not has_bare_loop(catalogue.load("fake-ruler"))
    assert has_bare_loop(catalogue.load("fake-mining"))
