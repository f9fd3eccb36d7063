"""Local matching equals its definition, forward and backward, whatever the blocks, and behaves as a search does."""

import pytest
import torch
import torch.nn.functional as F

from vergence.ops import local_matching
from vergence.ops.local_matching import matching_distances, nearest_similarities, reconstruction_distances


def unit(*shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(*shape, generator=source, dtype=torch.float64), dim=-1)


def plain(query, gallery, weights):
    far = torch.cdist(query[:, None].expand(-1, len(gallery), -1, -1), gallery[None].expand(len(query), -1, -1, -1))
    return (far.amin(3) * weights[:, None]).sum(2)


@pytest.mark.parametrize("pairs", [1, 100, 1 << 22])
def test_blocks_of_any_size_give_the_definition(monkeypatch, pairs):
    monkeypatch.setattr(local_matching, "PAIRS", pairs)
    query, gallery = unit(3, 5, 8), unit(7, 4, 8, seed=1)
    weights = torch.rand(3, 5, dtype=torch.float64).softmax(1)
    assert torch.allclose(matching_distances(query, gallery, weights), plain(query, gallery, weights), atol=1e-12)
    mean = torch.full((3, 5), 1 / 5, dtype=torch.float64)
    assert torch.allclose(matching_distances(query, gallery), plain(query, gallery, mean), atol=1e-12)


def test_gradients_are_those_of_the_definition():
    query, gallery = unit(2, 3, 4).requires_grad_(), unit(3, 5, 4, seed=1).requires_grad_()
    weights = torch.tensor([[0.2, 0.3, 0.5]] * 2, dtype=torch.float64, requires_grad=True)
    ours = torch.autograd.grad(matching_distances(query, gallery, weights).square().sum(), (query, gallery, weights))
    unit_lengths = plain(F.normalize(query, dim=-1), F.normalize(gallery, dim=-1), weights).square().sum()
    theirs = torch.autograd.grad(unit_lengths, (query, gallery, weights))
    assert torch.allclose(ours[2], theirs[2], atol=1e-10)
    for mine, other, place in ((ours[0], theirs[0], query), (ours[1], theirs[1], gallery)):
        along = (mine * place).sum(-1, keepdim=True) * place  # lengths are held at one
        assert torch.allclose(mine - along, other, atol=1e-8)


def test_a_picture_that_holds_every_location_is_at_distance_zero():
    query = unit(2, 5, 8)
    gallery = torch.cat([query[:, torch.tensor([3, 1, 0, 2, 4])], unit(2, 6, 8, seed=2)], 1)
    assert matching_distances(query, gallery).diagonal().abs().max() < 1e-6
    assert not torch.allclose(matching_distances(query, gallery), matching_distances(gallery, query).mT)


def test_more_locations_never_increase_a_distance_and_locations_without_weight_do_not_count():
    query, gallery = unit(3, 4, 8), unit(5, 4, 8, seed=1)
    more = torch.cat([gallery, unit(5, 3, 8, seed=2)], 1)
    assert (matching_distances(query, more) <= matching_distances(query, gallery)).all()
    weights = torch.tensor([[0.5, 0.5, 0, 0]] * 3, dtype=torch.float64)
    other = torch.cat([query[:, :2], unit(3, 2, 8, seed=3)], 1)
    assert torch.equal(matching_distances(query, gallery, weights), matching_distances(other, gallery, weights))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\(Q, L, D\)"):
        nearest_similarities(unit(2, 3, 4), unit(2, 3, 5))
    with pytest.raises(ValueError, match="one for each location"):
        matching_distances(unit(2, 3, 4), unit(2, 3, 4), torch.ones(2, 4, dtype=torch.float64))
    assert nearest_similarities(unit(0, 3, 4), unit(2, 3, 4)).shape == (0, 2, 3)


def test_reconstruction_is_the_ridge_regression_of_every_pair():
    query, gallery = unit(2, 4, 6), unit(3, 5, 6, seed=1)
    weights = torch.rand(2, 4, dtype=torch.float64).softmax(1)
    found = reconstruction_distances(query, gallery, weights, ridge=0.1)
    for a in range(2):
        for b in range(3):
            columns = gallery[b].mT
            best = torch.linalg.solve(
                gallery[b] @ columns + 0.1 * torch.eye(5, dtype=torch.float64), gallery[b] @ query[a].mT
            )
            residual = (columns @ best - query[a].mT).norm(dim=0)
            assert float(found[a, b]) == pytest.approx(float((residual * weights[a]).sum()), abs=1e-10)
    exact = reconstruction_distances(query, torch.cat([query, unit(2, 1, 6, seed=4)], 1), ridge=1e-9)
    assert exact.diagonal().abs().max() < 1e-4
