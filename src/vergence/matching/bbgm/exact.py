"""What must hold exactly: the solver, the gradient through it, the network against its definition, the scores."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.matching.bbgm.model import BBGM, Attention, Graphs, build
from vergence.matching.bbgm.settings import ModelConfig
from vergence.matching.keypoints import padded
from vergence.metrics.matching import by_class
from vergence.ops.blackbox import through_solver
from vergence.ops.graph_matching import Problem, cost_of, edge_matches, match_graphs, partial_matchings
from vergence.ops.multi_matching import match_many

SMALL = ModelConfig(widths=(4, 6), convs=(1, 2), taps=(1, 3))
SIDE = 16


def problem(n: int, m: int, seed: int | str) -> Problem:
    """Signed random costs over graphs in which most nodes are joined."""
    graphs = []
    for side, count in (("left", n), ("right", m)):
        pairs = list(itertools.permutations(range(count), 2))
        chance = uniform(count, count, seed=f"{seed} {side}")
        kept = [(i, k) for i, k in pairs if chance[min(i, k), max(i, k)] < 0.7]
        graphs.append(torch.tensor(kept, dtype=torch.long).reshape(-1, 2))
    left, right = graphs
    return Problem(noise(n, m, seed=f"{seed} nodes"), left, right, noise(len(left), len(right), seed=f"{seed} edges"))


def solvers_find_the_optimum(_: Evidence) -> float:
    """The largest excess of enumeration and integer programming over the cheapest of all matchings, by definition."""
    worst = 0.0
    for shape in ((4, 4), (5, 3), (3, 5), (1, 4)):
        one = problem(*shape, seed=str(shape))
        every = [torch.tensor([-1 if label == shape[1] else label for label in labels])
                 for labels in partial_matchings(*shape).tolist()]  # fmt: skip
        least = min(cost_of(one, partner) for partner in every)
        for method in ("enumerate", "milp"):
            found = match_graphs([one], method)[0]
            worst = max(
                worst, abs(cost_of(one, found.partner) - least), abs(found.cost - least), 0.0 if found.optimal else 1.0
            )
    return worst


def without_edges_it_is_assignment(_: Evidence) -> float:
    """Difference from SciPy's linear assignment with places at no cost for nodes that stay alone."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    worst = 0.0
    for shape in ((5, 6), (6, 4)):
        one = problem(*shape, seed="assignment")
        costs = np.concatenate([one.nodes.numpy(), np.zeros((shape[0], shape[0]))], 1)
        least = costs[linear_sum_assignment(costs)].sum()
        flat = Problem(one.nodes, one.left, one.right, torch.zeros_like(one.edges))
        for method in ("enumerate", "dual", "milp"):
            worst = max(worst, abs(match_graphs([flat], method)[0].cost - least))
    return worst


def names_do_not_matter(_: Evidence) -> float:
    """Nodes whose partner changes when the nodes of both graphs and the order of edges are renamed."""
    one = problem(5, 5, "names")
    a, b = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([1, 4, 2, 0, 3])
    order = torch.arange(len(one.left)).flip(0)
    renamed = Problem(one.nodes[a][:, b], a.argsort()[one.left[order]], b.argsort()[one.right], one.edges[order])
    first, second = (match_graphs([p], "enumerate")[0].partner for p in (one, renamed))
    expected = torch.where(first[a] >= 0, b.argsort()[first[a].clamp(min=0)], -1)
    return float((second != expected).sum())


def size_follows_costs(_: Evidence) -> float:
    """Matches among costs that are all positive, plus matches missing where each is rewarded beyond any cost."""
    one, off = problem(4, 5, "sizes"), 0
    dear = Problem(one.nodes.abs(), one.left, one.right, one.edges.abs())
    forced = Problem(one.nodes - 1e3, one.left, one.right, one.edges)
    for method in ("enumerate", "dual", "milp"):
        off += int((match_graphs([dear], method)[0].partner >= 0).sum())
        off += int((match_graphs([forced], method)[0].partner < 0).sum())
    return float(off)


# The gradient ---------------------------------------------------------------------------------------------------------


