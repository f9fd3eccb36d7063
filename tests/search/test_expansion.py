"""Query expansion equals a loop over queries and neighbours."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.search import Alpha, Average, Decayed, Discriminative, Index, NoExpansion, augmented, expanded
from vergence.search.expansion import first_search, normalised


def world(count=40, dimension=12):
    torch.manual_seed(0)
    gallery = normalised(torch.randn(count, dimension), "gallery")
    return gallery, Index(gallery, tuple(map(str, range(count))), "w"), normalised(torch.randn(5, dimension), "queries")


def by_hand(gallery, query, k, weigh):
    """One query, step by step: rank by cosine, weight by rank and cosine, sum, normalise."""
    cosines = gallery @ query
    order = cosines.argsort(descending=True)[:k]
    total = query.clone()
    for rank, place in enumerate(order.tolist(), 1):
        total = total + weigh(rank, float(cosines[place])) * gallery[place]
    return total / total.norm()


@pytest.mark.parametrize(
    ("method", "weigh"),
    [
        (NoExpansion(), lambda rank, cosine: 0),
        (Average(), lambda rank, cosine: 1),
        (Decayed(), lambda rank, cosine: (7 - rank) / 7),
        (Alpha(3), lambda rank, cosine: max(cosine, 0) ** 3),
    ],
)
def test_a_method_is_its_definition(method, weigh):
    gallery, index, queries = world()
    made, weights, found = expanded(index, queries, method, 7)
    for row, query in enumerate(queries):
        torch.testing.assert_close(made[row], by_hand(gallery, query, 7, weigh), rtol=1e-4, atol=1e-5)
    assert weights.shape == (5, 8)
    torch.testing.assert_close(found.similarities, torch.einsum("bd,bkd->bk", queries, found.neighbours))


def test_dqe_ranks_its_neighbours_above_the_farthest():
    gallery, index, queries = world()
    made, weights, found = expanded(index, queries, Discriminative(3, 10.0), 4)
    lowest = (queries @ gallery.T).topk(3, largest=False).indices
    near = torch.einsum("bd,bkd->bk", made, found.neighbours)
    far = torch.einsum("bd,bkd->bk", made, gallery[lowest])
    assert (near.min(1).values > far.max(1).values).all()
    assert (weights >= 0).all()


def test_dqe_in_a_gallery_smaller_than_it_asks_for_still_answers():
    _, index, queries = world(4)
    made, _, _ = expanded(index, queries, Discriminative(5, 0.1), 4)
    torch.testing.assert_close(made.norm(dim=1), torch.ones(5))


def test_a_query_that_is_in_the_index_is_not_its_own_neighbour():
    gallery, index, _ = world()
    own = torch.tensor([3, 17])
    found = first_search(index, gallery[own], 39, own)
    assert not (found.places == own[:, None]).any()
    assert sorted(found.places[0].tolist()) == [i for i in range(40) if i != 3]
    assert (found.similarities.diff(dim=1) <= 1e-6).all()


def test_a_copy_of_the_query_stays_and_only_the_query_itself_goes():
    gallery = torch.eye(4)[[0, 0, 1, 2]]
    index = Index(gallery, ("a", "copy", "b", "c"), "w")
    for own in (0, 1):
        assert first_search(index, gallery[:1], 1, torch.tensor([own])).places.tolist() == [[1 - own]]


def test_augmenting_expands_every_item_over_the_others():
    gallery, index, _ = world()
    made = augmented(index, gallery, Average(), 3, batch=16)
    for place in (0, 16, 39):
        others = torch.cat([gallery[:place], gallery[place + 1 :]])
        torch.testing.assert_close(made[place], by_hand(others, gallery[place], 3, lambda *_: 1), rtol=1e-4, atol=1e-5)


def test_lists_of_an_approximate_index_that_come_back_short_are_padded():
    torch.manual_seed(0)
    gallery = normalised(torch.randn(400, 8), "g")
    index = Index(gallery, tuple(map(str, range(400))), "w", "ivf", effort=1)
    made, weights, found = expanded(index, gallery[:5] + 0.01, Average(), 300)
    assert found.padding.any()
    assert (weights[:, 1:][found.padding] == 0).all()
    assert made.isfinite().all()


@pytest.mark.parametrize("method", [Average(), Alpha(), Decayed(), NoExpansion()])
def test_no_neighbours_leave_the_query(method):
    _, index, queries = world()
    torch.testing.assert_close(expanded(index, queries, method, 0)[0], queries)


def test_more_neighbours_than_the_index_holds_are_refused():
    gallery, index, queries = world()
    with pytest.raises(VergenceError, match="an index of 40 cannot give 41 neighbours; ask for 0 to 40"):
        first_search(index, queries, 41)
    with pytest.raises(VergenceError, match="ask for 0 to 39"):
        first_search(index, gallery[:2], 40, torch.tensor([0, 1]))


def test_vectors_without_a_direction_are_refused():
    with pytest.raises(VergenceError, match="1 of 2 queries have no direction: the first, at row 1, is zero"):
        normalised(torch.tensor([[1.0, 0], [0, 0]]), "queries")
    with pytest.raises(VergenceError, match="at row 0, is not finite"):
        normalised(torch.tensor([[float("inf"), 0]]), "queries")
    with pytest.raises(VergenceError, match="one descriptor per row"):
        normalised(torch.zeros(3), "queries")
