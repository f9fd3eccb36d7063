"""The paper's claims about Pattern-Net, as tests that can fail; and checks of this implementation."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.points.orderlydisorder import exact

SEEDS = 3
PARTS = "tiny-parts"
COUNTS = {"paper": 366_760, "paper-parts": 452_210, "paper/dgcnn": 1_809_576, "paper/pointnet": 3_480_049}
CLAIMS = (
    # Checks of this implementation
    Claim("partition", "Clones are disjoint, of equal size, and together the cloud.", "Eqs. 3 and 4", "check",
          exact.clones_are_a_partition, 0, unit="points"),
    Claim("exchangeable", "Every point is in each clone equally often.", "Sec. 3.2", "check",
          exact.clones_are_exchangeable, 4.5, unit="standard deviations"),
    Claim("chord", "Eq. 8 is the squared chord between directions: from 0 to 4, and without scale.", "Eqs. 7 and 8",
          "check", exact.hilbert_is_the_chord, ROUNDING),
    Claim("neighbours", "Neighbours are those of Eqs. 7 and 8, sorted in full.", "Eqs. 7 and 8", "check",
          exact.neighbours_are_those_of_the_definition, 0, unit="neighbours"),
    Claim("layer", "An edge convolution in training is the direct one: values, gradients and running statistics.",
          "public code of DGCNN", "check", exact.layer_is_the_direct_one, 1e-9),
    Claim("network", "The network is the one that loops over clones and edges, forward and backward.", "Fig. 4",
          "check", exact.network_is_the_plain_one, 1e-9),
    Claim("twin", "With one clone and Euclidean neighbours it is the twin of DGCNN, forward and backward.", "Sec. 3.3",
          "check", exact.one_clone_is_dgcnn, 1e-9),
    Claim("order", "Given the partition, the order of points and clones changes nothing.", "Eq. 5", "check",
          exact.order_does_not_matter, ROUNDING),
    Claim("mapping-zero", "The mapping loss is 0 for one clone, for equal clones and for a global descriptor that is "
          "their sum.", "Eq. 9", "check", exact.mapping_vanishes, 1e-9),
    Claim("mapping-pinv", "Without its ridge the mapping loss is that of the pseudo-inverse, with its gradients.",
          "Eq. 9", "check", exact.mapping_is_the_pseudo_inverse, 1e-9),
    Claim("mapping-gradient", "Its gradient is finite where clones coincide and the normal equations are singular.",
          "Eq. 9", "check", exact.mapping_of_equal_clones_has_a_gradient, 1e3),
    Claim("same-parameters", "The number of parameters follows neither from points nor from clones.", "Sec. 3.3",
          "check", exact.parameters_follow_neither_points_nor_clones, 0, unit="parameters"),
    parameter_counts("counts", "Parameters of Pattern-Net, also for parts, of DGCNN and of PointNet, counted by hand.",
                     "Table 4", COUNTS, "399 k"),

    # Statements that a computation decides
    Claim("small", "Pattern-Net has less than 0.4 M parameters.", "Table 4", "exact",
          lambda evidence: evidence.parameters("paper") / 1e6, 0.4, "below", "M", "0.399"),
    Claim("shuffled", "Clones must be random: taken by position, they make the result depend on the order of points.",
          "Sec. 3.2", "exact", exact.fixed_split_depends_on_order, 1e-3, "above"),
    Claim("turning-neighbours", "First neighbours by Eq. 8 stay when a centred cloud is turned or scaled.", "Eq. 8",
          "exact", exact.first_neighbours_turn_with_the_cloud, 0, unit="neighbours"),
    Claim("moving-neighbours", "They also stay when it is moved.", "Sec. 5 (invariance to translation)", "exact",
          exact.first_neighbours_move_with_the_origin, 0.01, unit="of the neighbours"),
    Claim("invariant", "The network is invariant to rotation.", "Sec. 5", "exact", exact.rotation_changes_logits, 1e-6,
          unit="deviations of a logit"),
    Claim("radius", "In a quarter of the points, K neighbours reach twice as far: cloning changes the density.",
          "Fig. 3", "exact", exact.radius_grows, 1.8, "at least", "times"),

    # Trained networks
    compared("clean", "On clean clouds, Pattern-Net is no worse than its DGCNN twin (by at most 2 points).", "Table 1",
             {"ours": "pattern", "twin": "twin"}, lambda of: of["ours"]["accuracy"] - of["twin"]["accuracy"],
             threshold=-2, sense="at least", seeds=SEEDS, unit="points", paper="+0.1"),
    compared("noise", "With noise of σ = 0.1, trained on clean clouds, it is far ahead of its DGCNN twin.", "Table 2",
             {"ours": "pattern", "twin": "twin"}, lambda of: of["ours"]["noise_10"] - of["twin"]["noise_10"],
             threshold=10, seeds=SEEDS, unit="points", paper="+72.8"),
    compared("drop", "Noise of σ = 0.1 costs it less than 10 points.", "Sec. 4", {"ours": "pattern"},
             lambda of: of["ours"]["accuracy"] - of["ours"]["noise_10"], threshold=10, sense="below", seeds=SEEDS,
             unit="points", paper="9.4"),
    above("cloning", "Cloning alone does it: with Euclidean neighbours, L = 4 is ahead of L = 1 at σ = 0.1.",
          "Sec. 3.2", better="euclidean", worse="twin", metric="noise_10", margin=5, seeds=SEEDS, unit="points"),
    compared("more-than-sampling", "Cloning is more than sub-sampling: from clean to σ = 0.1, L = 4 loses less than "
             "one clone alone.", "our control", {"four": "euclidean", "one": "alone"},
             lambda of: (of["one"]["accuracy"] - of["one"]["noise_10"])
             - (of["four"]["accuracy"] - of["four"]["noise_10"]), seeds=SEEDS, unit="points"),
    above("angles", "Neighbours by angle (Eq. 8) withstand noise of σ = 0.1 better than Euclidean ones.", "Sec. 3.2",
          better="pattern", worse="euclidean", metric="noise_10", seeds=SEEDS, unit="points"),
    above("angles-clean", "On clean clouds they are no hindrance (at most 2 points).", "Sec. 3.2", better="pattern",
          worse="euclidean", metric="accuracy", margin=-2, seeds=SEEDS, unit="points"),
    compared("mapping-spread", "The mapping loss makes the clones contribute equally: ω spreads less.", "Eq. 9",
             {"with": "pattern", "without": "unmapped"}, lambda of: of["without"]["spread"] - of["with"]["spread"],
             seeds=SEEDS),
    above("mapping-noise", "The mapping loss helps against noise of σ = 0.1.", "Sec. 3.3", better="pattern",
          worse="unmapped", metric="noise_10", seeds=SEEDS, unit="points"),
    above("density", "It withstands uneven density better than its DGCNN twin.", "Sec. 1", better="pattern",
          worse="twin", metric="density", seeds=SEEDS, unit="points"),
    above("pointnet", "With noise of σ = 0.1 it is ahead of PointNet, which has no neighbours that noise could change.",
          "our floor", better="pattern", worse="pointnet", metric="noise_10", seeds=SEEDS, unit="points"),
    above("parts", "Part segmentation is better than PointNet's.", "Table 3", better="pattern", worse="pointnet",
          metric="instance_iou", seeds=SEEDS, preset=PARTS, unit="points of IoU", paper="+2.7"),

    # Cost
    faster("layer-cost", "An edge convolution in training takes at most a third of the time of DGCNN's public form.",
           "our cost", "layer-4x512", "public", threshold=3),
    faster("network-cost", "Inference of the DGCNN twin takes at most half the time of the public form.", "our cost",
           "twin", "public", threshold=2),
)  # fmt: skip
