"""Races: ratios within a round."""

from saccade.benchmark import Contest
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
