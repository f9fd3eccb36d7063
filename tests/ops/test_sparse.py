"""Sparse convolutions are the dense ones read at occupied voxels, forward and backward."""

import pytest
import torch
import torch.nn.functional as F

from vergence.nn.sparse import SparseConv3d, SparseMaxPool3d, SparseTensor, joined
from vergence.ops.sparse import (
    coarser,
    interpolated,
    interpolation,
    offsets,
    sparse_convolution,
    strided_map,
    submanifold_map,
    voxel_means,
    voxels_of,
)
from vergence.reference import sparse as plain

SIZE = (12, 12, 12)


def some(count=300, clouds=2, seed=0, low=0):
    source = torch.Generator().manual_seed(seed)
    places = torch.randint(low, 12 + low, (count, 3), generator=source)
    return torch.cat([torch.randint(0, clouds, (count, 1), generator=source), places], 1)


def noise(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensor(channels=3, **kwargs):
    coordinates = some(**kwargs)
    return SparseTensor.of(coordinates, noise(len(coordinates), channels))


def as_dense(layer):
    """The weights of a sparse layer as those of torch's convolution."""
    k = layer.kernel
    weight = layer.weight.reshape(k, k, k, *layer.weight.shape[1:])
    return weight.permute(3, 4, 0, 1, 2) if layer.transposed else weight.permute(4, 3, 0, 1, 2)


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (5, 1), (3, 2), (1, 1)])
def test_a_submanifold_convolution_is_the_dense_one_at_occupied_voxels(kernel, dilation):
    x = tensor()
    features = x.features.clone().requires_grad_()
    layer = SparseConv3d(3, 5, kernel, dilation=dilation).double()
    ours = layer(x.with_features(features)).features
    dense = F.conv3d(
        x.with_features(features).dense(SIZE, 2), as_dense(layer), padding=kernel // 2 * dilation, dilation=dilation
    )
    cloud, i, j, k = x.voxels.coordinates.unbind(1)
    theirs = dense[cloud, :, i, j, k]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    direction = noise(*ours.shape, seed=2)
    leaves = (features, layer.weight)
    for a, b in zip(
        torch.autograd.grad(ours, leaves, direction), torch.autograd.grad(theirs, leaves, direction), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 3), (3, 2), (4, 2), (5, 2)])
