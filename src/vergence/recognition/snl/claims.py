"""The appendix's claims and consequences of its formulas, as tests that can fail."""

from __future__ import annotations

from collections.abc import Mapping

from vergence.contract.claims import Claim, above, compared
from vergence.contract.evidence import ROUNDING
from vergence.recognition.snl.exact import (
    a2_rows_sum_to_one,
    a_small_band_takes_a_true_zoom,
    cayley_is_spectral,
    chebyshev_is_spectral,
    criss_cross_sees_its_cross,
    each_block_reaches_its_targets,
    eigenvalues_are_bounded,
    gsnl_is_snl,
    is_its_formula,
    large_objects_lie_low,
    ns_is_nl_minus_one_product,
    only_snl_represents_every_filter,
    only_the_true_cayley_is_bounded,
    parameters_match,
    snl_is_spectral,
    the_printed_zoom_is_none,
    tokens_have_their_limits,
)


def _more_on_large(of: Mapping[str, Mapping[str, float]]) -> float:
    """How much larger the lead of one block over another is on large objects than on small ones."""
    large, small = (of["better"][metric] - of["worse"][metric] for metric in ("large", "small"))
    return large - small


def _both(*variants: str) -> dict[str, tuple[str, str]]:
    """Runs of variants on tokens, for both targets."""
    return {f"{variant} {target}": (variant, f"tiny-{target}") for variant in variants for target in ("clean", "noise")}


def _worse_by(of: Mapping[str, Mapping[str, float]], ours: str) -> float:
    """By how much the larger error of the two targets is larger, for the best of the others than for ours."""
    worst: dict[str, float] = {}
    for run, metrics in of.items():
        variant = run.split()[0]
        worst[variant] = max(worst.get(variant, 0.0), metrics["mse"])
    return min(error for variant, error in worst.items() if variant != ours) - worst[ours]


def _lower_error(id: str, statement: str, better: str, worse: str, target: str) -> Claim:
    runs = {"better": (better, f"tiny-{target}"), "worse": (worse, f"tiny-{target}")}
    return compared(id, statement, "Eqs. 4 and 9", runs, lambda of: of["worse"]["mse"] - of["better"]["mse"],
                    seeds=UNSEEN, unit=_ERROR)  # fmt: skip


_ERROR = "of the squared error"
UNSEEN = range(5, 10)
"""Seeds of claims that were written when results with some of the seeds from 0 to 4 had been seen: a stored table of
these blocks, or a picture of their answers on tokens."""

