"""The paper's claims, as tests that can fail, and checks of this implementation."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, lighter, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.reid.gasm import exact
from vergence.reid.gasm.bench import DENSE, FULL, LOOP, PAIRS
from vergence.reid.gasm.settings import counted

_POINTS, _RANK1 = "points of mAP", "points of rank-1"
SEEDS = 3

CLAIMS = (
    Claim("matching-definition", "Matching in blocks is Eq. 4 over all pairs of locations, forward and backward.",
          "Eq. 4", "check", exact.matching_is_its_definition, ROUNDING),
    Claim("dsr-definition", "DSR from factors of each gallery picture is the ridge regression of every pair, forward "
          "and backward.", "baseline", "check", exact.reconstruction_is_its_definition, ROUNDING),
    Claim("distance-itself", "A picture is at distance zero from itself, whatever its saliency.", "Eq. 4", "check",
          exact.itself_is_at_zero, exact.ROOT),
    Claim("distance-bounds", "Distances are from 0 to 2.", "Eq. 4", "check", exact.bounds_are_kept, exact.ROOT),
    Claim("distance-order", "The order of the gallery's locations does not matter, nor that of the query's with their "
          "saliency.", "Eq. 4", "check", exact.order_does_not_matter, ROUNDING),
    Claim("distance-more", "A gallery picture with more locations is never farther.", "Eq. 4", "check",
          exact.more_locations_are_never_farther, ROUNDING),
    Claim("distance-ignored", "Locations without saliency do not count; a single one gives its nearest distance, equal "
          "ones the mean.", "Eq. 4", "check", exact.ignored_locations_do_not_count, ROUNDING),
    Claim("distance-place", "A gallery picture that holds every location of the query anywhere, also one of another "
          "size, is at distance zero.", "Sec. 3.3", "check", exact.place_does_not_matter, exact.ROOT),
    Claim("distance-directed", "The distance depends on which picture asks.", "Eq. 4", "check", exact.directions_differ,
          0.01, "above"),
    Claim("pooling-average", "Pooling by uniform saliency is the average, and the scale of maps does not matter.",
          "Sec. 3.2", "check", exact.pooling_is_an_average, ROUNDING),
    Claim("map-losses", "The losses of the maps are Frobenius norms, with a gradient of zero where they vanish.",
          "Eqs. 1-2", "check", exact.losses_vanish_only_at_their_targets, ROUNDING),
    Claim("search-candidates", "Pictures that are compared locally have the distance of the whole matrix, and come "
          "before all others.", "Sec. 3.3", "check", exact.candidates_are_compared_fully, ROUNDING),
    Claim("saliency-parameters", "Saliency adds 28,686 parameters to the baseline.", "Sec. 3.2", "check",
          exact.extra_parameters, 0, unit="parameters off"),
    parameter_counts("network-parameters", "Networks for 751, 702 and 1,041 identities have the parameters counted by "
                     "hand, with and without saliency.", "Sec. 4.1",
                     {"paper": counted(751), "paper-duke": counted(702), "paper-msmt17": counted(1041),
                      "paper/baseline": counted(751, saliency=False)}),
    Claim("check-half-matching", "Where half of a query is someone else, guided matching finds more people than "
          "matching without saliency (random parts, no training).", "Sec. 3.3", "exact",
          exact.leads("gasm", "unweighted", 0.5), 20, "above", _RANK1),
    Claim("check-half-pooled", "Where half of a query is someone else, guided matching finds more people than features "
          "pooled by saliency (random parts, no training).", "Sec. 3.3", "exact",
          exact.leads("gasm", "pooled", 0.5), 0, "above", _RANK1),
    Claim("check-most-pooled", "Where two thirds of a query are someone else, guided matching finds more people than "
          "features pooled by saliency (random parts, no training).", "Sec. 3.3", "exact",
          exact.leads("gasm", "pooled", 2 / 3), 5, "above", _RANK1),
    Claim("check-half-average", "Where half of a query is someone else, features pooled by saliency find more people "
          "than averages (random parts, no training).", "Sec. 3.2", "exact",
          exact.leads("pooled", "average", 0.5), 30, "above", _RANK1),
    Claim("check-shifted", "Guided matching does not need pictures to be aligned: with shifts of up to 2 rows it is "
          "still ahead of pooled features (random parts, no training).", "Sec. 3.3", "exact",
          exact.leads("gasm", "pooled", 0.5, shift=2), 0, "above", _RANK1),
    above("gasm-above-baseline", "GASM finds hidden people better than averages of features.", "Table 1",
          better="gasm", worse="baseline", metric="map", seeds=SEEDS, unit=_POINTS, paper="+8.6 (Market to Occluded)"),
    above("mask-above-baseline", "With the teachers' masks alone, GASM finds hidden people better than averages.",
          "Table 4", better="mask", worse="baseline", metric="map", seeds=SEEDS, unit=_POINTS, paper="+2.8 (MSMT17)"),
    above("pose-above-baseline", "With the teachers' key points alone, GASM finds hidden people better than averages.",
          "Table 4", better="pose", worse="baseline", metric="map", seeds=SEEDS, unit=_POINTS, paper="+3.7 (MSMT17)"),
    above("both-not-below-mask", "Masks and key points together are not worse than masks alone by more than a point.",
          "Table 4", better="gasm", worse="mask", metric="map", margin=-1.0, seeds=SEEDS, unit=_POINTS,
          paper="+1.1 (MSMT17)"),
    above("gasm-above-self-attention", "Saliency from teachers is worth more than saliency without.", "Table 1",
          better="gasm", worse="self-attention", metric="map", seeds=SEEDS, unit=_POINTS,
          paper="+9.8 (Market to Occluded)"),
    compared("matching-above-pooled", "GASM's average of both distances is better than pooled features alone, with the "
             "same network.", "Sec. 3.3", {"gasm": "gasm"}, lambda of: of["gasm"]["map"] - of["gasm"]["map_global"],
             seeds=SEEDS, unit=_POINTS),
    compared("guided-above-unweighted", "Matching weighted by saliency is better than matching without, with the same "
             "network.", "Sec. 3.3", {"gasm": "gasm"}, lambda of: of["gasm"]["map"] - of["gasm"]["map_unweighted"],
             seeds=SEEDS, unit=_POINTS),
    compared("gasm-above-dsr", "Guided matching is better than reconstruction (DSR), with the same network.", "Table 1",
             {"gasm": "gasm"}, lambda of: of["gasm"]["map"] - of["gasm"]["map_dsr"], seeds=SEEDS, unit=_POINTS,
             paper="+2.8 (Market to Occluded)"),
    compared("gap-grows", "The more of the queries is hidden, the more GASM is ahead of the baseline.", "Sec. 4.2",
             {"gasm": "gasm", "baseline": "baseline"},
             lambda of: (of["gasm"]["map_much"] - of["baseline"]["map_much"])
             - (of["gasm"]["map_little"] - of["baseline"]["map_little"]), seeds=SEEDS, unit=_POINTS),
    lighter("matching-light", "Matching in blocks holds at most a third of what all pairs of locations hold.",
            "Sec. 3.3", "matching-small", DENSE, threshold=3),
    faster("matching-level", "Matching in blocks takes at most a tenth more time than all pairs of locations at once "
           "(first stated, before a trial, as less time).", "Sec. 3.3", "matching-small", DENSE, threshold=0.9),
    faster("matching-loop", "At the published size, matching in blocks is faster than one gallery picture at a time.",
           "Sec. 3.3", "matching-published", LOOP, threshold=1.1),
    faster("dsr-fast", "DSR from factors of each gallery picture is at least 1.5 times as fast as one pair at a time "
           "(first stated, before a trial, as 3 times).", "baseline", "dsr", PAIRS, threshold=1.5),
    faster("search-fast", "Comparing the nearest 100 of 1,000 pictures is at least 3 times as fast as comparing all.",
           "Sec. 3.3", "search", FULL, threshold=3),
)  # fmt: skip