def test_a_strided_convolution_is_the_dense_one_at_the_coarser_voxels(kernel, stride):
    x = tensor()
    features = x.features.clone().requires_grad_()
    layer = SparseConv3d(3, 4, kernel, stride).double()
    result = layer(x.with_features(features))
    padding = kernel // 2 if kernel % 2 and kernel != stride else 0
    # An even kernel reaches beyond the far border of the grid.
    grid = F.pad(x.with_features(features).dense(SIZE, 2), (0, kernel) * 3)
    dense = F.conv3d(grid, as_dense(layer), stride=stride, padding=padding)
    cloud, i, j, k = result.voxels.coordinates.unbind(1)
    theirs = dense[cloud, :, i, j, k]
    torch.testing.assert_close(result.features, theirs, rtol=0, atol=1e-12)
    direction = noise(*theirs.shape, seed=2)
    leaves = (features, layer.weight)
    ours = torch.autograd.grad(result.features, leaves, direction)
    for a, b in zip(ours, torch.autograd.grad(theirs, leaves, direction), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_a_transposed_convolution_returns_to_the_voxels_in_their_order():
    x = tensor()
    down, up = SparseConv3d(3, 4, 2, 2).double(), SparseConv3d(4, 5, 2, 2, transposed=True).double()
    middle = down(x)
    back = up(middle)
    assert torch.equal(back.voxels.coordinates, x.voxels.coordinates)
    dense = F.conv_transpose3d(middle.dense((6, 6, 6), 2), as_dense(up), stride=2)
    cloud, i, j, k = x.voxels.coordinates.unbind(1)
    torch.testing.assert_close(back.features, dense[cloud, :, i, j, k], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_is_close(dtype):
    x = tensor(16)
    layer = SparseConv3d(16, 8).double()
    exact = layer(x).features
    rounded = layer.to(dtype)(x.with_features(x.features.to(dtype))).features
    assert rounded.dtype == dtype
    torch.testing.assert_close(rounded.double(), exact, rtol=0, atol=1e-5 if dtype == torch.float32 else 0.03)


def test_every_pair_is_in_the_map_once_and_the_middle_offset_is_the_identity():
    voxels, _ = voxels_of(some(low=-30))
    pairs = submanifold_map(voxels)
    known = {tuple(row): number for number, row in enumerate(voxels.coordinates.tolist())}
    expected = []
    for shift in offsets(3).tolist():
        for row, number in known.items():
            other = (row[0], *(a + b for a, b in zip(row[1:], shift, strict=True)))
            if other in known:
                expected.append((known[other], number))
    assert list(zip(pairs.inputs.tolist(), pairs.outputs.tolist(), strict=True)) == expected
    start = sum(pairs.counts[:13])
    assert pairs.identity == 13
    assert torch.equal(pairs.inputs[start : start + pairs.counts[13]], torch.arange(len(voxels)))


def test_voxels_are_sorted_and_every_point_knows_its_own():
    coordinates = some(low=-5)
    voxels, owner = voxels_of(coordinates)
    assert torch.equal(voxels.coordinates[owner], coordinates)
    rows = voxels.coordinates.tolist()
    assert rows == sorted(rows)
    assert len({tuple(row) for row in rows}) == len(rows)
    coarse, parent = coarser(voxels)
    assert torch.equal(coarse.coordinates[parent, 1:], torch.div(voxels.coordinates[:, 1:], 2, rounding_mode="floor"))
    assert coarse.stride == 2
    assert sum(strided_map(voxels, coarse, parent).counts) == len(voxels)


def test_clouds_do_not_touch():
    one, other = some(clouds=1), some(clouds=1, seed=5)
    apart = torch.cat([one, other + torch.tensor([1, 0, 0, 0])])
    layer = SparseConv3d(1, 2).double()
    features = noise(len(apart), 1)
    together = layer(SparseTensor.of(apart, features))
    alone = layer(SparseTensor.of(one, features[: len(one)]))
    torch.testing.assert_close(together.features[: len(alone.features)], alone.features)


def test_coordinates_beyond_64_bits_are_refused():
    far = torch.tensor([[0, 0, 0, 0], [0, 1 << 40, 1 << 40, 1 << 40]])
    with pytest.raises(ValueError, match="64-bit"):
        voxels_of(far)
    with pytest.raises(ValueError, match="whole numbers"):
        voxels_of(torch.zeros(3, 4))


@pytest.mark.parametrize("count", [1, 2])
def test_one_voxel_is_enough(count):
    x = SparseTensor.of(torch.zeros(count, 4, dtype=torch.long), noise(count, 2))
    assert len(x.features) == 1
    assert SparseConv3d(2, 3).double()(x).features.shape == (1, 3)
    assert SparseConv3d(2, 3, 2, 2).double()(x).features.shape == (1, 3)


def test_means_keep_constants_and_do_not_depend_on_the_order():
    owner = torch.tensor([0, 2, 2, 0, 2])
    features = noise(5, 3)
    means = voxel_means(features, owner, 4)
    torch.testing.assert_close(means[2], features[[1, 2, 4]].mean(0))
    assert float(means[1].abs().max()) == 0
    order = torch.tensor([3, 1, 4, 0, 2])
    torch.testing.assert_close(voxel_means(features[order], owner[order], 4), means)
    torch.testing.assert_close(voxel_means(torch.ones(5, 1), owner, 3)[[0, 2]], torch.ones(2, 1))
    assert torch.autograd.gradcheck(lambda f: voxel_means(f, owner, 4), features.requires_grad_())


def test_interpolation_reproduces_affine_functions_and_is_exact_at_voxels():
    full = torch.cartesian_prod(*[torch.arange(6)] * 3)
    voxels, _ = voxels_of(torch.cat([torch.zeros(len(full), 1, dtype=torch.long), full], 1))
    values = voxels.coordinates[:, 1:].double() @ noise(3, 2) + 0.5
    places = torch.cat(
        [torch.zeros(50, 1), 4.9 * torch.rand(50, 3, generator=torch.Generator().manual_seed(0))], 1
    ).double()
    around = interpolation(voxels, places)
    torch.testing.assert_close(around.weights.sum(1), torch.ones(50, dtype=torch.float64), rtol=0, atol=1e-6)
    expected = places[:, 1:] @ noise(3, 2) + 0.5
    torch.testing.assert_close(interpolated(values, around), expected, rtol=1e-6, atol=1e-6)
    own = interpolation(voxels, voxels.coordinates.double())
    torch.testing.assert_close(interpolated(values, own), values, rtol=1e-6, atol=1e-6)
    assert torch.autograd.gradcheck(lambda f: interpolated(f, around), noise(len(voxels), 1).requires_grad_())


def test_missing_corners_give_their_weight_to_the_others():
    voxels, _ = voxels_of(torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0]]))
    around = interpolation(voxels, torch.tensor([[0, 0.25, 0.5, 0.5], [0, 9.0, 9.0, 9.0]], dtype=torch.float64))
    features = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(
        interpolated(features, around), torch.tensor([[0.25], [0.0]], dtype=torch.float64), rtol=0, atol=1e-6
    )
    nearest = interpolation(voxels, torch.tensor([[0, 0.9, 0.5, 0.5]], dtype=torch.float64), nearest=True)
    assert float(interpolated(features, nearest)) == 0.0


