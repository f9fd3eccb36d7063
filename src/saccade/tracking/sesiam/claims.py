"""What the paper says that can be found false."""

from __future__ import annotations

from saccade.claims import Claim, above

SEEDS = 3
"""Trainings of each kind that a comparison takes."""

_TABLE = "T/S-MNIST table"


def _beats(trained: str, tested: str, paper: str) -> Claim:
    return above(
        f"{trained}-on-{tested}",
        f"Trained on {trained.upper()} and judged on {tested.upper()}, SE-SiamFC tracks better than SiamFC.",
        _TABLE,
        better=f"se-siamfc-{trained}",
        worse=f"siamfc-{trained}",
        metric=f"auc_{tested}",
        seeds=SEEDS,
        unit="points of AUC",
        paper=paper,
    )


CLAIMS: tuple[Claim, ...] = (
    _beats("t", "t", "12"),
    _beats("t", "s", "7"),
    _beats("s", "t", "13"),
    _beats("s", "s", "7"),
    above(
        "t-without-s",
        "SE-SiamFC that has seen one size alone tracks changing sizes better than SiamFC that was trained on them.",
        _TABLE,
        better="se-siamfc-t",
        worse="siamfc-s",
        metric="auc_s",
        seeds=SEEDS,
        unit="points of AUC",
        paper="6",
    ),
)
