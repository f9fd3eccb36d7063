"""Statements of the paper about learning and cost; the exact ones are in :mod:`vergence.matching.pyramidflow.exact`.

All four networks that are compared use absolute differences (Eq. 3), which learn faster than correlation.
"""

from __future__ import annotations

from vergence.contract.claims import Claim, compared, faster
from vergence.matching.pyramidflow.exact import CHECKS, EXACT

SEEDS = 3
FOUR = ("warp", "warp-stop", "sample", "sample-stop")


def _lower(id: str, statement: str, source: str, better: str, worse: str, metric: str, paper: str = "") -> Claim:
    return compared(id, statement, source, {"better": better, "worse": worse},
                    lambda of: of["worse"][metric] - of["better"][metric], seeds=SEEDS, unit="px less",
                    paper=paper)  # fmt: skip


def _learns(variant: str) -> Claim:
    return compared(f"learns-{variant}", f"Trained for less than a minute, {variant} is better than zero motion.",
                    "this library", {"run": variant}, lambda of: of["run"]["epe_zero"] - of["run"]["epe"],
                    seeds=SEEDS, unit="px less")  # fmt: skip


CLAIMS = (
    *CHECKS,
    *EXACT,
    *(_learns(variant) for variant in FOUR),
    _lower("stop-warp", "Stopping gradients improves the warped baseline.", "Table 1, rows 1 and 2", "warp-stop",
           "warp", "epe", paper="1.422 to 1.215 px on Chairs2"),
    _lower("stop-sample", "Stopping gradients improves the network that samples.", "Sec. 4.2", "sample-stop", "sample",
           "epe"),
    _lower("sample-overall", "With stopped gradients, sampling improves on warping.", "Table 1, rows 2 and 3",
           "sample-stop", "warp-stop", "epe", paper="1.215 to 1.208 px on Chairs2"),
    _lower("sample-small", "With stopped gradients, sampling improves on warping for small things.", "Sec. 3.2, Fig. 1",
           "sample-stop", "warp-stop", "epe_small"),
    compared("best-small", "Sampling with stopped gradients is the best of the four for small things.",
             "Secs. 3.2, 3.3", {name: name for name in FOUR},
             lambda of: min(of[name]["epe_small"] for name in FOUR[:-1]) - of["sample-stop"]["epe_small"],
             seeds=SEEDS, unit="px below the next best"),
    faster("compiled-loop", "The compiled sampled volume is at least 5 times as fast as a loop over displacements.",
           "this library", "volume-corr", "loop", threshold=5.0),
    faster("compiled-warped", "It takes at most 1.5 times as long as the warped one.", "this library", "volume-corr",
           "warped", threshold=1 / 1.5),
    faster("compiled-loop-sad", "The same with absolute differences, against the loop.", "this library", "volume-sad",
           "loop", threshold=5.0),
    faster("compiled-warped-sad", "The same with absolute differences, against the warped one.", "this library",
           "volume-sad", "warped", threshold=1 / 1.5),
    faster("torch-warped", "In PyTorch alone the sampled volume takes at most twice as long as the warped one.",
           "this library", "volume-torch", "warped", threshold=0.5),
    faster("torch-loop", "In PyTorch alone it is no slower than the loop.", "this library", "volume-torch", "loop",
           threshold=1.0),
)  # fmt: skip
