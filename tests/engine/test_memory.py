"""Peak memory is that of the work alone."""

from pathlib import Path

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.engine.memory import child_peak, child_peaks


@pytest.fixture(autouse=True)
def found_by_children(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def holds(megabytes, kept):
    """Work that holds so many megabytes at once, beside some that were there before."""
    there = torch.ones(kept * 2**18 + 1)
    return lambda: torch.ones(megabytes * 2**18).sum() + there[0]


def fails():
    raise ValueError("no such thing")


@pytest.mark.parametrize(("megabytes", "kept"), [(64, 0), (8, 64)])
def test_it_is_what_the_work_adds(megabytes, kept):
    found = child_peak("test_memory:holds", megabytes, kept) / 2**20
    assert abs(found - megabytes) < 2


def test_several_are_measured_apart_from_each_other():
    found = child_peaks("test_memory:holds", [(64, 0), (8, 64), (16, 0)])
    assert all(abs(size / 2**20 - megabytes) < 2 for size, megabytes in zip(found, (64, 8, 16), strict=True))


def fails_on(number):
    return int if number else fails


def test_the_one_that_fails_is_named():
    with pytest.raises(VergenceError, match=r"memory of test_memory:fails_on\(0,\) could not .*: no such thing$"):
        child_peaks("test_memory:fails_on", [(1,), (0,), (2,)])


def test_work_that_fails_is_one_sentence():
    said = r"^the memory of test_memory:fails\(\) could not be measured: .*no such thing$"
    with pytest.raises(VergenceError, match=said):
        child_peak("test_memory:fails")
