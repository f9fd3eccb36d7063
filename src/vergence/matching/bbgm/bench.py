"""The solver against integer programming on costs that the pipeline made, and SplineConv against a loop over edges.

``optima.npz`` holds ten problems of ten keypoints each, made by a trained network on rendered pictures, with their
optimal costs; ``docs/bbgm_optima.py`` made it. ``python -m vergence.matching.bbgm.bench FILE.png`` draws how time grows
with the number of keypoints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.drawing.figure import Growth, growth
from vergence.matching.bbgm.model import build
from vergence.matching.bbgm.settings import SMALL
from vergence.matching.keypoints import padded
from vergence.nn.splineconv import SplineConv
from vergence.ops.delaunay import delaunay_edges
from vergence.ops.graph_matching import Problem, match_graphs
from vergence.reading.arrays import read_npz

OPTIMA = Path(__file__).with_name("optima.npz")
PAIRS = 2


def kept() -> list[tuple[Problem, float]]:
    """Problems that the pipeline made, and what their cheapest matching costs."""
    arrays = {name: torch.from_numpy(own) for name, own in read_npz(OPTIMA).items()}
    problems = []
    for row, cost in enumerate(arrays["cost"].tolist()):
        e, f = arrays["sizes"][row].tolist()
        left, right = arrays["left"][row, :e].long(), arrays["right"][row, :f].long()
        nodes, edges = arrays["nodes"][row].double(), arrays["edges"][row, :e, :f].double()
        problems.append((Problem(nodes, left, right, edges), cost))
    return problems


def contests() -> Iterator[Contest]:
    """Pairs of ten keypoints, and a SplineConv layer over the graphs of eight pictures, forth and back. Integer
    programming takes seconds for a pair, so two of them stand for the batch of eight."""
    problems = [problem for problem, _ in kept()[:PAIRS]]
    rivals = {"milp": partial(match_graphs, problems, "milp")}
    yield Contest("solver-10", f"{PAIRS} pairs of 10 keypoints", partial(match_graphs, problems, "dual"), rivals)
    yield _spline()


def _spline(pictures: int = 8, count: int = 10, width: int = 128) -> Contest:
    source = generator("bench")
    layer = SplineConv(width, width)
    x = torch.randn(pictures * count, width, generator=source)
    edges, places = [], torch.rand(pictures * count, 2, generator=source)
    for number in range(pictures):
        own = slice(number * count, (number + 1) * count)
        edges.append(delaunay_edges(places[own]) + number * count)
    joined = torch.cat(edges)
    coordinates = 0.5 + 0.5 * (places[joined[:, 0]] - places[joined[:, 1]])

    def ours() -> None:
        layer(x, joined, coordinates).sum().backward()

    def loop() -> None:
        _by_edges(layer, x, joined, coordinates).sum().backward()

    return Contest("splineconv", f"SplineConv of {width} channels, 8 graphs of 10 nodes, forth and back", ours,
                   {"loop": loop})  # fmt: skip


def _by_edges(layer: SplineConv, x: Tensor, edges: Tensor, coordinates: Tensor) -> Tensor:
    """Edge by edge: the kernel between four knots, times the feature of the start."""
    messages: list[list[Tensor]] = [[] for _ in x]
    for (start, stop), u in zip(edges.tolist(), coordinates.tolist(), strict=True):
        low = [min(int(value * (layer.knots - 1)), layer.knots - 2) for value in u]
        share = [value * (layer.knots - 1) - own for value, own in zip(u, low, strict=True)]
        kernel = torch.zeros(())
        for right in (0, 1):
            for down in (0, 1):
                weight = abs(1 - right - share[0]) * abs(1 - down - share[1])
                kernel = kernel + weight * layer.weight[low[0] + right + layer.knots * (low[1] + down)]
        messages[stop].append(x[start] @ kernel)
    rows = [torch.stack(own).amax(0) if own else torch.zeros_like(layer.bias) for own in messages]
    return torch.stack(rows) + x @ layer.root + layer.bias


def made(n: int, pairs: int, seed: int = 0) -> list[Problem]:
    """Problems with n keypoints on either side by an untrained network, of noise and its copy with moved keypoints."""
    torch.manual_seed(seed)
    network = build(SMALL).eval()
    source = generator("growth", n, seed)
    places = 64 * torch.rand(pairs, n, 2, generator=source)
    moved = (places + 2 * torch.randn(places.shape, generator=source)).clamp(0, 64)
    picture = torch.randn(pairs, 1, 3, 64, 64, generator=source)
    noisy = picture + 0.5 * torch.randn(picture.shape, generator=source)
    graphs = padded([[a, b] for a, b in zip(places, moved, strict=True)])
    with torch.no_grad():
        costs = network(torch.cat([picture, noisy], 1), graphs["points"], graphs["edges"])
    problems = []
    for row in range(pairs):
        left, right = (own[own[:, 0] >= 0] for own in graphs["edges"][row])
        nodes = costs["nodes"][row].double()
        edges = costs["edges"][row, : len(left), : len(right)].double()
        # Around 0, as after training: some pairs are worth a match and others are not.
        problems.append(Problem(nodes - nodes.mean(), left, right, edges - edges.mean()))
    return problems


def draw(path: Path, sizes: Sequence[int] = (4, 6, 8, 10, 14, 18, 23), limit: int = 8) -> Path:
    """Time one pair at each size: dual ascent, integer programming up to ``limit``, enumeration up to 6."""
    runs: dict[str, list[Callable[[], Any] | None]] = {"dual ascent": [], "integer programming": [], "enumeration": []}
    for n in sizes:
        problems = made(n, 1)
        runs["dual ascent"].append(partial(match_graphs, problems, "dual"))
        runs["integer programming"].append(partial(match_graphs, problems, "milp", 20.0) if n <= limit else None)
        runs["enumeration"].append(partial(match_graphs, problems, "enumerate") if n <= 6 else None)
    return growth(path, [Growth("keypoints in each picture", sizes, runs)], "seconds per pair")


if __name__ == "__main__":
    print(draw(Path(sys.argv[1] if len(sys.argv) > 1 else "growth.png")))
