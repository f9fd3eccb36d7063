"""The paper's claims, as tests that can fail: identities, counts, costs, and what each part is good for."""

from __future__ import annotations

from vergence.contract.claims import Claim, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.documents.tabstruct import exact

CLAIMS = (
    parameter_counts("parameters", "Trainable parameters of the published network.", "Sec. 4.3", {"paper": 64_753_023}),
    Claim("parts", "Pyramid, proposals, heads, LSTMs, graphs and classifiers have the parameters counted by hand.",
          "Sec. 4.3", "check", exact.parts_have_their_counts, 0, unit="parameters off"),
    Claim("alignment", "The alignment loss in closed form is the sum over all pairs, forward and backward.", "Eq. 1",
          "check", exact.alignment_is_the_double_loop, ROUNDING),
    Claim("alignment-groups", "The alignment loss is 0 for aligned cells alone, and changes neither with the place of "
          "a whole row or column nor with the order of cells.", "Eq. 1", "check", exact.alignment_knows_groups_alone,
          1e-9),
    Claim("ground-truth", "Boxes made from the content of cells are aligned, touch, and hold their content.",
          "Sec. 3.1", "check", exact.truth_is_aligned, 1e-9, unit="pixels"),
    Claim("relations", "Sharing a row is reflexive and symmetric, and not transitive.", "Sec. 3.2", "check",
          exact.relations_are_as_defined, 0, unit="wrong"),
    Claim("spans", "Spans of merged grids come back from their boxes and relations.", "Sec. 3.3", "check",
          exact.spans_make_a_round_trip, 0, unit="tables changed"),
    Claim("repairs", "Contradicting spans become a grid, without losing a cell, and every change is said.", "our form",
          "check", exact.repairs_make_a_grid, 0, unit="wrong"),
    Claim("sampler", "Half of the sampled partners are mates.", "Sec. 3.2", "check", exact.partners_are_balanced, 0.01),
    Claim("edges", "The edge convolution is its definition, forward and backward, and follows the order of cells.",
          "Sec. 3.2", "check", exact.edges_are_as_defined, ROUNDING),
    Claim("tables", "Features of a table's cells depend on no other table of the batch.", "our form", "check",
          exact.tables_do_not_mix, ROUNDING),
    Claim("pairs", "All pairs at once are the loop over pairs, forward and backward.", "Sec. 3.2", "check",
          exact.all_pairs_are_the_loop, ROUNDING),
    Claim("lines", "Features along lines are PyTorch's interpolation, forward and backward.", "Sec. 3.2", "check",
          exact.lines_are_interpolated, ROUNDING),
    Claim("lstm", "Visual features are the last states of an LSTM.", "Sec. 3.2", "check",
          exact.lstm_sees_the_last_state, ROUNDING),
    Claim("pyramid", "The two-way pyramid is its sums written out, forward and backward.", "Sec. 3.1, public code",
          "check", exact.pyramid_is_as_drawn, ROUNDING),
    Claim("regions", "Regions of the exported network are those of the detector, and masks of cells are rectangles.",
          "our form", "check", exact.regions_are_those_of_the_heads, ROUNDING),
    Claim("adjacency", "Relations of a table score 100 % against themselves, and a missing cell costs exactly its own.",
          "Sec. 4.4", "check", exact.relations_score_as_defined, 0),
    Claim("tree-distance", "Edit distances of trees are those of the library apted.", "Sec. 4.4", "check",
          exact.distances_are_apteds, 1e-9),
    Claim("teds", "TEDS and BLEU have their closed forms.", "Sec. 4.4", "check", exact.teds_has_its_closed_forms, 1e-9),
)  # fmt: skip
