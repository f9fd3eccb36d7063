"""Edge convolution and neighbours in feature space."""

import pytest
import torch

from vergence.nn.edgeconv import EdgeMLP
from vergence.ops.edgeconv import edge_convolution, feature_neighbours, neighbour_max, on_sphere
from vergence.reference import pattern_net as plain


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", ["euclidean", "hilbert"])
@pytest.mark.parametrize(("points", "channels"), [(40, 3), (40, 20), (300, 3), (300, 9), (702, 12), (1024, 12)])
def test_neighbours_are_the_nearest(points, channels, distance, dtype):
    x = noise(2, points, channels, dtype=dtype)
    index = feature_neighbours(x, 7, distance)
    y = on_sphere(x.double()) if distance == "hilbert" else x.double()
    distances = torch.cdist(y, y)
    ours = distances.gather(2, index).sort(2).values
    torch.testing.assert_close(ours, distances.sort(2).values[..., :7], atol=1e-5, rtol=1e-4)
    assert all(len(set(row)) == 7 for row in index.flatten(0, 1).tolist())


def test_with_few_points_all_are_neighbours():
    assert feature_neighbours(noise(3, 5, 4).float(), 9).sort(2).values.tolist() == [[[0, 1, 2, 3, 4]] * 5] * 3


def test_many_groups_are_processed_in_blocks(monkeypatch):
    x = noise(9, 30, 6).float()
    whole = feature_neighbours(x, 4)
    monkeypatch.setattr("vergence.ops.edgeconv.BLOCK", 2000)
    assert torch.equal(feature_neighbours(x, 4).sort(2).values, whole.sort(2).values)


def test_a_zero_vector_has_a_direction_of_zeros():
    assert on_sphere(torch.zeros(2, 3)).tolist() == [[0, 0, 0]] * 2
    assert feature_neighbours(torch.zeros(1, 6, 3), 2, "hilbert").shape == (1, 6, 2)


@pytest.mark.parametrize("training", [True, False])
def test_convolution_passes_gradcheck(training):
    x, weight, bias = noise(2, 9, 3), noise(4, 6, seed=1), noise(4, seed=2)
    scale, shift = torch.tensor([1.0, -0.7, 0.3, -2.0]).double(), noise(4, seed=3)
    index = feature_neighbours(x, 4)
    kept = None if training else (noise(4, seed=4), noise(4, seed=5).abs() + 0.5)

    def run(*leaves):
        return edge_convolution(leaves[0], index, *leaves[1:], kept)[0]

    leaves = [leaf.requires_grad_() for leaf in (x, weight, bias, scale, shift)]
    assert torch.autograd.gradcheck(run, leaves)


@pytest.mark.parametrize("training", [True, False])
def test_convolution_is_the_direct_form_in_float32(training):
    layer = EdgeMLP(6, 10).train(training)
    with torch.no_grad():
        layer.norm.weight.copy_(noise(10).float())
        layer.norm.running_mean.copy_(noise(10, seed=1))
    x = noise(3, 50, 6, dtype=torch.float32).requires_grad_()
    index = feature_neighbours(x, 8)
    weights = dict(layer.state_dict(keep_vars=True))
    theirs = plain.edge_mlp(x.mT, index, weights, training).mT
    ours = layer(x, index)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    grads = [torch.autograd.grad(y.square().sum(), [x, *layer.parameters()]) for y in (ours, theirs)]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=1e-3)


def test_maxima_of_rows_and_their_gradients():
    values = noise(20, 5, dtype=torch.float32).requires_grad_()
    index = torch.randint(20, (7, 4), generator=torch.Generator().manual_seed(1))
    ours, theirs = neighbour_max(values, index), values[index].amax(1)
    assert torch.equal(ours, theirs)
    probe = noise(7, 5, seed=2, dtype=torch.float32)
    grads = [torch.autograd.grad((y * probe).sum(), values)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*grads)
    with torch.no_grad():
        assert torch.equal(neighbour_max(values, index), theirs)


def test_equal_values_give_one_of_them_the_gradient():
    values = torch.zeros(3, 2, requires_grad=True)
    (gradient,) = torch.autograd.grad(neighbour_max(values, torch.tensor([[0, 1, 2]])).sum(), values)
    assert gradient.sum(0).tolist() == [1, 1]


def test_running_statistics_are_those_of_all_edges():
    layer = EdgeMLP(4, 6).double()
    x = noise(2, 30, 4)
    index = feature_neighbours(x, 5)
    layer(x, index)
    kernel = torch.cat(layer.linear.weight.chunk(2, 1)[::-1], 1)
    edges = (plain.edge_features(x.mT, index).permute(0, 2, 3, 1) @ kernel.mT + layer.linear.bias).flatten(0, 2)
    torch.testing.assert_close(layer.norm.running_mean, 0.1 * edges.mean(0))
    torch.testing.assert_close(layer.norm.running_var, 0.9 + 0.1 * edges.var(0))
    assert int(layer.norm.num_batches_tracked) == 1
