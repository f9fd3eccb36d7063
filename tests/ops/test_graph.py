"""Graphs of positions: whatever form an affinity takes, it is the definition."""

import math

import pytest
import torch

from vergence.ops import (
    CrissCrossAffinity,
    DenseAffinity,
    FactoredAffinity,
    Graph,
    SoftmaxAffinity,
    SortedAffinity,
    TiledAffinity,
    compact,
    connect,
)
from vergence.ops.compact import devectorise, vectorise
from vergence.ops.crisscross import criss_cross, window
from vergence.ops.graph import FEW
from vergence.ops.graph import kernel as graph_kernel

KERNELS = ("dot", "gaussian", "concatenation", "sigmoid", "relu", "softmaxes")


def defined(query, key, graph, shape):
    """Kernel, support, symmetry, normalisation, in this order, as matrices."""
    scores = query @ key.mT
    matrix = {
        "dot": scores,
        "gaussian": scores.exp(),
        "concatenation": (query + key.mT).relu() if query.shape[-1] == 1 else scores,
        "sigmoid": 1 / (1 + (-scores).exp()),
        "relu": query.relu() @ key.relu().mT,
        "softmaxes": query.softmax(-1) @ key.softmax(-2).mT,
    }[graph.kernel]
    inside = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool)
    if graph.support != "everywhere":
        inside = criss_cross(shape) if graph.support == "criss-cross" else window(shape, graph.support)
    matrix = matrix * inside
    if graph.symmetrise:
        matrix = (matrix + matrix.mT) / 2
    if graph.normalise == "none":
        return matrix
    if graph.normalise == "size":
        return matrix / inside.sum(-1, keepdim=True)
    degree = matrix.sum(-1, keepdim=True)
    alive = degree > 0
    degree = torch.where(alive, degree, 1)
    if graph.normalise == "row":
        return torch.where(alive, matrix / degree, 0)
    root = torch.where(alive, degree**-0.5, 0)
    return root * matrix * root.mT