CLAIMS = (
    Claim("nl-filter", "NL is one term of a graph filter on the row-normalised affinity.", "Eqs. 1-5", "exact",
          is_its_formula("nl", "nl-gaussian"), ROUNDING),
    Claim("nl-kernels", "So it is with the dot product and the concatenation, normalised by size.", "Eqs. 1-5",
          "exact", is_its_formula("nl-dot", "nl-concatenation"), ROUNDING),
    Claim("ns-filter", "NS is the first-order graph filter with both weights tied.", "Eqs. 6-11", "exact",
          is_its_formula("ns"), ROUNDING),
    Claim("ns-nl", "NS is NL minus one product.", "Eq. 10", "check", ns_is_nl_minus_one_product, ROUNDING),
    Claim("a2-filter", "Double attention is one term of a graph filter on a product of two softmaxes.", "Eqs. 12-13",
          "exact", is_its_formula("a2"), ROUNDING),
    Claim("a2-stochastic", "Rows of double attention's affinity sum to one.", "Eq. 13", "check", a2_rows_sum_to_one,
          ROUNDING),
    Claim("cgnl-filter", "CGNL with one group is one term of a graph filter on a graph of N·C nodes.", "Eqs. 14-17",
          "exact", is_its_formula("cgnl", "cgnl-dot"), ROUNDING),
    Claim("cc-filter", "Criss-cross attention is one term of a graph filter on the masked affinity.", "Eqs. 18-19",
          "exact", is_its_formula("cc"), ROUNDING),
    Claim("cc-cross", "Criss-cross attention sees H + W - 1 positions at once, and all of them in two steps.",
          "Eqs. 18-19", "check", criss_cross_sees_its_cross, ROUNDING),
    Claim("snl-filter", "SNL is the first-order filter on the symmetric, normalised affinity.", "Eq. 23", "check",
          is_its_formula("snl"), ROUNDING),
    Claim("snl-bounded", "The eigenvalues of SNL's affinity lie in [-1, 1], as a Chebyshev filter needs.", "Sec. 2",
          "exact", eigenvalues_are_bounded, ROUNDING),
    Claim("snl-spectral", "SNL scales each frequency of the graph by a first-order response.", "Theorem 1", "exact",
          snl_is_spectral, ROUNDING),
    Claim("snl-represents", "With the affinity fixed, SNL represents every first-order filter; NL and NS do not.",
          "Eqs. 4, 9 and 23", "exact", only_snl_represents_every_filter, ROUNDING),
    Claim("targets", "With its residual, NL can take the others away, not take their place (high-pass, no low-pass), "
          "and NS the reverse; SNL, gSNL and ChebySNL can do both, CayleySNL and CayleyExact neither exactly.",
          "Eqs. 4, 9, 20, 22 and 23", "check", each_block_reaches_its_targets, ROUNDING),
    Claim("gsnl-filter", "gSNL is a graph filter under the assumption A² = A.", "earlier paper", "exact",
          is_its_formula("gsnl"), ROUNDING),
    Claim("gsnl-snl", "gSNL is SNL in other weights, either way: it can represent what SNL can, and nothing more.",
          "earlier paper", "check", gsnl_is_snl, ROUNDING),
    Claim("chebysnl-filter", "ChebySNL of order 2 is its polynomial, written out in matrices.", "Theorem 1", "check",
          is_its_formula("chebysnl"), ROUNDING),
    Claim("chebysnl-spectral", "ChebySNL of any order scales each frequency by its polynomial; of order 1 it is SNL.",
          "Theorem 1", "check", chebyshev_is_spectral, ROUNDING),
    Claim("cayleysnl-filter", "CayleySNL is Eq. 22, with either affinity.", "Eqs. 22-23", "check",
          is_its_formula("cayleysnl", "cayleysnl-relu"), ROUNDING),
    Claim("cayleyexact-filter", "CayleyExact is Eq. 20, computed without complex numbers.", "Eq. 20", "check",
          is_its_formula("cayleyexact"), ROUNDING),
    Claim("cayley-spectral", "The Cayley filter of any order scales each frequency by cosines of its turn.", "Eq. 20",
          "check", cayley_is_spectral, ROUNDING),
    Claim("cayley-bounded", "Terms of the Cayley filter are bounded for every zoom; those of the printed one are not.",
          "Eqs. 20 and 22", "check", only_the_true_cayley_is_bounded, ROUNDING),
    Claim("cayley-printed-zoom", "The zoom of Eq. 22 is none: without it the same block can be had in other weights.",
          "Eq. 22", "check", the_printed_zoom_is_none, ROUNDING),
    Claim("large-low", "The larger an object is, the lower is the frequency of its signal on the graph of positions.",
          "Sec. 2", "exact", large_objects_lie_low, ROUNDING),
    Claim("small-band", "A bounded response tells a narrow band from zero by its width if it is SNL's, by half of the "
          "width squared if it is that of Eq. 22, and by as much as one likes if it is that of Eq. 20.", "Sec. 2",
          "check", a_small_band_takes_a_true_zoom, ROUNDING),
    Claim("parameters", "Parameters of PreResNet-56 without a block, with NL, NS or A2, and with SNL.", "public code",
          "check", parameters_match, 0, paper="1,190,008 / 1,198,328 / 1,200,376"),
    Claim("tokens-limits", "Where the affinity averages tokens that are alike, the best NL, with its residual, "
          "isolates their noise and cannot remove it, the best NS removes it and cannot isolate it, and SNL does both.",
          "Eqs. 4, 9 and 23", "exact", tokens_have_their_limits, ROUNDING),
    _lower_error("tokens-clean", "NS, alone on noisy tokens, learns to remove the noise better than NL.",
                 "ns", "nl", "clean"),
    _lower_error("tokens-noise", "NL, alone on noisy tokens, learns to isolate the noise better than NS.",
                 "nl", "ns", "noise"),
    compared("tokens-both", "SNL, alone on noisy tokens, has a lower error than no block, NL, NS, A2 and CGNL in the "
             "worse of the two tasks.", "Eqs. 4-23", _both("none", "nl", "ns", "a2", "cgnl", "snl"),
             lambda of: _worse_by(of, "snl"), seeds=UNSEEN, unit=_ERROR),
    compared("tokens-one-affinity", "SNL on the softmax affinity of NL and NS has a lower error than either in the "
             "worse of the two tasks.", "Eqs. 4-23",
             _both("nl", "ns", "snl-softmax"), lambda of: _worse_by(of, "snl-softmax"), seeds=UNSEEN,
             unit=_ERROR),
    above("snl-above-none", "SNL classifies better than no block.", "Table 1", better="snl", worse="none",
          metric="top1", unit="points of Top-1", paper="+1.08"),
    above("snl-above-nl", "SNL classifies better than NL.", "Table 1", better="snl", worse="nl", metric="top1",
          unit="points of Top-1", paper="+1.12"),
    above("snl-above-ns", "SNL classifies better than NS.", "Table 1", better="snl", worse="ns", metric="top1",
          unit="points of Top-1", paper="+1.02"),
    above("snl-above-a2", "SNL classifies better than A2.", "Table 1", better="snl", worse="a2", metric="top1",
          seeds=UNSEEN, unit="points of Top-1", paper="+0.90"),
    above("snl-above-cgnl", "SNL classifies better than CGNL.", "Table 1", better="snl", worse="cgnl", metric="top1",
          seeds=UNSEEN, unit="points of Top-1", paper="+1.70"),
    above("cayleysnl-above-snl", "CayleySNL classifies better than SNL.", "Table 1", better="cayleysnl", worse="snl",
          metric="top1", unit="points of Top-1", paper="+0.31"),
    above("cayleyexact-large", "A Cayley filter (Eq. 20) is better than SNL on large objects.", "Remark 1",
          better="cayleyexact", worse="snl", metric="large", preset="tiny-sizes", unit="points of Top-1"),
    compared("cayleyexact-large-more", "A Cayley filter (Eq. 20) gains more over SNL on large objects than on small "
             "ones.", "Remark 1", {"better": ("cayleyexact", "tiny-sizes"), "worse": ("snl", "tiny-sizes")},
             _more_on_large, unit="points of Top-1"),
    above("cayleysnl-large", "CayleySNL (Eq. 22), on SNL's own affinity, is better than SNL on large objects.",
          "Remark 1", better="cayleysnl-relu", worse="snl", metric="large", preset="tiny-sizes",
          unit="points of Top-1"),
    compared("cayleysnl-large-more", "CayleySNL (Eq. 22), on SNL's own affinity, gains more over SNL on large objects "
             "than on small ones.", "Remark 1",
             {"better": ("cayleysnl-relu", "tiny-sizes"), "worse": ("snl", "tiny-sizes")}, _more_on_large,
             unit="points of Top-1"),
    above("video-p3d", "P3D with SNL recognises actions better than without.", "Table 3", better="snl", worse="none",
          metric="top1", preset="tiny-video", unit="points of Top-1", paper="+1.42"),
    above("video-vtn", "A video transformer with SNL in the place of its attention recognises actions better.",
          "Table 3", better="snl", worse="none", metric="top1", preset="tiny-vtn", unit="points of Top-1",
          paper="+0.28 (printed as +0.30)"),
    above("reid-snl-above-none", "SNL finds people again better than no block.", "Table 2", better="snl", worse="none",
          metric="rank1", preset="tiny-reid", unit="points of Rank-1", paper="+1.10 / +1.60 / +2.30"),
    above("reid-snl-above-nl", "SNL finds people again better than NL.", "Table 2", better="snl", worse="nl",
          metric="rank1", preset="tiny-reid", unit="points of Rank-1", paper="+0.19 / +1.00 / +3.40"),
    above("reid-map", "SNL ranks people better than no block.", "Table 2", better="snl", worse="none", metric="map",
          preset="tiny-reid", unit="points of mAP", paper="+1.10 / +3.20 / +1.90"),
)  # fmt: skip
