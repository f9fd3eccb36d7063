"""The paper's claims, as tests that can fail, and checks of the implementation."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.video.temporaltransforms import exact

SEEDS = 3
PAIR = {"all": "all", "none": "none"}
CLAIMS = (
    Claim("indices", "Clips of all transformations stay inside their video and follow their rule: steps of 2^κ, a "
          "permutation of 16 successive frames, increasing with steps of 1 to 8.", "Sec. 3.1", "check",
          exact.indices_are_valid, 0, unit="clips"),
    Claim("periodic", "Periodic clips are the printed formula for every turning point, span at most the speed clip, "
          "and are mirrored at κ = 0.", "Sec. 3.1", "check", exact.periodic_is_the_formula, 0, unit="clips"),
    Claim("same-frames", "A random clip has the frames of the speed-0 clip at the same start.", "Sec. 3.1", "check",
          exact.appearance_tells_nothing, 0, unit="frames"),
    Claim("speeds", "κ is uniform among the speeds that the video is long enough for.", "Sec. 3.3", "check",
          exact.speeds_are_uniform, 0.04),
    Claim("warp-span", "Warped clips span 67.5 frames on average.", "Sec. 3.1", "check",
          exact.warp_spans_what_it_should, 0.01),
    Claim("once", "No frame is read twice for the four clips of a video, and all of them in order.", "our reader",
          "check", exact.frames_are_read_once, 0, unit="frames"),
    Claim("pixels", "Clips are the pixels of their frames.", "Sec. 3.1", "check", exact.clips_are_their_frames, 1e-6),
    Claim("still", "The four transformations of a still video give equal logits.", "Sec. 4", "check",
          exact.still_videos_tell_nothing, 0),
    Claim("loss", "The loss is Eq. 1, forward and backward.", "Eq. 1", "check", exact.loss_is_equation_1, ROUNDING),
    Claim("speed-loss", "The speed loss has no gradient to the random, periodic and warped clips.", "Eq. 1", "check",
          exact.speed_loss_is_of_the_speed_clip, 0),
    Claim("first-loss", "The first loss is near ln 4 + ln 4.", "Eq. 1", "check", exact.first_loss_is_two_ln_4, 0.05),
    Claim("c3d", "C3D is its layers, forward and backward.", "Sec. 3.3", "check", exact.c3d_is_its_definition,
          ROUNDING),
    Claim("shapes", "At published size conv5 is 256 x 2 x 7 x 7 and 4096 numbers after pooling; ResNets have 512.",
          "Sec. 4", "check", exact.published_shapes, 0, unit="networks"),
    Claim("retrieval", "Retrieval is its definition, and does not fall with k.", "Sec. 4", "check",
          exact.retrieval_is_its_definition, ROUNDING),
    Claim("evaluator", "One clip per video is plain classification; the order of several does not matter.", "Sec. 4",
          "check", exact.evaluator_is_a_mean, 1e-6),
    parameter_counts(
        "parameters",
        "The small C3D, the 3D ResNet-18 and R(2+1)D-18 with eight outputs have the parameters counted by hand from "
        "their layers.", "our count",
        {"paper": 17_259_464, "paper-r3d18": 31_824_456, "paper-r2plus1d18": 31_304_229},
    ),
    above("motion", "Pre-training beats random initialisation on classes of motion (probe on frozen features).",
          "Table 1", better="all", worse="none", metric="probe", margin=15, seeds=SEEDS, unit="points"),
    compared("not-appearance", "And not on what single frames tell, the moving thing: at most 5 points better.",
             "Sec. 4", PAIR, lambda of: of["all"]["appearance"] - of["none"]["appearance"], threshold=5,
             sense="at most", seeds=SEEDS, unit="points"),
    compared("motion-over-appearance", "Its lead is larger for motion than for appearance.", "Sec. 4", PAIR,
             lambda of: of["all"]["probe"] - of["none"]["probe"] - of["all"]["appearance"] + of["none"]["appearance"],
             threshold=10, seeds=SEEDS, unit="points"),
    compared("needs-motion", "A probe on its features of still clips falls far below one on moving clips.", "Sec. 4",
             {"all": "all"}, lambda of: of["all"]["probe"] - of["all"]["still"], threshold=15, seeds=SEEDS,
             unit="points", paper="58.1 % and 1.0 %"),
    above("transfer", "A classifier on the frozen convolutions, trained alike, is better than on random ones.",
          "Table 1", better="all", worse="none", metric="top1", margin=5, seeds=SEEDS, unit="points"),
    above("neighbours", "Nearest neighbours are more often of the same motion than with random initialisation.",
          "Table 4", better="all", worse="none", metric="nn1", seeds=SEEDS, unit="points"),
    above("sync", "Its features tell the offset of two clips better than random ones (the paper compares with labels).",
          "Table 3", better="all", worse="none", metric="sync", seeds=SEEDS, unit="points"),
    faster("fast-sample", "The four clips of a 10 s video are read at least twice as fast as by reading all frames.",
           "our floor", "sample", "all frames", threshold=2),
    faster("fast-long", "Of a 40 s video, at least five times as fast.", "our floor", "long-video", "all frames",
           threshold=5),
)  # fmt: skip