def embeddings(kernel, shape, seed=0):
    source = torch.Generator().manual_seed(seed)
    width = 1 if kernel == "concatenation" else 3
    size = (2, math.prod(shape), width)
    return [torch.randn(size, generator=source, dtype=torch.float64).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("symmetrise", [False, True])
@pytest.mark.parametrize("normalise", ["row", "symmetric", "size", "none"])
@pytest.mark.parametrize("support", ["everywhere", "criss-cross", 1])
@pytest.mark.parametrize("shape", [(4, 3), (10, 9)])
def test_every_combination_is_its_definition_forward_and_backward(kernel, symmetrise, normalise, support, shape):
    graph = Graph(kernel, symmetrise, normalise, support)
    query, key = embeddings(kernel, shape)
    ours, theirs = connect(query, key, graph, shape), defined(query, key, graph, shape)
    torch.testing.assert_close(ours.dense(), theirs, rtol=1e-9, atol=1e-9)
    z = torch.ones(2, math.prod(shape), 2, dtype=torch.float64)
    z[..., 1] = torch.arange(math.prod(shape))
    torch.testing.assert_close(ours @ z, theirs @ z, rtol=1e-8, atol=1e-8)
    if kernel == "dot" and normalise in ("row", "symmetric"):
        return  # degrees near zero: gradients are unbounded
    probe = torch.sin(torch.arange(z.numel(), dtype=torch.float64)).reshape(z.shape)
    found = [torch.autograd.grad(out @ z, (query, key), probe) for out in (ours, theirs)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("graph", "form"),
    [
        (Graph("gaussian"), SoftmaxAffinity),
        (Graph("gaussian", True, "symmetric"), DenseAffinity),
        (Graph("gaussian", support=1), DenseAffinity),
        (Graph("sigmoid", True, "symmetric"), DenseAffinity),
        (Graph("sigmoid", normalise="row"), DenseAffinity),
        (Graph("dot", normalise="size"), FactoredAffinity),
        (Graph("relu", normalise="row"), FactoredAffinity),
        (Graph("relu", True, "symmetric"), FactoredAffinity),
        (Graph("softmaxes", normalise="none"), FactoredAffinity),
    ],
)
def test_gradients_of_a_graph_are_those_of_finite_differences(graph, form):
    source = torch.Generator().manual_seed(1)
    positions, width = (9, 1) if form is FactoredAffinity else (4, 2)
    shapes = ((positions, width), (positions, width), (positions, 1))
    # Positive for relu, whose kink finite differences would straddle.
    leaves = [torch.rand(shape, generator=source, dtype=torch.float64).add(0.1).requires_grad_() for shape in shapes]
    shape = (2, positions // 2)
    assert isinstance(connect(*leaves[:2], graph, shape), form)
    assert torch.autograd.gradcheck(lambda q, k, z: connect(q, k, graph, shape) @ z, leaves)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_a_kernel_are_those_of_finite_differences(kernel):
    source = torch.Generator().manual_seed(2)
    size = (3, 1 if kernel == "concatenation" else 2)
    leaves = [torch.rand(size, generator=source, dtype=torch.float64).add(0.1).requires_grad_() for _ in range(2)]
    assert torch.autograd.gradcheck(lambda q, k: graph_kernel(q, k, kernel), leaves)


@pytest.mark.parametrize("kernel", ["dot", "rbf"])
@pytest.mark.parametrize("normalise", ["none", "row", "size"])
def test_gradients_of_the_compact_graph_are_those_of_finite_differences(kernel, normalise):
    source = torch.Generator().manual_seed(3)
    leaves = [torch.rand(3, 2, generator=source, dtype=torch.float64).add(0.1).requires_grad_() for _ in range(3)]

    def run(theta, phi, z):
        affinity = compact(theta, phi, groups=2, kernel=kernel, gamma=0.3, normalise=normalise)
        return devectorise(affinity @ vectorise(z, 2), 3)

    assert torch.autograd.gradcheck(run, leaves)


@pytest.mark.parametrize("kernel", ["concatenation", "sigmoid", "gaussian"])
@pytest.mark.parametrize("normalise", ["row", "symmetric", "size"])
def test_many_positions_are_the_definition_too(kernel, normalise):
    shape = (FEW + 1,)
    for symmetrise in (False, True):
        graph = Graph(kernel, symmetrise, normalise)
        query, key = embeddings(kernel, shape)
        z = torch.cos(torch.arange(2 * (FEW + 1) * 3, dtype=torch.float64)).reshape(2, FEW + 1, 3)
        torch.testing.assert_close(connect(query, key, graph) @ z, defined(query, key, graph, shape) @ z)


@pytest.mark.parametrize(
    ("graph", "positions", "width", "form"),
    [
        (Graph("gaussian"), 64, 8, SoftmaxAffinity),
        (Graph("relu", True, "symmetric"), 1024, 32, FactoredAffinity),
        (Graph("relu", True, "symmetric"), 196, 512, DenseAffinity),  # wide embeddings on a small map
        (Graph("dot", normalise="size"), 1024, 32, FactoredAffinity),
        (Graph("softmaxes", normalise="none"), 1024, 32, FactoredAffinity),
        (Graph("concatenation", normalise="size"), 1024, 1, SortedAffinity),
        (Graph("concatenation", normalise="size"), 64, 1, DenseAffinity),
        (Graph("sigmoid", True, "symmetric"), 1024, 32, TiledAffinity),
        (Graph("gaussian", support="criss-cross"), 1024, 8, CrissCrossAffinity),
        (Graph("gaussian", support=2), 1024, 8, DenseAffinity),
    ],
)
def test_the_cheapest_form_is_taken(graph, positions, width, form):
    side = math.isqrt(positions)
    with torch.device("meta"):
        query, key = torch.empty(1, positions, width), torch.empty(1, positions, width)
    assert isinstance(connect(query, key, graph, (side, positions // side)), form)


def test_large_scores_do_not_overflow_where_degrees_divide():
    query, key = (200 * torch.randn(1, 12, 3) for _ in range(2))
    for graph in (Graph(), Graph("gaussian", True, "symmetric"), Graph("gaussian", support="criss-cross")):
        assert connect(query, key, graph, (3, 4)).dense().isfinite().all()


@pytest.mark.parametrize(
    ("graph", "keys", "shape", "said"),
    [
        (Graph("relu", True, "symmetric"), 5, None, "compares positions with themselves, got 6 and 5"),
        (Graph(support="criss-cross"), 6, None, "needs the grid of 6 positions, got None"),
        (Graph(support=1), 6, (2, 2), r"needs the grid of 6 positions, got \(2, 2\)"),
    ],
)
def test_what_does_not_fit_is_refused(graph, keys, shape, said):
    with pytest.raises(ValueError, match=said):
        connect(torch.zeros(1, 6, 2), torch.zeros(1, keys, 2), graph, shape)