def test_pooling_takes_the_largest_feature_of_a_coarser_voxel():
    x = tensor()
    pooled = SparseMaxPool3d()(x)
    dense = x.dense(SIZE, 2).masked_fill(
        SparseTensor(torch.ones_like(x.features), 1, x.levels).dense(SIZE, 2) == 0, -torch.inf
    )
    cloud, i, j, k = pooled.voxels.coordinates.unbind(1)
    torch.testing.assert_close(pooled.features, F.max_pool3d(dense, 2)[cloud, :, i, j, k])


def test_maps_are_computed_once_for_all_layers_of_a_level():
    x = tensor()
    first, second = SparseConv3d(3, 3).double(), SparseConv3d(3, 3).double()
    y = second(first(x))
    assert len(x.levels.maps) == 1
    assert joined(x, y).features.shape[1] == 6
    up = SparseConv3d(3, 3, 2, 2, transposed=True).double()
    up(SparseConv3d(3, 3, 2, 2).double()(y))
    assert len(x.levels.maps) == 2


def test_wrong_shapes_are_refused():
    voxels, _ = voxels_of(some())
    with pytest.raises(ValueError, match="offsets"):
        sparse_convolution(noise(3, 2), noise(27, 2, 2), submanifold_map(voxels))
    with pytest.raises(ValueError, match="odd size"):
        submanifold_map(voxels, 2)


def test_layers_can_be_counted_without_data():
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        x = SparseTensor.of(torch.zeros(100, 4, dtype=torch.long), torch.zeros(100, 3))
        y = SparseConv3d(3, 8)(x)
        z = SparseConv3d(8, 4, 2, 2, transposed=True)(SparseConv3d(8, 8, 2, 2)(y))
    assert z.features.shape == (100, 4)
    assert counter.get_total_flops() == 2 * 100 * (27 * 3 * 8 + 8 * 8 + 8 * 4)


def test_gradients_of_a_small_convolution():
    voxels, _ = voxels_of(some(20, 1))
    pairs = submanifold_map(voxels)
    features, weight = noise(len(voxels), 2).requires_grad_(), noise(27, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, w: sparse_convolution(f, w, pairs), (features, weight))


@pytest.mark.parametrize("rows", [1, 7, 50, 100_000])
def test_chunks_of_any_size_give_the_same_convolution_and_gradients(rows, monkeypatch):
    """Chunks hold a part of one offset, several whole ones, or all; the dictionary is the definition."""
    voxels = voxels_of(some(150))[0]
    pairs = submanifold_map(voxels)
    features, weight = noise(len(voxels), 3).requires_grad_(), noise(27, 3, 4, seed=2).requires_grad_()
    theirs = plain.convolution(voxels.coordinates, voxels.coordinates, features, weight, 3)
    monkeypatch.setattr("vergence.ops.sparse.ROWS", rows)
    ours = sparse_convolution(features, weight, pairs)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    probe = noise(*ours.shape, seed=3)
    for a, b in zip(*(torch.autograd.grad(side, (features, weight), probe) for side in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


def test_a_search_for_each_offset_finds_the_same_pairs():
    voxels = voxels_of(some(low=-4))[0]
    pairs = submanifold_map(voxels)
    maps = zip(pairs.inputs.split(pairs.counts), pairs.outputs.split(pairs.counts), strict=True)
    for ours, theirs in zip(maps, plain.maps_by_offsets(voxels.coordinates), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
