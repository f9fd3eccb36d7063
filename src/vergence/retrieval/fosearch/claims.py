"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.retrieval.fosearch import exact

_POINTS, _SEEDS = "points of mAP", 3

CLAIMS = (
    Claim("query-definition", "The query embedding is two rectified linear layers of the outer product of background "
          "features and layout, forward and backward.", "Sec. 4.3", "check", exact.query_is_its_definition, ROUNDING),
    Claim("bilinear", "The fusion is linear in the features and in the layout, of rank one, and swaps two columns with "
          "width and height.", "Sec. 4.3", "check", exact.fusion_is_bilinear, ROUNDING),
    Claim("zero-layout", "A layout of zeros makes all pictures the same query.", "Sec. 4.3", "check",
          exact.zero_layouts_say_nothing, ROUNDING),
    Claim("triplet-definition", "The triplet loss is that of Eq. 3 with distances for similarities, forward and "
          "backward; as printed, positive and negative are swapped.", "Eq. 3", "check", exact.triplet_is_its_definition,
          ROUNDING),
    Claim("triplet-bounds", "The loss is 0 once the positive leads by the margin, the margin for equal cut-outs, at "
          "most 2 more than the margin, and does not depend on lengths.", "Eq. 3", "check", exact.triplet_is_bounded,
          ROUNDING),
    Claim("only-head", "A step of the second stage touches the query head and nothing else, running statistics "
          "included.", "Sec. 4.3", "check", exact.only_the_head_learns, 0),
    Claim("cosines", "Cosines of rectified queries and foreground embeddings are from 0 to 1.", "Sec. 4.3", "check",
          exact.cosines_are_positive, ROUNDING),
    Claim("early-blind", "Early fusion masks out what is inside the box.", "Sec. 4.3", "exact",
          exact.early_fusion_is_blind, 0),
    Claim("late-sees", "Late fusion sees what is inside the box.", "Sec. 4.3", "exact", exact.late_fusion_sees, 1e-3,
          "above"),
    Claim("centres", "Centre loss and the centres' update are as defined; absent patterns keep their centre.", "Eq. 2",
          "check", exact.centres_are_wens, ROUNDING),
    Claim("squares", "The square crop is the largest and nearest, and a random zoom never cuts the box.", "Sec. 4.3",
          "check", exact.squares_hold_the_box, 0),
    Claim("layouts", "Layouts do not depend on the resolution, have steps of 0.01 and mirror with the picture.",
          "Sec. 4.3", "check", exact.layouts_do_not_know_pixels, 1e-6),
    Claim("patterns-of-one", "Pattern search with one cut-out per pattern is instance search.", "Sec. 4.4", "check",
          exact.patterns_of_one_are_instances, 0),
    Claim("precision", "Average precision is scikit-learn's, 1 for a perfect order, and within a category if there are "
          "several.", "Sec. 3.3", "check", exact.precision_is_the_librarys, ROUNDING),
    Claim("chance", "The mAP of a random order is the mean over all orders.", "Sec. 3.3", "check",
          exact.chance_is_the_mean_over_orders, ROUNDING),
    parameter_counts("parameters", "Two ResNet-50 of 23,508,032 parameters each, 699 patterns (1,432,251) and a query "
                     "head of 20,975,616 are 69,423,931.", "Sec. 4", {"paper": 69_423_931}),
    compared("above-chance", "FOSearch ranks cut-outs far better than a random order.", "Table 2", {"run": "fosearch"},
             lambda of: of["run"]["map"] - of["run"]["chance"], threshold=20, seeds=_SEEDS, unit=_POINTS),
    above("above-baseline", "FOSearch is better than early fusion without patterns.", "Table 2", better="fosearch",
          worse="baseline", metric="map", seeds=_SEEDS, unit=_POINTS, paper="+10.4"),
    above("patterns-first", "With early fusion, a frozen teacher of patterns is better than learning both encoders "
          "from instance pairs.", "Table 2", better="early", worse="baseline", metric="map", seeds=_SEEDS, unit=_POINTS,
          paper="+5.7"),
    above("distilled", "With late fusion, a frozen teacher of patterns is better than learning the foreground encoder "
          "from instance pairs.", "Sec. 5.3", better="fosearch", worse="untaught", metric="map", seeds=_SEEDS,
          unit=_POINTS),
    above("late-above-early", "Late fusion is better than early fusion, both without zoom.", "Table 2",
          better="no-zoom", worse="early", metric="map", seeds=_SEEDS, unit=_POINTS, paper="+2.9"),
    compared("inside-lost", "Early fusion loses more where what decides the fit is inside the box.", "Sec. 4.3",
             {"late": "no-zoom", "early": "early"},
             lambda of: (of["late"]["map_inside"] - of["early"]["map_inside"])
             - (of["late"]["map_outside"] - of["early"]["map_outside"]), seeds=_SEEDS, unit=_POINTS),
    above("zoom", "Random zoom helps.", "Table 2", better="no-freeze", worse="no-zoom", metric="map", seeds=_SEEDS,
          unit=_POINTS, paper="+1.7"),
    above("freezing", "A frozen background encoder is not worse than a trained one by more than a point.", "Table 2",
          better="fosearch", worse="no-freeze", metric="map", margin=-1.0, seeds=_SEEDS, unit=_POINTS, paper="+0.1"),
    above("multitask", "Fine-tuning both encoders with both losses helps.", "Table 2", better="multitask",
          worse="fosearch", metric="map", seeds=_SEEDS, unit=_POINTS, paper="+0.8"),
    above("bilinear-above-concat", "The outer product is better than features and layout in a row.", "Sec. 4.3",
          better="fosearch", worse="concat", metric="map", seeds=_SEEDS, unit=_POINTS),
    compared("printed-below-chance", "With the sign of Eq. 3 as printed, the ranking is worse than a random one.",
             "Eq. 3", {"run": "printed"}, lambda of: of["run"]["map"] - of["run"]["chance"], sense="below",
             seeds=_SEEDS, unit=_POINTS),
    compared("pattern-search", "Ranked patterns have a higher mAP than ranked cut-outs.", "Sec. 5.3",
             {"run": "fosearch"}, lambda of: of["run"]["map_patterns"] - of["run"]["map"], seeds=_SEEDS, unit=_POINTS),
    compared("similar", "Cut-outs of the same pattern are found far better by the teacher's embeddings than by those "
             "of a network that never saw patterns.", "Fig. 6", {"run": "fosearch"},
             lambda of: of["run"]["similar"] - of["run"]["similar_plain"], threshold=20, seeds=_SEEDS, unit=_POINTS),
    faster("search-level", "Search among 100,000 embeddings of 2,048 numbers takes at most a quarter more time than "
           "FAISS's own flat index.", "Sec. 5.1", "search", "FAISS, IndexFlatIP", threshold=0.8),
    faster("search-cheap", "Searching the paper's 10,154 cut-outs takes less than half the time of encoding the query.",
           "Sec. 5.2", "one-query", "encoding the query", threshold=2),
    faster("head-alone", "A step that trains the query head alone takes at most two thirds of one that trains the "
           "background encoder too.", "Sec. 4.3", "step", "background trained", threshold=1.5),
    faster("hole-fast", "Filling the place of an object is at least 3 times as fast as OpenCV's method.", "Sec. 3.1",
           "hole", "OpenCV, Telea", threshold=3),
)  # fmt: skip
