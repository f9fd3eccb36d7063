"""What the operating system says of this process's memory."""

import mmap

import pytest

from vergence.core import memory


def test_the_peak_outlasts_what_was_held():
    if not memory.reset_peak():
        pytest.skip("this system cannot forget a peak")
    before = memory.resident()
    # Pages of its own: an allocator could answer with memory that the process has kept.
    with mmap.mmap(-1, 64 * 2**20) as held:
        held.write(b"x" * len(held))
        assert memory.resident() - before > 60 * 2**20
    assert memory.peak() - before > 60 * 2**20
    assert memory.peak() >= memory.resident()
