"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from vergence.contract.claims import Claim, parameter_counts
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
)  # fmt: skip
