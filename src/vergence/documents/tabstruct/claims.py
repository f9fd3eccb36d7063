"""The paper's claims, as tests that can fail: identities, counts, costs, and what each part is good for."""

from __future__ import annotations

import torch

from vergence.contract.claims import Claim, above, compared_models, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.data.layouts import share
from vergence.documents.table_protocol import structured
from vergence.documents.tables import Fitted, Recipe, RenderedTables, collated
from vergence.documents.tabstruct import exact
from vergence.documents.tabstruct.bench import LOOP
from vergence.documents.tabstruct.model import TabStructNet
from vergence.documents.tabstruct.settings import SETTINGS
from vergence.metrics.tables import table_tree, teds

SEEDS = 3
RIVAL = f"loop, one pair in {LOOP}"


def relations_gain(model: TabStructNet) -> float:
    """TEDS of test tables with the relations that the network says, less that with no relations at all."""
    config = SETTINGS.configure("tiny").data
    recipe = Recipe(config.rows, config.columns, config.wear, config.longest, config.sizes)
    data = Fitted(RenderedTables(recipe, "test", share(config.count, "test")), "ink", config.longest)
    gains = []
    for start in range(0, len(data), 10):
        batch = collated([data[k] for k in range(start, min(start + 10, len(data)))])
        for found, table in zip(model.recognise(batch.pictures, batch.sizes), batch.tables, strict=True):
            none = torch.zeros_like(found.rows)
            trees = [table_tree(s.spans) for s in (structured(*found), structured(*found[:2], none, none))]
            truth = table_tree(table.spans.numpy())
            gains.append(teds(trees[0], truth) - teds(trees[1], truth))
    return 100 * sum(gains) / len(gains)


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
    above("alignment-helps", "With the alignment loss, more cells are found to an IoU of 0.8.", "Sec. 3.1, Table 5",
          better="tabstruct", worse="no-alignment", metric="cells80", seeds=SEEDS, unit="%"),
    above("alignment-relations", "With the alignment loss, F1 of relations is higher.", "Table 6", better="tabstruct",
          worse="no-alignment", metric="f1", seeds=SEEDS, unit="%", paper="90.6 and 88.8"),
    above("two-way", "The two-way pyramid finds more cells than the top-down one.", "Table 6", better="no-alignment",
          worse="one-way", metric="cells", seeds=SEEDS, unit="%", paper="90.7 and 90.1"),
    compared_models("network-helps", "Detections whose relations the network says make better tables (TEDS) than their "
                    "overlaps alone.", "our form", {"run": "tabstruct"}, lambda of: relations_gain(of["run"]),
                    seeds=SEEDS, unit="%"),
    above("lstm-merged", "With boxes of texts given, features along lines tell more of the pairs of merged cells than "
          "those at centres.", "Table 6", better="tabstruct", worse="p2", metric="pairs_merged", seeds=SEEDS,
          preset="tiny-boxes", unit="%"),
    above("p2-merged", "Features at centres of the pyramid tell more of them than those of convolutions of their own.",
          "Table 6", better="p2", worse="ties", metric="pairs_merged", seeds=SEEDS, preset="tiny-boxes", unit="%"),
    above("lstm-relations", "With boxes given, LSTM features give a higher F1 of relations than TIES.", "Table 6",
          better="tabstruct", worse="ties", metric="f1", seeds=SEEDS, preset="tiny-boxes", unit="%",
          paper="98.1 and 97.7"),
    above("graph-helps", "With boxes given, the graph network of TIES tells more pairs than boxes alone.", "our form",
          better="ties", worse="boxes", metric="pairs", margin=2.0, seeds=SEEDS, preset="tiny-boxes", unit="%"),
    Claim("pairs-time", "All pairs of 500 cells with the published classifier take at most a twentieth of the time of "
          "a loop over them.", "our form", "cost", lambda e: [LOOP * v for v in e.times("pairs")[RIVAL]], 20.0,
          "at least", "times"),
    faster("pairs-batch", "They take at most 1 / 1.5 of the time of one batch of all pairs.", "our form", "pairs",
           "one batch of all pairs", threshold=1.5),
    faster("alignment-time", "The alignment loss of 500 cells and more, with its gradient, takes at most a third of "
           "the time of all pairs as matrices.", "our form", "alignment", "all pairs", threshold=3.0),
)  # fmt: skip
