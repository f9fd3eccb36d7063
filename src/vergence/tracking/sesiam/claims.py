"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vergence.contract.claims import Claim, above, compared_models
from vergence.tracking.sesiam import exact
from vergence.tracking.settings import Scene
from vergence.tracking.siamese import shift_out
from vergence.tracking.synth import moving_digits

SEEDS = 3
"""Number of training runs per variant in a comparison."""

_TABLE = "Main paper, T/S-MNIST table"


def _beats(trained: str, tested: str) -> Claim:
    return above(
        f"{trained}-on-{tested}",
        f"Trained on {trained.upper()} and judged on {tested.upper()}, SE-SiamFC tracks better than SiamFC.",
        _TABLE,
        better=f"se-siamfc-{trained}",
        worse=f"siamfc-{trained}",
        metric=f"auc_{tested}",
        seeds=SEEDS,
        unit="points of AUC",
    )


def shift_error(of: Mapping[str, Any]) -> float:
    """Mean difference in pixels between the shift of a still frame and that of the response's peak."""
    still = moving_digits("t-mnist", 1, "test", Scene(size=160, digit=26, frames=2)).sequences[0]
    steps = np.arange(-24.0, 25.0, 4.0)
    shifts = shift_out(of["run"], still.frames[0], still.boxes[0].tolist(), steps)
    return float(np.mean([np.abs(out - steps).mean() for out in shifts]))


CLAIMS: tuple[Claim, ...] = (
    *exact.CLAIMS,
    _beats("t", "t"),
    _beats("t", "s"),
    _beats("s", "t"),
    _beats("s", "s"),
    above(
        "t-without-s",
        "SE-SiamFC that has seen one size alone tracks changing sizes better than SiamFC that was trained on them.",
        _TABLE,
        better="se-siamfc-t",
        worse="siamfc-s",
        metric="auc_s",
        seeds=SEEDS,
        unit="points of AUC",
    ),
    compared_models(
        "figure-1",
        "Trained with circular padding and used with zeros, the network's response moves as far as the picture does: "
        "within half a cell in the mean.",
        "Supplement, Sec. 3.1 and Fig. 1",
        {"run": "se-siamfc-t"},
        shift_error,
        threshold=4.0,
        sense="at most",
        seeds=SEEDS,
        unit="pixels of the search region",
        paper="nearly identical",
    ),
)
