"""Races: ratios within a round."""

from pathlib import Path

from saccade.benchmark import Contest, Holding
from saccade.engine import bench


def test_a_rival_that_takes_three_times_as_long_is_three_times_as_slow(monkeypatch):
    clock = [0.0]

    def takes(seconds):
        def run():
            clock[0] += seconds

        return run

    monkeypatch.setattr(bench.time, "perf_counter", lambda: clock[0])
    (result,) = bench.race(Contest("wait", takes(0.004), {"slow": takes(0.012)}), rounds=3)
    assert round(result.ratio, 6) == round(result.low, 6) == round(result.high, 6) == 3
    assert len(result.ratios) == 3
    assert (round(result.ours, 6), round(result.theirs, 6)) == (0.004, 0.012)


def test_a_rival_that_holds_four_times_as_much_is_four_times_as_heavy(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    works = {"ours": ("test_memory:holds", 16, 0), "theirs": ("test_memory:holds", 64, 0)}
    (result,) = bench.weigh(Holding("hold", works["ours"], {"heavy": works["theirs"]}))
    assert abs(result.ratio - 4) < 0.3
    assert abs(result.ours / 2**20 - 16) < 1
