"""Spline convolution equals its definition edge by edge, forward and backward."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.nn.splineconv import SplineConv, basis


def graph(nodes=6, edges=14, seed=0):
    source = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes - 1, (edges, 2), generator=source)  # the last node has no edges
    return ends, torch.rand(edges, 2, generator=source, dtype=torch.float64)


def by_edges(module, x, edges, coordinates):
    """The definition, with hats over the knots of each coordinate."""
    knots = module.knots
    at = torch.arange(knots, dtype=torch.float64)
    messages = [[] for _ in x]
    for (source, target), u in zip(edges.tolist(), coordinates, strict=True):
        hats = [(1 - (u[axis] * (knots - 1) - at).abs()).clamp(min=0) for axis in (0, 1)]
        kernel = sum(hats[0][a] * hats[1][b] * module.weight[a + knots * b] for a in range(knots) for b in range(knots))
        messages[target].append(x[source] @ kernel)
    rows = []
    for node, own in enumerate(messages):
        stacked = torch.stack(own) if own else torch.zeros(1, module.bias.shape[0], dtype=torch.float64)
        rows.append((stacked.amax(0) if module.reduce == "max" else stacked.mean(0)) + x[node] @ module.root)
    return torch.stack(rows) + module.bias


@pytest.mark.parametrize("reduce", ["max", "mean"])
def test_it_is_the_sum_over_splines_of_every_edge(reduce):
    edges, coordinates = graph()
    module = SplineConv(3, 4, reduce=reduce).double()
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    ours, plain = module(x, edges, coordinates), by_edges(module, x, edges, coordinates)
    assert torch.allclose(ours, plain, atol=1e-12)
    weight = torch.randn_like(ours)
    inputs = (x, *module.parameters())
    for mine, theirs in zip(
        torch.autograd.grad((ours * weight).sum(), inputs), torch.autograd.grad((plain * weight).sum(), inputs),
        strict=True,
    ):  # fmt: skip
        assert torch.allclose(mine, theirs, atol=1e-10)


def test_weights_of_knots_sum_to_one_and_at_a_knot_a_single_one_acts():
    _, coordinates = graph()
    assert torch.allclose(basis(coordinates, 5)[1].sum(1), torch.ones(14, dtype=torch.float64))
    for corner, number in (((0.0, 0.0), 0), ((1.0, 0.0), 4), ((0.0, 1.0), 20), ((1.0, 1.0), 24), ((0.5, 0.25), 7)):
        knot, share = basis(torch.tensor([corner], dtype=torch.float64), 5)
        assert knot[0][share[0] == 1].tolist() == [number]


def test_parameters_are_counted_as_published_and_shapes_that_do_not_fit_are_refused():
    with torch.device("meta"):
        assert sum(p.numel() for p in SplineConv(1024, 1024).parameters()) == 27_264_000
    with pytest.raises(VergenceError, match="coordinates"):
        SplineConv(3, 4)(torch.zeros(2, 3), torch.zeros(4, 2, dtype=torch.long), torch.zeros(4, 3))
    with pytest.raises(VergenceError, match="at least 2 knots"):
        SplineConv(3, 4, knots=1)
    alone = SplineConv(3, 4)
    out = alone(torch.ones(2, 3), torch.zeros(0, 2, dtype=torch.long), torch.zeros(0, 2))
    assert torch.allclose(out, torch.ones(2, 3) @ alone.root + alone.bias)
