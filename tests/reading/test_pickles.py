"""Pickles are opened for their arrays; nothing in them runs."""

import os
import pickle

import numpy as np
import pytest

from vergence.core.errors import VergenceError
from vergence.reading.pickles import read_pickle


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_arrays_and_plain_values_come_back(protocol, tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"n": [1, 2]}, protocol))
    found = read_pickle(path)
    assert found[b"n"] == [1, 2]
    np.testing.assert_array_equal(found[b"data"], [[0, 1, 2], [3, 4, 5]])


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    path, mark = tmp_path / "evil", tmp_path / "mark"
    path.write_bytes(pickle.dumps({b"data": Evil(mark)}))
    with pytest.raises(VergenceError, match="more than data"):
        read_pickle(path)
    assert not mark.exists()


def test_a_cut_pickle_is_refused_by_name(tmp_path):
    path = tmp_path / "half"
    path.write_bytes(pickle.dumps(np.zeros(100))[:60])
    with pytest.raises(VergenceError, match="half is not a complete pickle"):
        read_pickle(path)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02]r\xff\xff\xff\x7f.",  # stores a list at memo index 2^31 - 1
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b"a.",  # bytes that claim to be a terabyte
        b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"a.",
    ],
)
def test_a_few_bytes_cannot_ask_for_gigabytes(content, tmp_path):
    import tracemalloc

    path = tmp_path / "bomb"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(VergenceError, match="bomb is not a complete pickle"):
            read_pickle(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
