"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from collections.abc import Mapping

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.robustness.deepcover import exact
from vergence.robustness.options import LABELS

Metrics = Mapping[str, Mapping[str, float]]
SEEDS = 3
_POINTS, _PIXELS = "points", "% of the pixels"


def _fewer(rival: str, metric: str, what: str, source: str, paper: str = "") -> Claim:
    """A claim that DeepCover needs fewer pixels than a rival."""

    def lead(of: Metrics) -> float:
        return of["rival"][metric] - of["deepcover"][metric]

    runs = {"deepcover": "deepcover", "rival": rival}
    statement = f"{what} than by {LABELS[rival]}."
    return compared(f"{metric}-{rival}", statement, source, runs, lead, seeds=SEEDS, unit=_PIXELS, paper=paper)


def _smaller(rival: str) -> Claim:
    return _fewer(rival, "size", "DeepCover's sufficient sets are smaller", "Fig. 3")


def _sooner(rival: str) -> Claim:
    return _fewer(rival, "deletion", "Hiding pixels in DeepCover's order, fewer change the answer", "Fig. 4")


def _placed(rival: str) -> Claim:
    statement = f"As many pixels as the object has, DeepCover's first, overlap with it more than {LABELS[rival]}'s."
    return above(f"iou-{rival}", statement, "Fig. 5", better="deepcover", worse=rival, metric="iou", seeds=SEEDS)


def _found(rival: str, paper: str) -> Claim:
    return above(
        f"chimera-{rival}", f"DeepCover finds more pasted objects (best IoU of 0.5 or more) than {LABELS[rival]}.",
        "Table 1", better="deepcover", worse=rival, metric="best50", seeds=SEEDS, unit=_POINTS, paper=paper,
    )  # fmt: skip


def _added(of: Metrics, method: str) -> float:
    """By how much a tenth of the queries enlarges the sets of a method."""
    return of[f"{method} few"]["size"] - of[method]["size"]


FEW = {"deepcover": "deepcover", "deepcover few": "few"}
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
    compared("balanced", "On a trained network too, about half of the mutants keep the answer.", "Sect. 5.1",
             {"run": "deepcover"}, lambda of: abs(of["run"]["passing"] - 50), threshold=10, sense="at most",
             seeds=SEEDS, unit="points from 50 %"),
    above("printed", "Counted as printed, the ranking finds objects better than a random one.", "Sect. 5",
          better="printed", worse="random", metric="iou", seeds=SEEDS),
    above("windows", "Mutants that hide a window, as in the authors' code, find objects better than mutants that hide "
          "single pixels, as in Alg. 2.", "Alg. 2", better="deepcover", worse="pixels", metric="iou", seeds=SEEDS),
    *(_found(rival, paper) for rival, paper in {"extremal": "+6.0", "rise": "+20.9", "gradcam": "+76.7"}.items()),
    *(_placed(rival) for rival in ("extremal", "rise", "lime", "gradcam", "random")),
    *(_smaller(rival) for rival in ("extremal", "rise", "lime", "shap", "gradcam")),
    *(_sooner(rival) for rival in ("extremal", "rise", "lime", "shap", "gradcam")),
    compared("few", "A tenth of the queries enlarges the sets by at most 5 % of the pixels.", "Sect. 6.3, Fig. 6",
             FEW, lambda of: _added(of, "deepcover"), threshold=5, sense="at most", seeds=SEEDS, unit=_PIXELS,
             paper="3 %"),
    compared("few-rise", "With a tenth of the queries, RISE's sets grow more than DeepCover's.", "Sect. 6.3, Fig. 6",
             FEW | {"rise": "rise", "rise few": "rise-few"}, lambda of: _added(of, "rise") - _added(of, "deepcover"),
             seeds=SEEDS, unit=_PIXELS),
    compared("trojan", "The first 8 % of the pixels have an IoU of at least 0.5 with the trigger of a backdoor.",
             "Sect. 6.5", {"run": "trojan"}, lambda of: of["run"]["iou8"], threshold=0.5, sense="at least",
             seeds=SEEDS, paper="0.6"),
    compared("trojan-located", "In most pictures they find it, with an IoU of 0.5 or more.", "Sect. 6.5",
             {"run": "trojan"}, lambda of: of["run"]["located8"], threshold=50, seeds=SEEDS, unit="% of the pictures",
             paper="80 %"),
    above("trained", "As training progresses, explanations overlap with the object more.", "Fig. 2",
          better="deepcover", worse="early", metric="iou", seeds=SEEDS),
    faster("overhead", "An explanation takes at most 15 % more time than its forward passes.", "Sect. 5.2",
           "explanation", "forward passes alone", threshold=1 / 1.15, paper="linear in the suite and the picture"),
    faster("counting", "Counting windows is at least 20 times as fast as a loop over mutants.", "Alg. 1, lines 2-5",
           "windows", "loop over mutants", threshold=20),
    faster("counting-bits", "So is counting packed masks.", "Alg. 1, lines 2-5", "packed", "loop over mutants",
           threshold=20),
)  # fmt: skip
