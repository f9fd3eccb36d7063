"""The paper's claims, as tests that can fail: counts, identities, costs and measured scores."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, lighter, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.dense.atsa import exact

COUNTS = {
    "paper": 32_156_742,
    "paper-code": 32_156_742,
    "practical": 25_928_386,
    "practical/rgb": 25_928_386 - 1_665_152 - 37_440,
    "practical/sum": 25_928_386 - 37_440,
}
SEEDS = 3
CLAIMS = (
    parameter_counts("parameters", "Parameters of ATSA, with what the public code never uses and without, of colour "
                     "alone and of the sum.", "Table 1, Sec. 4.3", COUNTS, "128.9 MB"),
    Claim("parts", "Every part has the parameters counted by hand; an attention gate has 2 C² + 3 C.", "Table 1",
          "check", exact.parts_have_their_counts, 0, unit="parameters off"),
    Claim("size", "The network of the public code takes 128.9 MB (relative difference).", "Sec. 4.3", "exact",
          exact.megabytes_off, 0.005, paper="128.9 MB"),
    Claim("symmetric-size", "With two equal streams it takes 244.4 MB (relative difference).", "Sec. 4.3", "exact",
          exact.symmetric_megabytes_off, 0.005, paper="244.4 MB"),
    Claim("saved", "The light depth stream saves 47 % of the size.", "Sec. 4.3", "exact", exact.saved_by_asymmetry,
          0.465, "at least", "of the size", "47 %"),
    Claim("shapes", "Inner maps have the published shapes.", "Fig. 2", "check", exact.shapes_are_published, 0,
          unit="shapes off"),
    Claim("fuse-sizes", "Fusion keeps the size of every branch, for odd and even multiples of 32.", "Eqs. 1 to 3",
          "check", exact.branches_fit, 0, unit="pixels off"),
    Claim("published-form", "The network is the public code's, forward and backward, in evaluation and in training.",
          "Fig. 2", "check", exact.network_is_the_published_one, 1e-9),
    Claim("fast-path", "In float32 with folded norms and Winograd's convolutions, outputs are those of float64 "
          "(relative to the largest).", "our form", "check", exact.fast_path_is_the_network, 1e-4),
    Claim("enlarge-later", "A 1 x 1 layer before the enlargement is the same layer after it, forward and backward.",
          "our form", "check", exact.enlarging_later_is_the_same, ROUNDING),
    Claim("one-channel", "Depth on one channel gives the layer of three copies, forward and backward.", "our form",
          "check", exact.grey_needs_one_channel, ROUNDING),
    Claim("context", "α is the mean weighted by Eq. 4's softmax: the plain mean for a key of zero, the constant of a "
          "constant map, and independent of the order of positions.", "Eq. 4", "check",
          exact.context_has_closed_forms, ROUNDING),
    Claim("gate", "A gate starts as σ(F / 2), or as 1/2 where Eq. 5 is read as printed; colour of zero gives 1/2.",
          "Eqs. 5 and 6", "check", exact.gate_starts_as_half, ROUNDING),
    Claim("fused-range", "Fused maps lie between 1/2 and 1.", "Eq. 6", "check", exact.fused_range, 0.0),
    Claim("sigmoid-bounds", "Sigmoids taken for logits keep probabilities within 0.269 to 0.731 and losses within "
          "0.313 to 1.313, and reach these ends.", "public code", "check", exact.sigmoids_bound_the_loss, ROUNDING),
    Claim("metrics", "Metrics of batches are those of their plain forms, picture by picture.", "Sec. 4.2", "check",
          exact.metrics_are_the_plain_ones, ROUNDING),
    Claim("metric-values", "Perfect, inverted and empty maps have their values in closed form.", "Sec. 4.2", "check",
          exact.metrics_have_closed_forms, 1e-9),
    Claim("loss-as-printed", "The loss as printed, without a minus sign, is at least 0 for a nearly right map.",
          "Eq. 8", "exact", exact.printed_loss_is_negative, 0.0, "at least"),
    faster("inference-time", "At 256 x 256 in float32, inference is 1.5 times as fast as the direct transcription.",
           "our form", "inference-1", "direct", threshold=1.5),
    faster("inference-time-folded", "It is faster than the transcription with norms folded by PyTorch and channels "
           "last in memory.", "our form", "inference-1", "folded", threshold=1.0, sense="above"),
    lighter("inference-memory", "It takes no more memory than the direct transcription.", "our form", "inference-1",
            "direct", threshold=1.0),
    faster("metrics-time", "Metrics of 4 maps are 20 times as fast as their plain forms.", "our form", "metrics",
           "plain", threshold=20.0),
    above("depth-helps", "Where things look alike, the sum of both streams has a higher F than colour alone.",
          "Sec. 1", better="sum", worse="rgb", metric="f_alike", margin=0.05, seeds=SEEDS),
    above("attention-helps", "Where things look alike, attention has a higher F than the sum.", "Table 4, (d) and (e)",
          better="atsa", worse="sum", metric="f_alike", seeds=SEEDS, paper="0.920 and 0.909, DUT-RGBD"),
    above("attention-overall", "Over all pictures, attention has a higher F than the sum.", "Table 4, (d) and (e)",
          better="atsa", worse="sum", metric="f", seeds=SEEDS, paper="0.920 and 0.909, DUT-RGBD"),
    above("ladder-sharpens", "The ladder has a higher boundary F than upsampled features of VGG.", "Sec. 4.3, Fig. 7",
          better="atsa", worse="plain", metric="f_boundary", seeds=SEEDS),
    compared("small-stream", "The light depth stream is not worse in F than a full one by more than 0.02.",
             "Table 4, (e) and (f)", {"small": "atsa", "full": "symmetric"},
             lambda of: of["small"]["f"] - of["full"]["f"], threshold=-0.02, sense="above", seeds=SEEDS,
             paper="0.920 and 0.920, DUT-RGBD"),
    compared("above-depth", "F is at least 0.15 above that of the depth map itself, cut like a map of saliency.",
             "our floor", {"run": "atsa"}, lambda of: of["run"]["f"] - of["run"]["f_depth"], threshold=0.15,
             sense="at least", seeds=SEEDS),
)  # fmt: skip
