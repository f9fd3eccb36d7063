"""Arrays from HDF5 files."""

import numpy as np
import pytest

import vergence.reading.hdf5
from vergence.core.errors import VergenceError
from vergence.reading.budget import budget
from vergence.reading.hdf5 import read_hdf5, shapes_hdf5


def written(path, **arrays):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def test_arrays_are_read_by_name(tmp_path):
    path = written(tmp_path / "a.h5", data=np.arange(6).reshape(2, 3), label=np.array([1, 2], np.uint8))
    arrays = read_hdf5(path, ("data", "label"))
    assert arrays["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["label"].dtype == np.uint8


def test_missing_arrays_and_text_are_refused(tmp_path):
    path = written(tmp_path / "a.h5", data=np.arange(6), words="hello")
    with pytest.raises(VergenceError, match=r"a\.h5 has no array 'label': there is data, words"):
        read_hdf5(path, ("label",))
    with pytest.raises(VergenceError, match="'words' is not an array of numbers"):
        read_hdf5(path, ("words",))


def test_a_file_cut_short_and_one_of_another_kind_are_refused(tmp_path):
    path = written(tmp_path / "a.h5", data=np.arange(5000))
    content = path.read_bytes()
    for part in (b"", content[:1], content[: len(content) // 2], b"\x7fELF" + bytes(100)):
        path.write_bytes(part)
        with pytest.raises(VergenceError, match=r"a\.h5 is not a complete HDF5 file") as refusal:
            read_hdf5(path, ("data",))
        assert "\n" not in str(refusal.value)


def test_links_to_other_files_are_not_followed(tmp_path):
    h5py = pytest.importorskip("h5py")
    written(tmp_path / "other.h5", data=np.arange(3))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "data")
    with pytest.raises(VergenceError, match="has no array 'data'"):
        read_hdf5(tmp_path / "a.h5", ("data",))


def test_arrays_beyond_the_budget_are_refused_before_memory_is_taken(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", (10**12,), "f4", chunks=(1 << 20,))
    with pytest.raises(VergenceError, match="more than the limit"):
        read_hdf5(tmp_path / "a.h5", ("data",))
    path = written(tmp_path / "b.h5", data=np.arange(100))
    with budget(values=10), pytest.raises(VergenceError, match="100 numbers"):
        read_hdf5(path, ("data",))


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.h5").write_bytes(b"")
    monkeypatch.setattr(vergence.reading.hdf5, "find_spec", lambda name: None)
    with pytest.raises(VergenceError, match=r"pip install 'vergence\[hdf5\]'"):
        read_hdf5(tmp_path / "a.h5", ("data",))


def test_complex_numbers_and_single_rows_are_read_and_shapes_without_reading(tmp_path):
    values = (np.arange(24).reshape(2, 3, 4) * (1 + 2j)).astype(np.complex64)
    path = written(tmp_path / "scan.h5", kspace=values)
    assert shapes_hdf5(path, ["kspace"]) == {"kspace": (2, 3, 4)}
    np.testing.assert_array_equal(read_hdf5(path, ["kspace"], 1)["kspace"], values[1])
    np.testing.assert_array_equal(read_hdf5(path, ["kspace"])["kspace"], values)
