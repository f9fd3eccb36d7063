"""What the operating system says of this process's memory."""

import pytest

from vergence.core import memory


def test_the_peak_outlasts_what_was_held():
    if not memory.reset_peak():
        pytest.skip("this system cannot forget a peak")
    before = memory.resident()
    held = bytearray(b"x") * (64 * 2**20)
    assert memory.resident() - before > 60 * 2**20
    del held
    assert memory.peak() - before > 60 * 2**20
    assert memory.peak() >= memory.resident()
