"""A folder of shards answers as a single index would, and is only valid once complete."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.search import Alpha, Index, Shards, expanded
from vergence.search.expansion import normalised


def parts(vectors, sizes):
    start = 0
    for size in sizes:
        yield vectors[start : start + size], [f"{i}.jpg" for i in range(start, start + size)]
        start += size


def test_it_finds_what_one_index_finds(tmp_path):
    torch.manual_seed(0)
    vectors, queries = normalised(torch.randn(103, 8), "v"), normalised(torch.randn(6, 8), "q")
    whole = Index(vectors, tuple(f"{i}.jpg" for i in range(103)), "w")
    shards = Shards.build(tmp_path / "s", parts(vectors, [10, 50, 0, 43]), "w", size=25)
    assert len(shards) == 103
    assert len(shards.files) == 5
    assert shards.names == whole.names
    for ours, theirs in zip(shards.search(queries, 40), whole.search(queries, 40), strict=True):
        torch.testing.assert_close(ours, theirs)
    places = torch.tensor([[0, 24, 25], [102, 50, 3]])
    assert torch.equal(shards.vectors(places), vectors[places])
    torch.testing.assert_close(expanded(shards, queries, Alpha(), 30)[0], expanded(whole, queries, Alpha(), 30)[0])


def test_more_than_there_is_gives_all(tmp_path):
    shards = Shards.build(tmp_path / "s", parts(torch.eye(5), [5]), "w", size=2)
    assert sorted(shards.search(torch.zeros(1, 5), 9)[1][0].tolist()) == [0, 1, 2, 3, 4]


def test_a_build_that_fails_leaves_no_index(tmp_path):
    def mixed():
        yield torch.zeros(3, 4), ["a", "b", "c"]
        yield torch.zeros(2, 5), ["d", "e"]

    with pytest.raises(VergenceError, match="'d' has 5 numbers, those before it 4"):
        Shards.build(tmp_path / "s", mixed(), "w", size=2)
    with pytest.raises(VergenceError, match="does not exist"):
        Shards(tmp_path / "s")


def test_what_is_empty_or_made_by_others_is_refused(tmp_path):
    with pytest.raises(VergenceError, match="empty"):
        Shards.build(tmp_path / "none", iter([]), "w")
    Shards.build(tmp_path / "s", parts(torch.eye(5), [5]), "w")
    with pytest.raises(VergenceError, match="other weights"):
        Shards(tmp_path / "s", made_by="others")