def _solver(one: Problem) -> Any:
    def solve(nodes: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        found = match_graphs([Problem(nodes, one.left, one.right, edges)], "enumerate")[0].matrix(one.nodes.shape[1])
        return found, edge_matches(found, one.left, one.right)

    return solve


def gradient_is_that_of_an_interpolation(_: Evidence) -> float:
    """Eq. 2 against differences of the piecewise affine function it is said to be the gradient of, for a linear loss:
    ``f(y(w')) - (w y(w) - w y(w')) / λ`` with ``w' = w + λ df/dy``."""
    strength, step, worst = 4.0, 1e-4, 0.0
    for seed in range(3):
        one = problem(4, 4, f"interpolation {seed}")
        slope, solve = noise(4, 4, seed=f"slope {seed}"), _solver(one)

        def value(w: Tensor, solve: Any = solve, slope: Tensor = slope, edges: Tensor = one.edges) -> float:
            y, e = solve(w, edges)
            again, f = solve(w + strength * slope, edges)
            now, moved = (w * y).sum() + (edges * e).sum(), (w * again).sum() + (edges * f).sum()
            return float((slope * again).sum() - (now - moved) / strength)

        w = one.nodes.clone().requires_grad_()
        (through_solver(solve, strength, w, one.edges)[0] * slope).sum().backward()
        assert w.grad is not None
        for i, j in ((0, 1), (2, 3), (3, 0)):
            shift = torch.zeros(4, 4, dtype=torch.float64)
            shift[i, j] = step
            differences = (value(one.nodes + shift) - value(one.nodes - shift)) / (2 * step)
            worst = max(worst, abs(float(w.grad[i, j]) - differences))
    return worst


def strong_gradients_point_to_the_truth(_: Evidence) -> float:
    """With λ beyond the range of costs, Hamming's gradient is (v* - v) / λ, and (e(v*) - e(v)) / λ for edges, although
    the loss does not depend on them; and it is zero where the truth is found despite the margin."""
    one, strength = problem(5, 5, "perceptron"), 1e4
    truth = torch.eye(5, dtype=torch.float64)[:, [1, 0, 2, 4, 3]]
    worst = 0.0
    for reward, still in ((0.0, False), (200.0, True)):
        nodes = (one.nodes - reward * truth).requires_grad_()
        edges = one.edges.clone().requires_grad_()
        v, e = through_solver(_solver(one), strength, nodes + truth, edges)
        (v * (1 - truth) + truth * (1 - v)).sum().backward()
        assert nodes.grad is not None
        assert edges.grad is not None
        if still != bool((v == truth).all()):
            return math.inf
        worst = max(worst, apart(nodes.grad, (truth - v.detach()) / strength),
                    apart(edges.grad, (edge_matches(truth, one.left, one.right) - e.detach()) / strength))  # fmt: skip
    return worst


# The network ----------------------------------------------------------------------------------------------------------


def _batch() -> tuple[Tensor, dict[str, Tensor]]:
    points = [[SIDE * uniform(n, 2, seed=f"points {n} {v}") for v in range(2)] for n in (5, 7)]
    graphs = padded([[own.float() for own in each] for each in points])
    graphs["points"] = graphs["points"].double()
    return noise(2, 2, 3, SIDE, SIDE, seed="images"), graphs


def _plain_costs(network: BBGM, images: Tensor, graphs: dict[str, Tensor], row: int) -> tuple[Tensor, Tensor]:
    """The costs of one pair, edge by edge from the definition."""
    nodes, inner, tops = [], [], []
    for view in range(2):
        count = int(graphs["counts"][row, view])
        points = graphs["points"][row, view, :count]
        edges = [edge for edge in graphs["edges"][row, view].tolist() if edge[0] >= 0]
        x, read = images[row, view].unsqueeze(0), []
        for number, layer in enumerate(network.trunk.features, 1):
            x = layer(x)
            if number in network.trunk.taps:
                unit = x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)
                grid = (points / SIDE * 2 - 1).view(1, -1, 1, 2)
                read.append(F.grid_sample(unit, grid, "bilinear", "border", align_corners=False)[0, :, :, 0].mT)
        f = torch.cat(read, 1)
        y = _plain_spline(network.splines[0], f, points, edges).relu()
        f = f + 0.1 * _plain_spline(network.splines[1], y, points, edges)
        nodes.append(f)
        inner.append(torch.stack([f[a] - f[b] for a, b in edges]))
        tops.append(x[0].amax((1, 2)))
    whole = torch.cat(tops)
    whole = whole / whole.norm()
    costs = []
    for affinity, (a, b), factor in ((network.node_affinity, nodes, 1.0), (network.edge_affinity, inner, 0.5)):
        assert affinity is not None
        assert affinity.gate is not None
        weight = (affinity.gate.weight @ whole + affinity.gate.bias).tanh()
        costs.append(-factor * ((1 + torch.einsum("ic,c,jc->ij", a, weight, b).exp()).log() - 0.5))
    return costs[0], costs[1]


def _plain_spline(layer: Any, x: Tensor, points: Tensor, edges: list[list[int]]) -> Tensor:
    knots = torch.arange(layer.knots, dtype=torch.float64)
    rows = []
    for node in range(len(x)):
        messages = []
        for start, stop in edges:
            if stop == node:
                u = 0.5 + 0.5 * (points[start] - points[stop]) / SIDE
                across, down = ((1 - (u[axis] * (layer.knots - 1) - knots).abs()).clamp(min=0) for axis in (0, 1))
                kernel = torch.einsum("a,b,bacd->cd", across, down, layer.weight.unflatten(0, (layer.knots,) * 2))
                messages.append(x[start] @ kernel)
        reduced = torch.stack(messages).amax(0) if messages else 0.0
        rows.append(reduced + x[node] @ layer.root + layer.bias)
    return torch.stack(rows)


