import numpy as np
import pytest
import torch

from vergence.ops import reciprocal as ours
from vergence.reference import ranking as plain


def cloud(seed=0, count=40, dtype=torch.float64):
    source = torch.Generator().manual_seed(seed)
    centres = torch.randn(5, 4, generator=source, dtype=dtype)
    points = centres[torch.randint(0, 5, (count,), generator=source)]
    return points + 0.5 * torch.randn(count, 4, generator=source, dtype=dtype)


def squared(points):
    return (points[:, None] - points).square().sum(-1)


def sets(points, k):
    order = squared(points).argsort(1)[:, :k]
    return [{int(j) for j in order[i] if i in order[j]} for i in range(len(points))]


def test_neighbours_are_the_nearest_with_their_distances(monkeypatch):
    monkeypatch.setattr(ours, "BLOCK", 100)
    points = cloud()
    found, whole = ours.neighbours(points, 7), squared(points)
    distances, places = whole.sort(1)
    assert torch.equal(found.places, places[:, :7])
    torch.testing.assert_close(found.distances, distances[:, :7])
    torch.testing.assert_close(found.farthest, whole.amax(1))


def test_sets_are_those_of_the_definition():
    points = cloud(1)
    found = ours.reciprocal(ours.neighbours(points, 9), 9).toarray()
    assert [set(np.flatnonzero(row)) for row in found] == sets(points, 9)


def test_jaccard_of_sets_is_overlap_over_union():
    points = cloud(2)
    expected = [[len(a & b) / len(a | b) for a in sets(points, 6)] for b in sets(points, 6)]
    found = ours.jaccard(ours.reciprocal(ours.neighbours(points, 6), 6))
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-7)
    assert found.nnz == np.count_nonzero(expected)


def test_jaccard_of_fuzzy_sets_is_minima_over_maxima(monkeypatch):
    monkeypatch.setattr(ours, "BLOCK", 300)
    points = cloud(3)
    code = ours.encoded(points, ours.neighbours(points, 10), 9, 4)
    dense = code.toarray()
    np.testing.assert_allclose(dense.sum(1), 1)
    expected = np.minimum(dense[:, None], dense).sum(-1) / np.maximum(dense[:, None], dense).sum(-1)
    np.testing.assert_allclose(ours.jaccard(code).toarray(), expected, atol=1e-12)


@pytest.mark.parametrize(("k1", "k2"), [(6, 3), (5, 1), (9, 4)])
def test_reranking_equals_the_plain_form(k1, k2, monkeypatch):
    monkeypatch.setattr(ours, "BLOCK", 200)
    points = cloud(k1)
    expected = plain.rerank(squared(points).numpy(), 8, k1, k2, 0.3)
    np.testing.assert_allclose(ours.rerank(points, 8, k1, k2, 0.3).numpy(), expected, rtol=1e-6, atol=1e-7)


def test_reranking_with_the_whole_share_on_the_original_is_the_original_order():
    points = cloud(4, 30)
    assert torch.equal(ours.rerank(points, 5, 6, 3, 1.0).argsort(1), squared(points)[:5, 5:].argsort(1))


def test_images_that_are_all_the_same_are_at_no_distance_from_each_other():
    assert torch.equal(ours.rerank(torch.ones(12, 3), 4, 11, 1, 0.3), torch.zeros(4, 8))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="queries and a gallery"):
        ours.rerank(torch.zeros(3, 4), 3)
    with pytest.raises(ValueError, match="k1=20"):
        ours.rerank(torch.zeros(9, 9), 2)
    with pytest.raises(ValueError, match="at least 5 rows"):
        ours.neighbours(torch.zeros(4, 2), 5)
