"""MATLAB files, as SciPy writes and reads them."""

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from vergence.core.errors import VergenceError
from vergence.reading.matlab import read_mat

ARRAYS = {
    "doubles": np.linspace(-1, 1, 12).reshape(3, 4),
    "singles": np.arange(5, dtype=np.float32),
    "small": np.array([[1, 2], [3, 300]]),
    "one": np.array([[7.0]]),
    "deep": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
    "bytes": np.arange(200, dtype=np.uint8),
    "long": np.array([[2**40]]),
    "empty": np.zeros((0, 3)),
}


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_those_that_scipy_reads(packed, tmp_path):
    path = tmp_path / "a.mat"
    savemat(
        path, ARRAYS | {"text": "hello", "cell": np.array([1, "a"], object), "struct": {"a": 1}}, do_compression=packed
    )
    theirs = loadmat(path)
    ours = read_mat(path, [*ARRAYS, "missing"])
    assert set(ours) == set(ARRAYS)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, theirs[name])
        assert array.shape == theirs[name].shape
        assert array.dtype == theirs[name].dtype


@pytest.mark.parametrize("name", ["text", "cell", "struct", "complex"])
def test_what_is_not_an_array_of_numbers_is_refused(name, tmp_path):
    values = {"text": "hello", "cell": np.array([1, "a"], object), "struct": {"a": 1}, "complex": np.array([1j])}
    savemat(tmp_path / "a.mat", values)
    with pytest.raises(VergenceError, match=f"a.mat is not a complete .mat file: '{name}' is not an array of real"):
        read_mat(tmp_path / "a.mat", [name])


def test_version_7_3_is_named(tmp_path):
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    with pytest.raises(VergenceError, match=r"version 7\.3: expected one of version 5"):
        read_mat(tmp_path / "new.mat", ["X"])
