"""The paper's claims and consequences of its formulas, as tests that can fail."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.recognition.vtn.bench import PIXELS, RESNET, SIDES, TAPS
from vergence.recognition.vtn.exact import (
    a_constant_changes_nothing,
    constant_fields_shift,
    deformable_forms_agree,
    equal_responses_leave_the_map,
    estimator_ignores_the_width,
    fields_follow_a_shift,
    fields_stay_in_window_and_map,
    groups_have_their_limits,
    identity_mixes_are_none,
    layer_is_its_definition,
    loss_has_its_values,
    order_within_groups_does_not_matter,
    sharpness_has_its_limits,
    training_starts_at_the_last_convolution,
)
from vergence.recognition.vtn.settings import SETTINGS

SEEDS = 3
POINTS = "points of Top-1"
SHARE = 0.15
"""The largest share of a ResNet-50's forward pass that the layer may take."""

CLAIMS = (
    Claim("definition", "The layer is Eqs. 1 and 2 and the warp, forward and backward.", "Eqs. 1 and 2", "check",
          layer_is_its_definition, ROUNDING),
    Claim("equal-responses", "Where responses are equal, the layer starts as the identity; at the border fields point "
          "inwards.", "Eqs. 1 and 2", "check", equal_responses_leave_the_map, ROUNDING, unit="pixels"),
    Claim("limits", "With growing beta fields vanish; with vanishing beta they point to the strongest response.",
          "Eq. 2", "check", sharpness_has_its_limits, ROUNDING, unit="pixels"),
    Claim("window", "No shift leaves the window, and no sampled place the map.", "Eq. 1", "check",
          fields_stay_in_window_and_map, ROUNDING, unit="pixels"),
    Claim("constant", "A constant added to all responses of a group changes no field.", "Eq. 2", "check",
          a_constant_changes_nothing, ROUNDING, unit="pixels"),
    Claim("start", "At the start fields depend on the responses alone, and only the last convolution gets a gradient; "
          "after one step the others do.", "Sec. 3.3", "exact", training_starts_at_the_last_convolution, ROUNDING),
    Claim("groups", "One group is one field for all channels, as many groups as channels one field for each.",
          "Sec. 3.3", "check", groups_have_their_limits, ROUNDING),
    Claim("whole-pixels", "A field of whole pixels shifts the map, a zero field leaves it; all groups in one call are "
          "what they are one by one.", "Sec. 3.1", "check", constant_fields_shift, ROUNDING),
    Claim("shift", "At the start, fields move with the map.", "Eq. 2", "check", fields_follow_a_shift, ROUNDING,
          unit="pixels"),
    Claim("order", "Order within a group does not matter; order across groups does.", "Sec. 3.3", "check",
          order_within_groups_does_not_matter, ROUNDING),
    Claim("loss", "The consistency loss has its values for equal maps, and no gradient where its hinge is off.",
          "Eq. 4", "check", loss_has_its_values, ROUNDING),
    Claim("estimator", "The number of the layer's parameters does not depend on the backbone's width.", "Sec. 3.3",
          "exact", estimator_ignores_the_width, 0, unit="parameters off"),
    Claim("mixing", "Squeezes and expansions by identity matrices are none.", "Sec. 3.3", "check",
          identity_mixes_are_none, ROUNDING, unit="pixels"),
    Claim("deformable", "Deformable convolution is its definition, by output pixel and by tap, forward and backward.",
          "Dai et al., 2017", "check", deformable_forms_agree, ROUNDING),
    parameter_counts("parameters", "Trainable parameters, counted by hand.", "Sec. 3.5",
                     {preset: published.parameters for preset, published in SETTINGS.published.items()}),
    above("bending-helps", "A map bent by group is recognised better than one that is not bent.", "Table 1",
          better="vtn", worse="none", metric="top1", seeds=SEEDS, unit=POINTS, paper="+8.5 (CUB-200, ResNet-50)"),
    above("above-stn", "Fields by group beat one affine map.", "Table 1", better="vtn", worse="stn", metric="top1",
          seeds=SEEDS, unit=POINTS, paper="+6.6"),
    above("above-deformable", "Fields by group beat a deformable convolution.", "Table 1", better="vtn",
          worse="deform", metric="top1", seeds=SEEDS, unit=POINTS, paper="+6.4"),
    above("channel-wise", "A field for each group of channels beats one for all channels.", "Sec. 3.2", better="vtn",
          worse="shared", metric="top1", seeds=SEEDS, unit=POINTS),
    above("consistency", "The consistency loss makes recognition better.", "Table 1", better="vtn",
          worse="no-consistency", metric="top1", seeds=SEEDS, unit=POINTS, paper="+0.7"),
    compared("localisation", "Bending by group lowers the localisation error of Grad-CAM.", "Table 5",
             {"bent": "vtn", "plain": "none"}, lambda of: of["plain"]["loc1"] - of["bent"]["loc1"], seeds=SEEDS,
             unit="points of error", paper="+1.24"),
    compared("centroids", "The responses of a group of channels lie closer together from picture to picture after the "
             "warp than before (ratio of standard deviations; above 1 on the tuning seed, before this was written).",
             "Fig. 5", {"run": "vtn"}, lambda of: of["run"]["spread"], threshold=1.0, sense="below",
             seeds=SEEDS, unit="times"),
    *(
        faster(f"cost-{side}", f"On 2048 x {side} x {side} the layer takes at most 15 % of the time of the ResNet-50 "
               "before it.", "our bound", f"layer-{side}", RESNET, threshold=round(1 / SHARE, 2))
        for side in SIDES
    ),
    *(
        faster(f"deformable-{name}-{side}", f"Deformable convolution takes {words} (forward and backward, {side} x "
               f"{side}).", "our bound", f"deform-{side}", rival, threshold=times)
        for side in (14, 28)
        for name, rival, words, times in (
            ("pixels", PIXELS, "at most a 50th of the time of a loop over output pixels", 50.0),
            ("taps", TAPS, "no longer than a loop over taps", 1.0),
        )
    ),
)  # fmt: skip