def network_is_the_definition(_: Evidence) -> float:
    """Costs of pairs with different numbers of keypoints, and every gradient, against a loop over edges."""
    network = filled(build(SMALL))
    images, graphs = _batch()
    out = network(images, graphs["points"], graphs["edges"])
    ours, theirs = list[Tensor](), list[Tensor]()
    for row in range(2):
        n, m = graphs["counts"][row].tolist()
        e, f = (int((graphs["edges"][row, view, :, 0] >= 0).sum()) for view in range(2))
        ours += [out["nodes"][row, :n, :m], out["edges"][row, :e, :f]]
        theirs += _plain_costs(network, images, graphs, row)
    return apart_with_gradients(ours, theirs, list(network.parameters()), relative=True)


def turned_edges_cost_the_same(_: Evidence) -> float:
    """Change of edge costs when both directed edges are reversed."""
    network = filled(build(SMALL))
    images, graphs = _batch()
    encoded = network.encode(images, graphs["points"], graphs["edges"])
    straight, turned = (network.costs(encoded._replace(edges=sign * encoded.edges), 0, 1).edges for sign in (1, -1))
    return apart(straight, turned)


def plain_attention_is_an_inner_product(_: Evidence) -> float:
    """Attention without weights, taken back through softplus, against inner products."""
    x, y = noise(2, 4, 8, seed="x"), noise(2, 5, 8, seed="y")
    similarity = Attention(0, 8)(x, y, x[:, 0])
    return apart((similarity + 0.5).expm1().log(), torch.einsum("bic,bjc->bij", x, y))


def place_does_not_matter_to_the_graph(_: Evidence) -> float:
    """Change of what the graph adds to features when all keypoints of a picture move together."""
    network = filled(build(SMALL))
    graphs = _batch()[1]
    points, edges = (graphs[name].flatten(0, 1) for name in ("points", "edges"))
    features = noise(4, points.shape[1], network.trunk.width, seed="features")
    moved = points + torch.tensor([5.0, -3.0], dtype=torch.float64)
    with torch.no_grad():
        return apart(network._refined(features, points, edges, SIDE), network._refined(features, moved, edges, SIDE))


def batches_are_their_pairs(_: Evidence) -> float:
    """Entries of matchings that differ between a batch and its pairs alone; entries beyond a pair's keypoints are 0."""
    network = filled(build(SMALL))
    images, graphs = _batch()
    with torch.no_grad():
        costs = network(images, graphs["points"], graphs["edges"])
    together = Graphs.of(graphs["edges"], graphs["counts"], SMALL).solve(costs["nodes"], costs["edges"])
    off = 0
    for row in range(2):
        one = {name: own[row : row + 1] for name, own in graphs.items()}
        own = (costs[name][row : row + 1] for name in ("nodes", "edges"))
        alone = Graphs.of(one["edges"], one["counts"], SMALL).solve(*own)
        off += sum(int((a[row] != b[0]).sum()) for a, b in zip(together, alone, strict=True))
        n, m = graphs["counts"][row].tolist()
        off += int(together[0][row, n:].sum() + together[0][row, :, m:].sum())
    return float(off)


# Scores and several graphs --------------------------------------------------------------------------------------------


def scores_are_what_they_say(_: Evidence) -> float:
    """Perfect matches have 100 % of both; wrong ones do not change the accuracy; F1 is 2tp / (2tp + fp + fn) for each
    kind, averaged over kinds."""
    perfect = by_class([(0, 5, 0, 0), (1, 3, 0, 0)])
    accuracy, f1 = by_class([(0, 3, 0, 1), (0, 0, 4, 4), (1, 2, 0, 0)])
    expected = (100 * (3 / 8 + 1) / 2, 100 * (6 / (6 + 4 + 5) + 1) / 2)
    worse = by_class([(0, 3, 9, 1), (0, 0, 4, 4), (1, 2, 0, 0)])[0]
    return max(abs(accuracy - expected[0]), abs(f1 - expected[1]), abs(worse - accuracy), *(100 - p for p in perfect))


def several_graphs_are_consistent(_: Evidence) -> float:
    """Entries that break v^pq v^qr <= v^pr among matchings of four graphs."""
    sizes, broken = (4, 5, 3, 5), 0
    graphs = {pair: problem(sizes[pair[0]], sizes[pair[1]], "joint") for pair in itertools.combinations(range(4), 2)}
    found = match_many(sizes, graphs)
    matrix = {(p, q): (found.partner(p, q).unsqueeze(1) == torch.arange(sizes[q])).double()
              for p, q in itertools.permutations(range(4), 2)}  # fmt: skip
    for p, q, r in itertools.permutations(range(4), 3):
        broken += int((matrix[p, q] @ matrix[q, r] > matrix[p, r]).sum())
    return float(broken)
