"""Metrics of scene flow: end-point error, strict and relaxed accuracy, and outliers."""

from __future__ import annotations

from torch import Tensor


def flow_scores(flow: Tensor, truth: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Scores of each scene, (B,), over its points with ``mask``; flows are (B, N, 3), the mask (B, N) booleans.

    ``epe`` is the mean error in metres. The rest are percentages of points: ``strict`` below 5 cm or 5 % of the true
    length, ``relaxed`` below 10 cm or 10 %, ``outliers`` above 30 cm or 10 %. A scene without valid points has NaN.
    """
    error = (flow - truth).norm(dim=-1)
    relative = error / (truth.norm(dim=-1) + 1e-4)
    count = mask.sum(-1)

    def share(chosen: Tensor) -> Tensor:
        return 100 * (chosen & mask).sum(-1) / count

    return {
        "epe": (error * mask).sum(-1) / count,
        "strict": share((error < 0.05) | (relative < 0.05)),
        "relaxed": share((error < 0.1) | (relative < 0.1)),
        "outliers": share((error > 0.3) | (relative > 0.1)),
    }
