"""Statements of the paper about learning and cost; the exact ones are in :mod:`vergence.generation.ddn.exact`."""

from __future__ import annotations

from collections.abc import Mapping

from vergence.contract.claims import Claim, Needs, above, compared, faster
from vergence.generation.ddn.exact import CHECKS, EXACT

SEEDS = 3
FEW = (("data.pictures", 20),)
Runs = Mapping[str, Mapping[str, float]]


def _below(id: str, statement: str, source: str, lower: str, higher: str, metric: str, unit: str, paper: str = "",
           changes: tuple[tuple[str, object], ...] = ()) -> Claim:  # fmt: skip
    runs = {"lower": Needs(lower, changes=changes), "higher": Needs(higher, changes=changes)}

    def lead(of: Runs) -> float:
        return of["higher"][metric] - of["lower"][metric]

    return compared(id, statement, source, runs, lead, seeds=SEEDS, unit=unit, paper=paper)


def _better(id: str, statement: str, source: str, worse: str, paper: str = "", better: str = "ddn") -> Claim:
    return above(id, statement, source, better=better, worse=worse, metric="psnr", seeds=SEEDS, unit="dB", paper=paper)


def _under(variant: str, name: str) -> Claim:
    return compared(f"under-{variant}", f"{name} goes below the noise floor |H†e|².", "Sec. 2.2", {"run": variant},
                    lambda of: of["run"]["floor"] - of["run"]["mse"], seeds=SEEDS, unit="thousandths")  # fmt: skip


CLAIMS = (
    *CHECKS,
    *EXACT,
    compared("over-nsn", "The trained null-space network stays above the noise floor |H†e|².", "Sec. 2.2",
             {"run": "nsn"}, lambda of: of["run"]["mse"] - of["run"]["floor"], seeds=SEEDS, unit="thousandths"),
    _under("ddn", "DDN"),
    _under("resunet", "ResUNet"),
    _better("ddn-nsn", "DDN is better than the null-space network.", "Table 2", "nsn"),
    _better("ddn-resunet", "DDN is better than ResUNet.", "Table 2", "resunet"),
    _better("ddn-npgd", "DDN is better than three unrolled proximal steps.", "Table 2", "npgd"),
    _better("ddn4-ddn1", "Both projections are better than none (DDN4 over DDN1).", "Table 3", "ddn1", "3.99 dB"),
    _better("ddn4-ddn2", "Both parts are better than the null space alone (DDN4 over DDN2).", "Table 3", "ddn2",
            "5.35 dB"),
    _better("ddn4-ddn3", "Both parts are better than the range alone (DDN4 over DDN3).", "Table 3", "ddn3", "0.48 dB"),
    _better("ddn1-ddn2", "Without physics it is better than the null space alone (DDN1 over DDN2).", "Table 3", "ddn2",
            "1.36 dB", "ddn1"),
    _better("cascade", "The cascade is better than the independent architecture.", "Table 3", "independent", "0.15 dB"),
    _better("decoupled-joint", "Decoupled training of the cascade is better than joint training.", "Table 3", "ddn",
            "0.08 dB", "decoupled"),
    _below("gap-ddn1", "The generalisation error of DDN is below that without projections (DDN1).", "Table 3", "ddn",
           "ddn1", "gap", "thousandths", "1.26 to 1.75"),
    _below("gap-resunet", "The generalisation error of DDN is below that of ResUNet.", "Table 2", "ddn", "resunet",
           "gap", "thousandths"),
    _below("few-resunet", "With 20 training pictures DDN is better than ResUNet.", "Table 2, N = 10 to 50", "ddn",
           "resunet", "nmse", "% less", "1.119 to 1.056 %", FEW),
    _below("few-gap", "With 20 training pictures its generalisation error is below that of ResUNet.",
           "Table 2, N = 10 to 50", "ddn", "resunet", "gap", "thousandths", "0.164 to 0.139", FEW),
    faster("closed-cg", "The range projection of masked frequencies in closed form is at least 3 times as fast as by "
           "conjugate gradients.", "this library", "range-frequencies", "conjugate gradients", threshold=3.0),
    faster("banded-dense", "Banded bicubic projections are at least twice as fast as a dense matrix, 64 x 64.",
           "this library", "range-bicubic", "dense matrix", threshold=2.0),
    faster("mri-share", "Both projections take at most a tenth of a reconstruction of 256 x 256 x 10 frames.",
           "this library", "mri", "whole reconstruction", threshold=10.0),
    faster("enlarge-share", "Enlarging takes at most 1.2 times as long as its two networks alone.", "this library",
           "enlarge", "networks alone", threshold=1 / 1.2),
)  # fmt: skip
