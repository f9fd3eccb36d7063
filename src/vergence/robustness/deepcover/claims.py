"""The paper's claims, as tests that can fail.

Methods are compared on one trained network per seed: variants that differ in the explanation alone train the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from vergence.contract.claims import Claim, Evidence, Needs, Sense, compared, faster, parameter_counts
from vergence.contract.context import Context
from vergence.contract.evidence import ROUNDING
from vergence.robustness.chimera import CLASSES
from vergence.robustness.deepcover import exact
from vergence.robustness.deepcover.settings import SETTINGS, Facts
from vergence.robustness.options import LABELS

Metrics = Mapping[str, Mapping[str, float]]
SEEDS = 3
_POINTS, _PIXELS = "points", "% of the pixels"
_measured: dict[tuple[Any, ...], Mapping[str, float]] = {}
"""Metrics by variant, seed and weights, for the claims of one process."""


def metrics_of(evidence: Evidence, variant: str, seed: int) -> Mapping[str, float]:
    """The metrics of a variant that explains the network of the first one."""
    from vergence.robustness.deepcover.system import SYSTEM

    network = evidence.model(Needs("deepcover", seed))
    weights = [float(tensor.double().sum()) for tensor in network.state_dict().values()]
    key = (variant, seed, *weights)
    if key not in _measured:
        ctx = Context(replace(SETTINGS.configure("tiny", variant), seed=seed), Path(), Facts(len(CLASSES), CLASSES))
        with torch.no_grad():
            _measured[key] = SYSTEM.evaluate(ctx, network, SYSTEM.data(ctx, "test"))  # type: ignore[arg-type]
    return _measured[key]


def _explained(
    id: str, statement: str, source: str, variants: Sequence[str], measure: Callable[[Metrics], float],
    threshold: float = 0.0, sense: Sense = "above", unit: str = "", paper: str = "",
) -> Claim:  # fmt: skip
    """An empirical claim about the metrics of variants that explain the same networks."""

    def judge(evidence: Evidence) -> Sequence[float]:
        return [measure({name: metrics_of(evidence, name, seed) for name in variants}) for seed in range(SEEDS)]

    needs = tuple(Needs("deepcover", seed) for seed in range(SEEDS))
    return Claim(id, statement, source, "empirical", judge, threshold, sense, unit, paper, needs)


def _above(id: str, statement: str, source: str, better: str, worse: str, metric: str, paper: str = "") -> Claim:
    def lead(of: Metrics) -> float:
        return of[better][metric] - of[worse][metric]

    unit = _POINTS if metric == "best50" else ""
    return _explained(id, statement, source, (better, worse), lead, unit=unit, paper=paper)


def _fewer(rival: str, metric: str, what: str, source: str) -> Claim:
    """A claim that DeepCover needs fewer pixels than a rival."""

    def lead(of: Metrics) -> float:
        return of[rival][metric] - of["deepcover"][metric]

    statement = f"{what} than by {LABELS[rival]}."
    return _explained(f"{metric}-{rival}", statement, source, ("deepcover", rival), lead, unit=_PIXELS)


def _smaller(rival: str) -> Claim:
    return _fewer(rival, "size", "DeepCover's sufficient sets are smaller", "Fig. 3")


def _sooner(rival: str) -> Claim:
    return _fewer(rival, "deletion", "Hiding pixels in DeepCover's order, fewer change the answer", "Fig. 4")


def _placed(rival: str) -> Claim:
    statement = f"As many pixels as the object has, DeepCover's first, overlap with it more than {LABELS[rival]}'s."
    return _above(f"iou-{rival}", statement, "Fig. 5", "deepcover", rival, "iou")


def _found(rival: str, paper: str) -> Claim:
    statement = f"DeepCover finds more pasted objects (best IoU of 0.5 or more) than {LABELS[rival]}."
    return _above(f"chimera-{rival}", statement, "Table 1", "deepcover", rival, "best50", paper)


def _added(of: Metrics, method: str, few: str) -> float:
    """By how much a tenth of the queries enlarges the sets of a method."""
    return of[few]["size"] - of[method]["size"]


CHECKS = (
    Claim("counts", "The four counts are those of a loop over mutants, and add up to the failing and passing ones.",
          "Sect. 5", "check", exact.counts_are_the_loop, 0),
    Claim("eq-2", "The measures are Eq. 2, for every small spectrum; 0 where they are undefined.", "Eq. 2", "check",
          exact.measures_are_eq_2, ROUNDING),
    Claim("bounds", "Ochiai, Tarantula and Zoltar are in [0, 1], and Zoltar is at most a_ef / F.", "Eq. 2", "check",
          exact.bounds_are_kept, 0),
    Claim("symmetry", "Swapping passes and failures reverses Wong-II; taking a suite twice changes no ranking.",
          "Eq. 2", "check", exact.measures_are_symmetric, ROUNDING),
    Claim("decisive", "A pixel that alone decides the answer has the highest score.", "Eq. 2", "check",
          exact.decisive_pixel_comes_first, 0),
    Claim("patch", "The set for a known rule (60 % of a patch) is at most 2.5 times the smallest possible one.",
          "Alg. 1", "check", exact.patch_is_found, 2.5, unit="times"),
    Claim("constant", "A classifier that always says the same has nothing to rank, and is said to.", "Alg. 1", "check",
          exact.constant_classifier_has_nothing_to_rank, 0),
    Claim("minimal", "A sufficient set is a beginning of the ranking, and not sufficient without its last pixel.",
          "Alg. 1", "check", exact.sets_are_minimal_along_the_ranking, 0),
    parameter_counts("vgg16", "VGG16 has its published number of parameters.", "Sect. 6.3", {"paper": 138_357_544}),
)  # fmt: skip
CLAIMS = (
    *CHECKS,
    Claim("sufficient", "Explanations are sufficient: with all other pixels hidden, the answer is the same.",
          "Sect. 5.2", "exact", exact.sets_are_sufficient, 0, unit="insufficient sets"),
    Claim("balanced-oracle", "Alg. 2 balances mutants that keep and that change the answer of a known rule.",
          "Sect. 5.1", "exact", exact.suites_are_balanced, 0.05, unit="from one half"),
    Claim("printed-counts", "Counted as Sect. 5 prints it (a pixel is executed where it is not masked), the set for a "
          "known rule is no larger than counted as the authors' code does (where it is masked).", "Sect. 5", "exact",
          exact.printed_counts_are_no_larger, 1.0, unit="times as large"),
    _explained("balanced", "On a trained network too, about half of the mutants keep the answer.", "Sect. 5.1",
               ("deepcover",), lambda of: abs(of["deepcover"]["passing"] - 50), 10, "at most", "points from 50 %"),
    _above("printed", "Counted as printed, the ranking finds objects better than a random one.", "Sect. 5",
           "printed", "random", "iou"),
    _above("windows", "Mutants that hide a window, as in the authors' code, find objects better than mutants that hide "
           "single pixels, as in Alg. 2.", "Alg. 2", "deepcover", "pixels", "iou"),
    *(_found(rival, paper) for rival, paper in {"extremal": "+6.0", "rise": "+20.9", "gradcam": "+76.7"}.items()),
    *(_placed(rival) for rival in ("extremal", "rise", "lime", "gradcam", "random")),
    *(_smaller(rival) for rival in ("extremal", "rise", "lime", "shap", "gradcam")),
    *(_sooner(rival) for rival in ("extremal", "rise", "lime", "shap", "gradcam")),
    _explained("few", "A tenth of the queries enlarges the sets by at most 5 % of the pixels.", "Sect. 6.3, Fig. 6",
               ("deepcover", "few"), lambda of: _added(of, "deepcover", "few"), 5, "at most", _PIXELS, "3 %"),
    _explained("few-rise", "With a tenth of the queries, RISE's sets grow more than DeepCover's.", "Sect. 6.3, Fig. 6",
               ("deepcover", "few", "rise", "rise-few"),
               lambda of: _added(of, "rise", "rise-few") - _added(of, "deepcover", "few"), unit=_PIXELS),
    compared("trojan", "The first 8 % of the pixels have an IoU of at least 0.5 with the trigger of a backdoor.",
             "Sect. 6.5", {"run": "trojan"}, lambda of: of["run"]["iou8"], threshold=0.5, sense="at least",
             seeds=SEEDS, paper="0.6"),
    compared("trojan-located", "In most pictures they find it, with an IoU of 0.5 or more.", "Sect. 6.5",
             {"run": "trojan"}, lambda of: of["run"]["located8"], threshold=50, seeds=SEEDS, unit="% of the pictures",
             paper="80 %"),
    compared("trained", "As training progresses, explanations overlap with the object more.", "Fig. 2",
             {"whole": "deepcover", "early": "early"}, lambda of: of["whole"]["iou"] - of["early"]["iou"],
             seeds=SEEDS),
    faster("overhead", "An explanation takes at most 15 % more time than its forward passes.", "Sect. 5.2",
           "explanation", "forward passes alone", threshold=1 / 1.15, paper="linear in the suite and the picture"),
    faster("counting", "Counting windows is at least 20 times as fast as a loop over mutants.", "Alg. 1, lines 2-5",
           "windows", "loop over mutants", threshold=20),
    faster("counting-bits", "So is counting packed masks.", "Alg. 1, lines 2-5", "packed", "loop over mutants",
           threshold=20),
)  # fmt: skip
