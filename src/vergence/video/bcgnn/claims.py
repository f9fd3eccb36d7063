"""The paper's claims, as tests that can fail, and checks of the implementation."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, faster, lighter, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.video.bcgnn import exact

CUES = "tiny-cues"
SEEDS = 3
CLAIMS = (
    Claim("edges", "The graph has 4,950 spans for 100 positions, and 6,112 for 128 with at most 64.", "Sec. 3.2",
          "check", exact.edge_counts, 0, unit="off"),
    Claim("network", "The network on the valid half is the one on the whole square, forward and backward.", "Sec. 3",
          "check", exact.network_is_its_definition, ROUNDING),
    Claim("block", "A reasoning block is Eqs. 1 to 3, forward and backward.", "Eqs. 1-3", "check",
          exact.reasoning_is_its_definition, ROUNDING),
    Claim("content", "Spans are described by evenly spaced samples between their ends.", "Sec. 3.2", "check",
          exact.contents_are_sampled, ROUNDING),
    Claim("out-edges", "The normalised out-edges of a node sum to one in every channel.", "Eq. 2", "check",
          exact.out_edges_sum_to_one, 1e-5),
    Claim("zero", "A block with zero matrices returns its rectified inputs.", "Eqs. 1-3", "check",
          exact.without_weights_nothing_changes, ROUNDING),
    Claim("causal", "An end informs only the starts before it; nodes without edges keep their features.", "Eq. 3",
          "check", exact.time_has_a_direction, ROUNDING),
    Claim("directions", "With equal matrices, directed and undirected edges are the same.", "Table 5", "check",
          exact.directions_agree, ROUNDING),
    Claim("balanced", "The loss weighs positives and negatives alike, and is twice BMN's.", "Eq. 7", "check",
          exact.loss_is_balanced, ROUNDING),
    Claim("labels", "A mirrored video has mirrored labels.", "Eq. 5", "check", exact.labels_mirror, 0),
    Claim("soft-nms", "Soft-NMS of a batch takes the spans that the loop over spans takes.", "Sec. 3.5", "check",
          exact.suppression_is_the_loop, ROUNDING),
    Claim("fused", "The score of a span is the product of its start, end and content.", "Eq. 8", "check",
          exact.size_does_not_shift, ROUNDING),
    parameter_counts("parameters", "Parameters at the sizes of the closest published system (the paper gives none).",
                     "our count", {"paper": 1_455_619}),
    above("content-informs-boundaries",
          "Where only the content tells actions from decoys, the graph finds the right boundaries (AP of "
          "starts and ends, convolutions of one position).", "Sec. 1", better="bcgnn", worse="apart",
          metric="boundary_ap", margin=20, preset=CUES, seeds=SEEDS, unit="points"),
    above("boundaries-in-films", "In rendered films, the graph makes boundaries more precise.", "Sec. 1",
          better="bcgnn", worse="apart", metric="boundary_ap", seeds=SEEDS, unit="points"),
    above("area", "In rendered films, the graph recalls more actions (AUC).", "Table 1", better="bcgnn", worse="apart",
          metric="auc", seeds=SEEDS, unit="points", paper="+0.95 over BMN"),
    above("over-gcn", "Edges with features of their own recall more than a graph convolution (AUC).", "Table 5",
          better="bcgnn", worse="gcn", metric="auc", seeds=SEEDS, unit="points", paper="+1.17"),
    above("over-undirected", "Directed edges recall more than undirected ones (AUC).", "Table 5", better="bcgnn",
          worse="undirected", metric="auc", seeds=SEEDS, unit="points", paper="+0.26"),
    above("over-no-update", "Edges that are updated recall more than those that are not (AUC).", "Table 5",
          better="bcgnn", worse="no-update", metric="auc", seeds=SEEDS, unit="points", paper="+0.52"),
    faster("fast-nms", "Soft-NMS of 4,950 spans is at least 20 times as fast as the loop of public code.", "our floor",
           "soft-nms", "public", threshold=20),
    faster("fast-step", "A training step at the published size is at least 5 times as fast as on the whole square.",
           "our floor", "step", "square", threshold=5),
    lighter("light-step", "And needs at most a quarter of its memory.", "our floor", "step", "square", threshold=4),
)  # fmt: skip
