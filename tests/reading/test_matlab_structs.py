"""Structures, cells and text of MATLAB files, as SciPy writes them."""

import numpy as np
import pytest
from scipy.io import savemat

from vergence.core.errors import VergenceError
from vergence.reading.matlab_structs import read_mat_tree


def _tree():
    rows = np.zeros((1, 2), dtype=[("name", object), ("box", object)])
    rows[0, 0], rows[0, 1] = ("first", np.array([[1.0, 2.0]])), ("zweite ü", np.zeros((0, 0)))
    cells = np.empty((2, 2), object)
    cells[0, 0], cells[1, 0], cells[0, 1], cells[1, 1] = "a", 3.0, {"deep": rows}, np.arange(3)
    return {"rows": rows, "cells": cells, "number": np.int16([[5, 6]]), "other": np.array([1j])}


@pytest.mark.parametrize("packed", [False, True])
def test_structures_are_dictionaries_and_cells_are_lists_in_the_order_of_matlab(packed, tmp_path):
    savemat(tmp_path / "a.mat", _tree(), do_compression=packed)
    tree = read_mat_tree(tmp_path / "a.mat", ("rows", "cells", "number", "missing"))
    assert set(tree) == {"rows", "cells", "number"}
    assert [row["name"] for row in tree["rows"]] == ["first", "zweite ü"]
    np.testing.assert_array_equal(tree["rows"][0]["box"], [[1, 2]])
    assert tree["rows"][1]["box"].size == 0
    assert tree["cells"][:1] == ["a"]
    assert tree["cells"][1] == 3
    assert tree["cells"][2][0]["deep"][1]["name"] == "zweite ü"  # columns first
    np.testing.assert_array_equal(tree["cells"][3], [[0, 1, 2]])
    assert tree["number"].dtype == np.int16


@pytest.mark.parametrize("packed", [False, True])
def test_every_truncation_is_refused_in_a_sentence(packed, tmp_path):
    path = tmp_path / "whole.mat"
    savemat(path, _tree(), do_compression=packed)
    content = path.read_bytes()
    names = ("rows", "cells", "number")
    for length in range(0, len(content) - 1, 37):
        (tmp_path / "cut.mat").write_bytes(content[:length])
        try:
            tree = read_mat_tree(tmp_path / "cut.mat", names)
        except VergenceError as refusal:
            assert "cut.mat" in str(refusal)
            assert "\n" not in str(refusal)
        else:  # cut between two variables
            assert set(tree) < set(names)


def test_complex_numbers_are_refused(tmp_path):
    savemat(tmp_path / "a.mat", _tree())
    with pytest.raises(VergenceError, match=r"a\.mat is not a complete \.mat file"):
        read_mat_tree(tmp_path / "a.mat", ("other",))
