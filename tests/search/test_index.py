"""The index finds what comparing everything finds, and comes back from its file."""

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.files import save_tensors
from saccade.search import Index
from saccade.search.index import descriptors_by


def index(count=50):
    torch.manual_seed(0)
    return Index(torch.randn(count, 6), tuple(f"{i}.jpg" for i in range(count)), "weights")


def test_it_finds_the_nearest_in_order():
    kept, queries = index(), torch.randn(4, 6)
    far, places = kept.search(queries, 5)
    exact = torch.cdist(queries, kept.descriptors).sort(dim=1)
    assert torch.equal(places, exact.indices[:, :5])
    torch.testing.assert_close(far, exact.values[:, :5], rtol=1e-4, atol=1e-4)


def test_asking_for_more_than_there_is_gives_all():
    assert index(3).search(torch.zeros(1, 6), 10)[1].shape == (1, 3)


def test_it_comes_back_from_its_file(tmp_path):
    kept = index()
    kept.save(tmp_path / "kept.safetensors")
    again = Index.load(tmp_path / "kept.safetensors", "weights")
    assert again.names == kept.names
    assert torch.equal(again.descriptors, kept.descriptors)


def test_one_made_by_other_weights_is_refused(tmp_path):
    index().save(tmp_path / "kept.safetensors")
    with pytest.raises(SaccadeError, match="made with other weights"):
        Index.load(tmp_path / "kept.safetensors", "others")


def test_files_that_are_no_index_are_refused(tmp_path):
    save_tensors(tmp_path / "other.safetensors", {"x": torch.zeros(1)})
    (tmp_path / "text").write_text("hello")
    for name in ("other.safetensors", "text", "nothing"):
        with pytest.raises(SaccadeError, match=name):
            Index.load(tmp_path / name)


def test_what_does_not_fit_is_refused():
    with pytest.raises(SaccadeError, match="a name for each descriptor"):
        Index(torch.zeros(2, 3), ("one",), "w")
    with pytest.raises(SaccadeError, match="not finite"):
        Index(torch.full((1, 3), float("nan")), ("one",), "w")
    with pytest.raises(SaccadeError, match="descriptors of 6 numbers"):
        index().search(torch.zeros(1, 5), 1)


def test_weights_have_a_name_of_their_own():
    a, b = torch.zeros(3), torch.zeros(3)
    assert descriptors_by([a]) == descriptors_by([b])
    b[1] = 1e-30
    assert descriptors_by([a]) != descriptors_by([b])
