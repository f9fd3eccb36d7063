"""Patches partition a map, and their means are those of their positions."""

import pytest
import torch

from vergence.ops import Patches
from vergence.reference.self_attention import rectangles

SHAPES = [(6, 4, 3, 2), (7, 5, 3, 2), (5, 5, 5, 5), (4, 9, 1, 4), (11, 3, 4, 3)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_position_lies_in_exactly_one_patch_and_no_patch_is_empty(shape):
    height, width, rows, columns = shape
    index = Patches(*shape).index()
    assert index.shape == (height * width,)
    counts = torch.bincount(index, minlength=rows * columns)
    assert len(counts) == rows * columns
    assert counts.min() > 0
    downs = {-(-height // rows), height // rows}
    across = {-(-width // columns), width // columns}
    assert set(counts.tolist()) <= {d * a for d in downs for a in across}


@pytest.mark.parametrize("shape", SHAPES)
def test_means_and_spreading_are_those_of_the_positions(shape):
    patches = Patches(*shape)
    z = torch.randn(2, 3, shape[0] * shape[1], 4, dtype=torch.float64, requires_grad=True)
    plain = torch.stack([z[..., p, :].mean(-2) for p in rectangles(*shape)], -2)
    ours = patches.mean(z)
    torch.testing.assert_close(ours, plain)
    probe = torch.randn_like(ours)
    torch.testing.assert_close(torch.autograd.grad(ours, z, probe), torch.autograd.grad(plain, z, probe))
    torch.testing.assert_close(patches.spread(plain), patches.indicator(z) @ plain)


@pytest.mark.parametrize("shape", [(4, 2, 2, 1), (3, 4, 2, 3)])
def test_gradients_of_means_and_spreading_are_those_of_finite_differences(shape):
    source = torch.Generator().manual_seed(0)
    patches = Patches(*shape)
    z = torch.randn(shape[0] * shape[1], 2, generator=source, dtype=torch.float64, requires_grad=True)
    means = torch.randn(patches.count, 2, generator=source, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(patches.mean, (z,))
    assert torch.autograd.gradcheck(patches.spread, (means,))


def test_the_indicator_counts_rows_first():
    indicator = Patches(2, 4, 1, 2).indicator(torch.zeros(()))
    assert indicator[:, 1].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("grid", [(7, 2), (2, 6), (0, 1)])
def test_a_grid_that_does_not_fit_is_refused(grid):
    with pytest.raises(ValueError, match="do not fit a map of 6 x 5"):
        Patches(6, 5, *grid)
