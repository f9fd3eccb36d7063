"""FLOT against its direct transcription, and neighbours by a tree against a full sort.

``python -m vergence.points.flot.bench FILE.png`` measures and draws how time grows with the number of points.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.files import replacing
from vergence.core.seeding import generator
from vergence.ops.knn import nearest
from vergence.points.flot.model import Model, as_published, build
from vergence.reference import scene_flow as plain


def contests() -> Iterator[Contest]:
    """Steps of training and inference at the published sizes, and the neighbours alone."""
    for n in (512, 2048):
        yield _training(n)
    for n in (2048, 8192):
        yield Contest(f"inference, n = {n}", *_inference(n))
    cloud = _scene(2048)[0]
    yield Contest("32 neighbours, n = 2048", partial(nearest, cloud, 32), {"sort": partial(plain.knn_graph, cloud, 32)})


def _scene(n: int) -> tuple[Tensor, Tensor]:
    """A street 20 m wide and 35 m deep, and its points moved: (1, n, 3) each."""
    source = generator("bench", n)
    p = torch.rand(1, n, 3, generator=source) * torch.tensor([20.0, 4.0, 35.0])
    q = p[:, torch.randperm(n, generator=source)] + torch.tensor([0.3, 0.0, 0.8])
    return p, q


def _training(n: int) -> Contest:
    p, q = _scene(n)
    network = build(Model())

    def ours() -> None:
        network(p, q)["flow"].sum().backward()

    def direct() -> None:
        plain.flot(p, q, as_published(network))["flow"].sum().backward()

    return Contest(f"forward and backward, n = {n}", ours, {"direct": direct})


def _inference(n: int) -> tuple[Callable[[], Any], dict[str, Callable[[], Any]]]:
    p, q = _scene(n)
    network = build(Model()).eval().requires_grad_(False)
    return partial(network, p, q), {"direct": partial(plain.flot, p, q, as_published(network))}


def growth(path: Path, sizes: Sequence[int] = (256, 512, 1024, 2048, 4096, 8192), rounds: int = 3) -> Path:
    """Time one pass at each size, ours and direct (up to 4096 points), and draw both on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 3.6), dpi=110, layout="constrained")
    axis = figure.subplots()
    times: dict[str, list[tuple[int, float]]] = {"direct": [], "vergence": []}
    for n in sizes:
        ours, rivals = _inference(n)
        times["vergence"].append((n, _seconds(ours, rounds)))
        if n <= 4096:
            times["direct"].append((n, _seconds(rivals["direct"], rounds)))
    for (name, points), colour in zip(times.items(), ("#8a8d94", "#3b6fb6"), strict=True):
        (n1, t1), (n2, t2) = points[-2:]
        slope = math.log(t2 / t1) / math.log(n2 / n1)
        axis.loglog(*zip(*points, strict=True), "o-", color=colour, label=f"{name}, at the end n^{slope:.2f}")
    axis.set_xlabel("points in each cloud")
    axis.set_ylabel("seconds a pass")
    axis.set_xticks(sizes, map(str, sizes))
    axis.minorticks_off()
    axis.legend(frameon=False)
    with replacing(path) as partial_:
        figure.savefig(partial_, format="png")
    return path


def _seconds(run: Callable[[], Any], rounds: int) -> float:
    run()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


if __name__ == "__main__":
    print(growth(Path(sys.argv[1] if len(sys.argv) > 1 else "growth.png")))
