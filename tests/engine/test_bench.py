"""Races: ratios within a round."""

import time

import pytest

from saccade.benchmark import Contest
from saccade.engine.bench import race


def test_a_rival_that_waits_three_times_as_long_is_three_times_as_slow():
    contest = Contest("wait", lambda: time.sleep(0.004), {"slow": lambda: time.sleep(0.012)})
    (result,) = race(contest, rounds=3)
    assert result.ratio == pytest.approx(3, rel=0.4)
    assert result.low <= result.ratio <= result.high
    assert len(result.ratios) == 3
