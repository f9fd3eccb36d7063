"""The paper's claims, as tests that can fail; checks are in ``exact``."""

from __future__ import annotations

from collections.abc import Mapping

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.detection.dualmultilabel import exact

SEEDS = 3
_MAP = "points of mAP"
Runs = Mapping[str, Mapping[str, float]]


def _probe_falls(of: Runs) -> float:
    return of["source"]["probe"] - of["adapted"]["probe"]


CLAIMS = (
    Claim("reversal", "Gradient reversal is the identity, with gradients times a negative factor.", "Eq. 3", "check",
          exact.reversal_is_identity_forward_and_minus_backward, 0.0),
    Claim("pooling", "The mean before the outer product equals the mean after it, forward and backward.", "Sec. 3.2",
          "check", exact.pooling_before_the_product_is_pooling_after, ROUNDING),
    Claim("blocks", "With a one-hot condition the discriminator sees one block; with ones it repeats its input.",
          "Sec. 3.2", "check", exact.one_class_sees_its_own_block, ROUNDING),
    Claim("detached", "The adversary's gradient does not reach the multi-label head.", "Eq. 3, our reading", "check",
          exact.condition_is_not_trained_by_the_adversary, 0.0),
    Claim("focal", "The focal loss is the printed one; gamma 0 is cross entropy, and D = 1/2 gives ln 2 / 2^gamma.",
          "Eq. 3", "check", exact.focal_is_the_printed_loss, ROUNDING),
    Claim("labels", "The multi-label loss is summed over classes and averaged over pictures.", "Eq. 1", "check",
          exact.labels_are_summed_over_classes, ROUNDING),
    Claim("closed-form", "Consistency in closed form is the symmetric divergence, forward and backward.", "Eqs. 4-6",
          "check", exact.consistency_is_the_symmetric_divergence, ROUNDING),
    Claim("shift", "Consistency is zero exactly where p and q differ by the same amount for all classes.", "Eqs. 4-6",
          "exact", exact.consistency_is_blind_to_a_shift, ROUNDING),
    Claim("bound", "The symmetric divergence is at most 2 tanh(1/2) for any number of classes, which two reach.",
          "Eqs. 4-6", "exact", exact.consistency_has_its_bound, 1e-12),
    Claim("monotone", "A region more never lowers q; order and background do not matter.", "Sec. 3.3", "check",
          exact.more_regions_never_lower_a_class, ROUNDING),
    Claim("maximum", "Only the best region of a class receives a gradient from consistency.", "Sec. 3.3", "check",
          exact.only_the_best_region_learns, ROUNDING),
    Claim("trunks", "A head with a trunk for every class is as many heads of one class.", "Eq. 2", "check",
          exact.separate_trunks_are_single_heads, ROUNDING),
    Claim("source-only", "With lambda, mu and epsilon at 0 it trains as the detector alone, step for step.", "Eq. 7",
          "check", exact.without_weights_it_is_source_only, 0.0),
    Claim("minimax", "Features climb the loss that the discriminator descends, which reversal does not change.",
          "Eq. 3", "check", exact.features_climb_what_the_discriminator_descends, ROUNDING),
    Claim("protocol", "The truth scores 100 %, nothing and wrong boxes 0, half a class 6 of 11 points.", "Sec. 4",
          "check", exact.perfect_and_wrong_detections_score_as_they_should, 1e-9, unit="% off"),
    Claim("probe", "A linear probe of equal domains is at 50 %, and at 100 % far apart.", "Sec. 4", "check",
          exact.probes_of_equal_and_of_shifted_domains, 1e-9, unit="% off"),
    parameter_counts(
        "parameters", "Parameters in training: ResNet-101 for 6 classes, VGG16 for 8, and ResNet-101 alone.",
        "Sec. 4.1", {"paper": 59_020_577, "paper-foggy": 143_924_141, "paper/source-only": 47_213_337},
    ),
    above("adversary-helps", "An unconditional adversary detects better in the target domain than source only.",
          "Table 4", better="unconditional", worse="source-only", metric="map", seeds=SEEDS, unit=_MAP, paper="+7.1"),
    above("condition-helps", "A conditional adversary (MC) detects better than an unconditional one.", "Table 4",
          better="mc", worse="unconditional", metric="map", seeds=SEEDS, unit=_MAP, paper="+5.6"),
    above("consistency-helps", "With consistency (MC + PR) it detects better than without (MC).", "Tables 1 and 3",
          better="mcar", worse="mc", metric="map", seeds=SEEDS, unit=_MAP, paper="+1.6 and +2.2"),
    above("mcar-above-source", "MCAR detects better in the target domain than source only.", "Tables 1 and 3",
          better="mcar", worse="source-only", metric="map", seeds=SEEDS, unit=_MAP, paper="+11.4 and +15.4"),
    above("oracle-above-mcar", "Boxes of the target domain are worth more than adaptation.", "Tables 1 and 3",
          better="oracle", worse="mcar", metric="map", seeds=SEEDS, unit=_MAP, paper="+2.6 and +1.5"),
    compared("domains-merge", "With MCAR a linear probe tells the domains apart less often than with source only.",
             "Sec. 3.2", {"source": "source-only", "adapted": "mcar"}, _probe_falls, seeds=SEEDS,
             unit="points of accuracy"),
    faster("nms-pairs", "Suppression of 2,000 boxes is at least 20 times as fast as a loop over pairs.", "Sec. 4",
           "nms", "pairs", threshold=20),
    faster("nms-kept", "It is at least twice as fast as a loop over kept boxes.", "Sec. 4", "nms", "kept", threshold=2),
    faster("roi-bins", "RoIAlign of 512 boxes is at least 10 times as fast as a loop over boxes and bins.", "Sec. 4",
           "roi-align", "bins", threshold=10),
    faster("roi-boxes", "It is at least twice as fast as a loop over boxes.", "Sec. 4", "roi-align", "boxes",
           threshold=2),
    faster("step-lean", "A training step takes at most twice the time of its convolutions and products alone.",
           "Sec. 4", "step", "convolutions and products alone", threshold=0.5),
    faster("detection-fast", "A picture at the published size is at least 1.3 times as fast as by the direct steps.",
           "Sec. 4", "detection", "direct", threshold=1.3),
)  # fmt: skip
