"""Parts of data, and where data comes from."""

import copy
import pickle

import pytest

from vergence.contract.data import First, Indices, Layout, source_of
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share


class Numbers(list):
    classes = ("even", "odd")


def test_the_first_samples_keep_the_rest_of_what_data_has():
    some = First(Numbers(range(5)), 3)
    assert (len(some), [some[i] for i in range(3)], some[-1]) == (3, [0, 1, 2], 2)
    assert some.classes == ("even", "odd")
    with pytest.raises(IndexError):
        some[3]
    with pytest.raises(AttributeError):
        _ = some.nothing
    assert len(First(Numbers(range(2)), 3)) == 2
    assert len(copy.copy(some)) == len(pickle.loads(pickle.dumps(First([1, 2, 3], 2)))) + 1


def test_indices_are_their_own_samples():
    assert list(Indices(3)) == [0, 1, 2]


def test_a_source_is_embedded_or_read_by_its_layout(tmp_path):
    layouts = {"list": Layout(lambda path, split: (path.name, split), "a list")}
    assert read("embedded", layouts, "train", lambda: "made") == "made"
    assert read(f"list:{tmp_path}", layouts, "val", lambda: "made") == (tmp_path.name, "val")
    with pytest.raises(VergenceError, match="no layout"):
        read(f"lists:{tmp_path}", layouts, "val", lambda: "made")
    assert (share(100, "train"), share(100, "val"), share(2, "test")) == (100, 25, 1)


def test_a_config_says_where_its_data_comes_from_or_does_not():
    class Settings:
        source = "cifar10:data"

    class Config:
        data = Settings()

    assert source_of(Config()) == "cifar10:data"
    assert source_of(object()) is None
