"""BC-GNN on the valid half of its spans against the whole square, and Soft-NMS against the loop of public code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.spans import soft_nms_spans
from vergence.reference import boundary_graph as plain
from vergence.reference import spans as plain_spans
from vergence.video.annotated import edges
from vergence.video.bcgnn.model import BCGNN
from vergence.video.bcgnn.settings import ModelConfig


def contests() -> Iterator[Contest]:
    """A training step at the published size, and the suppression of all spans of one and of 16 videos."""
    source = generator("bench", "bcgnn")
    features = torch.randn(1, 400, 100, generator=source)
    model = BCGNN(ModelConfig(), 400)
    matrix = plain.sampling_matrix(100, 32).float()

    def ours() -> None:
        torch.cat(list(model(features).values()), 1).sum().backward()

    def square() -> None:
        torch.cat(list(plain.dense(model, features, matrix).values()), 1).sum().backward()

    yield Contest("step", "forward and backward, 100 positions, 4,950 spans", ours, {"square": square})
    i, j = edges(100)
    spans = (torch.stack([i, j], 1).double() + 0.5) / 100
    scores = torch.rand(16, len(i), generator=source, dtype=torch.float64)
    pairs: list[tuple[float, float]] = [(float(a), float(b)) for a, b in spans]
    arrays = spans.numpy()
    rivals = {
        "public": lambda: _public(arrays, scores[0].numpy()),
        "one by one": lambda: plain_spans.soft_nms(pairs, scores[0].tolist(), 0.4, 0.5, 0.9, 1.0, 100),
    }
    yield Contest(
        "soft-nms", "Soft-NMS of 4,950 spans, 100 kept", lambda: soft_nms_spans(spans[None], scores[:1]), rivals
    )
    batch = spans.expand(16, -1, -1)
    yield Contest(
        "soft-nms-16",
        "Soft-NMS of 16 videos",
        lambda: soft_nms_spans(batch, scores),
        {"one video after another": lambda: [soft_nms_spans(spans[None], row[None]) for row in scores]},
    )


def _public(spans: NDArray[Any], scores: NDArray[Any], sigma: float = 0.4, most: int = 100) -> list[float]:
    """The way of BMN's public code: lists, overlaps of the best span with all others at once in NumPy, and a loop over
    them that lowers scores."""
    start, end, left = (list(column) for column in (*spans.T, scores))
    taken: list[float] = []
    while left and len(taken) < most:
        best = int(np.argmax(left))
        low, high = np.array(start), np.array(end)
        common = np.maximum(np.minimum(high, end[best]) - np.maximum(low, start[best]), 0)
        overlap = common / (high - low - common + end[best] - start[best])
        fall = np.exp(-np.square(overlap) / sigma)
        limit = 0.5 + 0.4 * (end[best] - start[best])
        for other in range(len(left)):
            if other != best and overlap[other] > limit:
                left[other] = left[other] * fall[other]
        taken.append(left[best])
        for column in (start, end, left):
            column.pop(best)
    return taken
