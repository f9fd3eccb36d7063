"""Statements of the paper about accuracy and cost; the exact ones are in :mod:`vergence.matching.affinecorr.exact`."""

from __future__ import annotations

from vergence.contract.claims import Claim, compared, faster
from vergence.matching.affinecorr.exact import CHECKS, EXACT

SEEDS = 3
FIVE = ("raw", "corrected", "ref4", "ref4-corrected", "ref2")


def _gain(id: str, statement: str, better: str, worse: str, source: str = "Fig. 4") -> Claim:
    """The paper's figure shows means."""
    return compared(id, statement, source, {"better": better, "worse": worse},
                    lambda of: of["worse"]["normal_mean"] - of["better"]["normal_mean"], seeds=SEEDS,
                    unit="° mean error less")  # fmt: skip


CLAIMS = (
    *CHECKS,
    *EXACT,
    compared("irrelevant", "What correction improves is irrelevant beside refinement: at most a quarter of it.",
             "Sec. 5.2, Fig. 4", {name: name for name in ("raw", "corrected", "ref2")},
             lambda of: (of["raw"]["normal_mean"] - of["corrected"]["normal_mean"])
             / (of["raw"]["normal_mean"] - of["ref2"]["normal_mean"]),
             threshold=0.25, sense="below", seeds=SEEDS, unit="of the gain of Ref2DoF"),
    _gain("ref4-raw", "Ref4DoF significantly improves normals.", "ref4", "raw"),
    _gain("ref2-ref4", "Ref2DoF is more accurate than Ref4DoF.", "ref2", "ref4"),
    _gain("ref2-ref4-corrected", "Ref2DoF is more accurate than Ref4DoF with correction.", "ref2", "ref4-corrected"),
    compared("ref2-best", "Ref2DoF is the best of the five methods, by the median too.", "Fig. 4",
             {name: name for name in FIVE},
             lambda of: min(of[name]["normal_error"] for name in FIVE[:-1]) - of["ref2"]["normal_error"],
             seeds=SEEDS, unit="° median error below the next best"),
    _gain("ref3-ref2", "Refining the depth in all views too, which the paper leaves to future work, improves on "
          "Ref2DoF.", "ref3", "ref2", source="Sec. 6"),
    compared("track3-keeps", "Track3DoF keeps more tracks than Track6DoF where there is little texture.",
             "Sec. 5.3, Fig. 5", {"3": "track3", "6": "track6"}, lambda of: of["3"]["tracked"] - of["6"]["tracked"],
             threshold=5.0, seeds=SEEDS, unit="% of all tracks more", paper="76 % against 64.8 %"),
    compared("track3-normals", "Three quarters of the normals of Track3DoF are within 20°.", "Fig. 5c", {"3": "track3"},
             lambda of: of["3"]["normal_q3"], threshold=20.0, sense="below", seeds=SEEDS, unit="°, third quartile",
             paper="75 % below 20°"),
    compared("track6-quartile", "The third quartile of Track6DoF's normals is larger than Track3DoF's.", "Fig. 5c",
             {"3": "track3", "6": "track6"}, lambda of: of["6"]["normal_q3"] / of["3"]["normal_q3"], threshold=1.0,
             seeds=SEEDS, unit="times", paper="1.8 times"),
    compared("track6-quartile-all", "The same over all tracks that stay in the pictures, lost ones too.", "Fig. 5c",
             {"3": "track3", "6": "track6"}, lambda of: of["6"]["normal_q3_all"] / of["3"]["normal_q3_all"],
             threshold=1.0, seeds=SEEDS, unit="times"),
    faster("solver", "The stacked solver is over 30 times as fast as that of all pairs, for 10 views.", "Fig. 2b",
           "solvers-10", "all pairs", threshold=30.0, paper="over 30 times, in C++"),
    faster("ref2-cost-2", "Ref2DoF is faster than Ref4DoF, in two views.", "Table 1", "refine-2", "Ref4DoF",
           threshold=1.0, sense="above", paper="1.84 times"),
    faster("ref2-cost-5", "Ref2DoF is faster than Ref4DoF, in five views.", "Table 1", "refine-5", "Ref4DoF",
           threshold=1.0, sense="above", paper="1.63 times"),
    faster("track-cost", "Track3DoF is 1.25 times as fast as Track6DoF.", "Sec. 5.3", "track", "Track6DoF",
           threshold=1.25, paper="1.25 times"),
    faster("batch-scipy", "Correction of a batch is at least 100 times as fast as a loop over SciPy.", "this library",
           "correct-2", "SciPy", threshold=100.0),
    faster("batch-numpy", "Correction of a batch is at least 10 times as fast as the same formula in a loop.",
           "this library", "correct-2", "NumPy", threshold=10.0),
    faster("batch-joint", "The same for points and affinities together, against SciPy.", "this library", "correct-3",
           "SciPy", threshold=100.0),
    faster("batch-views", "The same for ten views, against the paper's stack in a loop.", "this library", "correct-10",
           "NumPy", threshold=10.0),
    faster("batch-planes", "The same for planes of ten views.", "this library", "planes-10", "NumPy", threshold=10.0),
)  # fmt: skip
