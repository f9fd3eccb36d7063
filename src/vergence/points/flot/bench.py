"""FLOT against its direct transcription, and neighbours by a tree against a full sort.

``python -m vergence.points.flot.bench FILE.png`` measures and draws how time grows with the number of points.
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
from vergence.ops.knn import nearest
from vergence.points.flot.model import as_published, build
from vergence.points.flot.settings import ModelConfig
from vergence.reference import scene_flow as plain


def contests() -> Iterator[Contest]:
    """Steps of training and inference at the published sizes, and the neighbours alone."""
    for n in (512, 2048):
        yield _training(n)
    yield Contest("inference-2048", "inference, n = 2048", *_inference(2048))
    cloud = _scene(2048)[0]
    rivals = {"sort": partial(plain.knn_graph, cloud, 32)}
    yield Contest("neighbours", "32 neighbours, n = 2048", partial(nearest, cloud, 32), rivals)


def _scene(n: int) -> tuple[Tensor, Tensor]:
    """A street 20 m wide and 35 m deep, and its points moved: (1, n, 3) each."""
    source = generator("bench", n)
    p = torch.rand(1, n, 3, generator=source) * torch.tensor([20.0, 4.0, 35.0])
    q = p[:, torch.randperm(n, generator=source)] + torch.tensor([0.3, 0.0, 0.8])
    return p, q


def _training(n: int) -> Contest:
    p, q = _scene(n)
    network = build(ModelConfig())

    def ours() -> None:
        network(p, q)["flow"].sum().backward()

    def direct() -> None:
        plain.flot(p, q, as_published(network))["flow"].sum().backward()

    return Contest(f"training-{n}", f"forward and backward, n = {n}", ours, {"direct": direct})


def _inference(n: int) -> tuple[Callable[[], Any], dict[str, Callable[[], Any]]]:
    p, q = _scene(n)
    network = build(ModelConfig()).eval().requires_grad_(False)
    return partial(network, p, q), {"direct": partial(plain.flot, p, q, as_published(network))}


def draw(path: Path, sizes: Sequence[int] = (256, 512, 1024, 2048, 4096, 8192)) -> Path:
    """Time one pass at each size, ours and direct (up to 4096 points), and draw both."""
    passes = [_inference(n) for n in sizes]
    direct = [rivals["direct"] if n <= 4096 else None for n, (_, rivals) in zip(sizes, passes, strict=True)]
    runs: dict[str, list[Callable[[], Any] | None]] = {"vergence": [ours for ours, _ in passes], "direct": direct}
    return growth(path, [Growth("points in each cloud", sizes, runs)], "seconds per pass")


if __name__ == "__main__":
    print(draw(Path(sys.argv[1] if len(sys.argv) > 1 else "growth.png")))
