"""Neighbours are the nearest ones, however they are found."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

from vergence.ops import knn as module
from vergence.ops.knn import gathered, kd_tree, nearest


def cloud(batch=2, count=300, dimensions=3, seed=0):
    return torch.randn(batch, count, dimensions, generator=torch.Generator().manual_seed(seed))


def sorted_distances(points, queries):
    return (queries[:, :, None] - points[:, None]).norm(dim=-1).sort(-1)


@pytest.mark.parametrize("count", [20, 300])  # all distances, and a tree
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_neighbours_are_those_of_a_full_sort(count, kind):
    points, queries = cloud(count=count).to(kind), cloud(count=50, seed=1).to(kind)
    assert (nearest(points, 7, queries) == sorted_distances(points, queries).indices[..., :7]).all()
    own = nearest(points, 7)
    assert (own == sorted_distances(points, points).indices[..., :7]).all()
    assert (own[..., 0] == torch.arange(count)).all()


def test_blocks_of_rows_change_nothing(monkeypatch):
    points = cloud(dimensions=12)
    whole = nearest(points, 5)
    monkeypatch.setattr(module, "BLOCK", 2000)
    assert (nearest(points, 5) == whole).all()


def test_points_at_one_place_are_all_neighbours():
    points = torch.cat([torch.zeros(1, 200, 3), torch.ones(1, 200, 3)], 1)
    near = nearest(points, 10)
    assert (near[0, :200] < 200).all()
    assert (near[0, 200:] >= 200).all()
    assert all(len(set(row)) == 10 for row in near[0].tolist())


def test_one_neighbour_keeps_its_dimension():
    assert nearest(cloud(count=200), 1).shape == (2, 200, 1)
    assert nearest(cloud(count=1), 1).tolist() == [[[0]], [[0]]]


def test_more_neighbours_than_points_are_refused():
    with pytest.raises(ValueError, match="5 neighbours cannot be taken from 4 points"):
        nearest(cloud(count=4), 5)


def test_the_tree_is_an_operator_that_pytorch_can_follow():
    torch.library.opcheck(kd_tree, (cloud(), cloud(count=30, seed=1), 4))
    assert nearest(cloud().to("meta"), 4).shape == (2, 300, 4)
    with FakeTensorMode() as mode:
        assert nearest(mode.from_tensor(cloud()), 4).dtype == torch.int64


def test_gathering_takes_rows_and_gives_back_gradients():
    values = cloud(count=9, dimensions=4).double().requires_grad_()
    index = torch.randint(0, 9, (2, 6, 3), generator=torch.Generator().manual_seed(0))
    taken = gathered(values, index)
    assert taken.shape == (2, 6, 3, 4)
    assert (taken[1, 5, 2] == values[1, index[1, 5, 2]]).all()
    assert torch.autograd.gradcheck(lambda v: gathered(v, index), (values,))
