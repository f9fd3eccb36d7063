"""The paper's claims, as tests that can fail: the operator, the network, and what it learns."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, faster, lighter, parameter_counts
from vergence.points.squeezesegv3 import exact

ROUNDING = 1e-9
"""Tolerance in float64 for sums over many pixels."""
SEEDS = 3
CLAIMS = (
    Claim("definition", "ISK and SK are the sums of Eqs. 3 and 4, forward and backward.", "Eqs. 3 and 4", "check",
          exact.sums_over_six_indices, ROUNDING),
    Claim("plain-limit", "With an attention of one, SAC is an ordinary convolution (K = 1, 3, 5).", "Eq. 4", "exact",
          exact.attention_of_one_is_a_convolution, ROUNDING),
    Claim("se-case", "SE is a kernel scaled by input channel: attention that is the same everywhere.", "Sec. 4.3",
          "exact", exact.scaled_channels_are_scaled_kernels, ROUNDING),
    Claim("is-recipe", "SAC-IS by its recipe is attention taken at the neighbour, not at the output pixel.", "Sec. 4.2",
          "check", exact.scaled_places_are_neighbours_attention, ROUNDING),
    Claim("equivariance", "Where coordinates are constant SAC is translation-equivariant; where they vary it is not.",
          "Sec. 3", "exact", exact.same_place_same_kernel, ROUNDING),
    Claim("bounded", "Sigmoid attention only weakens a kernel: outputs stay within the sum of |W||x|.", "Eq. 4",
          "check", exact.attention_only_weakens, ROUNDING),
    Claim("norm", "Batch norm of the attention follows from the moments of the coordinates, forward and backward.",
          "public code", "check", exact.norm_from_the_coordinates, ROUNDING),
    Claim("published-form", "The tiled network is the published one, forward and backward (all five levels).",
          "Sec. 4, public code", "check", exact.network_is_the_published_one, ROUNDING),
    Claim("published-training", "So it is in training: levels, gradients and running statistics.", "public code",
          "check", exact.training_is_the_published_one, ROUNDING),
    Claim("shapes", "Strides shrink the width alone: levels of W, W/2, W/4, W/8, W/8.", "Sec. 4.4", "check",
          exact.only_the_width_shrinks, 0, unit="levels off"),
    Claim("projection", "Known directions have known pixels, and the nearest (or farthest) point is shown.", "Eq. 1",
          "check", exact.known_directions_have_known_pixels, 0, unit="wrong"),
    Claim("vote", "Elected labels are those of the public definition, and never class 0.", "public code", "check",
          exact.votes_are_the_public_ones, 0, unit="points"),
    Claim("planted", "One SAC layer learns a kernel that depends on the place; a convolution cannot (relative error).",
          "Sec. 3", "exact", exact.adaptive_layer_learns_planted_attention, 0.05, unit="of the convolution's error"),
    parameter_counts("parameters", "Trainable parameters of SSGV3-21 and -53.", "public code",
                     {"paper": 9_247_140, "paper-53": 25_959_588}),
    above("isk-over-plain", "SAC-ISK beats plain convolutions (mIoU on the image).", "Table 3", better="ssgv3",
          worse="plain", metric="miou_image", seeds=SEEDS, unit="% mIoU", paper="+2.3"),
    above("isk-over-sk", "An attention of its own for each channel beats one for all (mIoU on the image).", "Table 3",
          better="ssgv3", worse="sac-sk", metric="miou_image", seeds=SEEDS, unit="% mIoU", paper="+0.9"),
    above("sk-over-s", "An attention for each place in the kernel beats one for all (mIoU on the image).", "Table 3",
          better="sac-sk", worse="sac-s", metric="miou_image", seeds=SEEDS, unit="% mIoU", paper="+0.5"),
    above("thin", "SAC-ISK beats plain convolutions on thin things (mIoU of poles, signs, trunks, people, cyclists).",
          "Table 2", better="ssgv3", worse="plain", metric="thin", seeds=SEEDS, unit="% mIoU"),
    above("levels", "A loss at every level beats one at the last (plain convolutions).", "Table 5", better="plain",
          worse="one-loss", metric="miou_image", seeds=SEEDS, unit="% mIoU", paper="+1.5"),
    above("less-downsampling", "Without the last two downsamplings it beats RangeNet (plain, one loss).", "Table 5",
          better="one-loss", worse="rangenet", metric="miou_image", seeds=SEEDS, unit="% mIoU", paper="+3.9"),
    faster("time", "Inference of SSGV3-21 at 64 x 2048 takes at most 0.65 of the direct form's time.", "our goal",
           "inference", "direct", threshold=1 / 0.65),
    lighter("memory", "It takes at most a fifth of the direct form's memory.", "our goal", "inference", "direct",
            threshold=5.0),
    faster("vote-time", "The vote is at least 3 times as fast as the public code's (5 times with the extra fast).",
           "our goal", "vote", "public", threshold=3.0),
)  # fmt: skip
