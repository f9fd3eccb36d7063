"""The paper's claims, as tests that can fail, and checks of our own code."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.matching.bbgm import exact
from vergence.matching.bbgm.settings import PARAMETERS

SEEDS = 3
CLAIMS = (
    Claim("interpolation", "The gradient through the solver is that of a piecewise affine interpolation of the loss.",
          "Eq. 2", "exact", exact.gradient_is_that_of_an_interpolation, 1e-8),
    Claim("truth-ward", "Beyond the range of costs, the gradient is the change to the true matching, for edges too.",
          "Eqs. 4-7", "exact", exact.strong_gradients_point_to_the_truth, ROUNDING),
    Claim("solvers", "Enumeration and integer programming give the cheapest of all matchings.", "Eq. 3", "check",
          exact.solvers_find_the_optimum, 1e-6),
    Claim("assignment", "Without edge costs every solver gives linear assignment with places to stay alone.", "Eq. 3",
          "check", exact.without_edges_it_is_assignment, 1e-7),
    Claim("names", "Renaming nodes and edges renames the matching.", "Eq. 3", "check", exact.names_do_not_matter, 0,
          unit="nodes"),
    Claim("sizes", "Positive costs match nothing; a large reward matches as many as possible.", "BB-GM-Max", "check",
          exact.size_follows_costs, 0, unit="matches"),
    Claim("published-form", "Costs are those of the definition, edge by edge, forward and backward.", "Sec. 3, code",
          "check", exact.network_is_the_definition, 1e-8),
    Claim("turned-edges", "Reversing both edges leaves their cost.", "Sec. 3", "check",
          exact.turned_edges_cost_the_same, ROUNDING),
    Claim("inner-product", "Without attention, similarities are inner products under softplus.", "Eq. 8", "check",
          exact.plain_attention_is_an_inner_product, 1e-9),
    Claim("place", "The graph sees differences of places only.", "code", "check",
          exact.place_does_not_matter_to_the_graph, ROUNDING),
    Claim("batches", "A batch is its pairs, whatever their sizes.", "our code", "check", exact.batches_are_their_pairs,
          0, unit="entries"),
    Claim("scores", "Accuracy and F1 follow their definitions.", "Sec. 4", "check", exact.scores_are_what_they_say,
          1e-5, unit="%"),
    Claim("cycles", "Matchings of several pictures are consistent.", "Sec. 3.3", "check",
          exact.several_graphs_are_consistent, 0, unit="entries"),
    parameter_counts("parameters", "VGG-16 with batch norm, two SplineConv layers of 27,264,000 and two attention "
                     "layers of 1,049,600.", "code", {"paper": PARAMETERS}),
    above("partial", "Leaving keypoints alone beats matching as many as possible (F1, unfiltered).", "Table 3",
          better="bbgm", worse="max", metric="f1", seeds=SEEDS, unit="% F1", paper="+9.5"),
    above("several", "Matching five pictures consistently beats matching two (F1, unfiltered).", "Table 3",
          better="multi", worse="bbgm", metric="f1", seeds=SEEDS, unit="% F1", paper="+1.4"),
    above("edges", "Costs of edges make matches better (F1, unfiltered).", "our ablation", better="bbgm",
          worse="unary", metric="f1", seeds=SEEDS, unit="% F1"),
    above("spline", "SplineConv is needed (F1, unfiltered).", "our ablation", better="bbgm", worse="no-spline",
          metric="f1", margin=5.0, seeds=SEEDS, unit="% F1"),
    faster("dual-ascent", "Dual ascent takes at most a twentieth of the time of integer programming (n = 10).",
           "Sec. 3.2", "solver-10", "milp", threshold=20.0),
    faster("spline-speed", "SplineConv takes at most a fifth of the time of a loop over edges.", "our code",
           "splineconv", "loop", threshold=5.0),
)  # fmt: skip
