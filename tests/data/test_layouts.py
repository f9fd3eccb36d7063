"""Data sources."""

from pathlib import Path

import pytest

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.layouts import find

LAYOUTS = {"cifar10": Layout(lambda p, s: p, "the batches"), "folder": Layout(lambda p, s: p, "class folders")}


def test_embedded_needs_no_reader():
    assert find("embedded", LAYOUTS) is None


def test_a_layout_and_a_plain_path_find_their_reader(tmp_path):
    assert find(f"cifar10:{tmp_path}", LAYOUTS) == (LAYOUTS["cifar10"], tmp_path)
    assert find(str(tmp_path), LAYOUTS) == (LAYOUTS["folder"], tmp_path)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("cifar1:x", "no layout 'cifar1'.*'cifar10'"),
        ("cifar10:nowhere", "nowhere does not exist; expected the batches"),
    ],
)
def test_what_is_not_there_is_named(source, said):
    with pytest.raises(VergenceError, match=said):
        find(source, LAYOUTS)


def test_a_windows_drive_is_a_path():
    with pytest.raises(VergenceError, match="does not exist"):
        find(str(Path("C:/nowhere")), LAYOUTS)
