"""The paper's claims, as tests that can fail: counts, the modules, the losses, costs, and the ablation."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.generation.cdvae import exact

SEEDS = 3
PAPER = 33_849_512
"""Encoder, decoder, filters, discriminator and latent classifier with 62 views, and VGG-16's 14,714,688."""


def _check(id: str, statement: str, source: str, measure: object, threshold: float = ROUNDING, unit: str = "") -> Claim:
    return Claim(id, statement, source, "check", measure, threshold, unit=unit)  # type: ignore[arg-type]


CLAIMS = (
    parameter_counts("parameters", "Parameters with 62 views, the frozen VGG-16 included.", "public code",
                     {"paper": PAPER}),
    _check("parts", "Every part has the parameters counted by hand from the published list of layers.", "Fig. 2",
           exact.parts_have_their_counts, 0, "parameters off"),
    _check("half-filter", "One filter for both directions has C' / 18 entries on 18 groups instead of C' / 9 on 9.",
           "Fig. 3", exact.one_filter_is_half, 0, "off"),
    _check("definition", "The module with folded filters is its definition, forward and backward.", "Fig. 3",
           exact.module_is_its_definition, 1e-9),
    _check("no-filter", "With W = 0 the module is the plain convolution.", "Fig. 3", exact.no_filter_is_plain),
    _check("linear-flow", "The flow is linear in the filters W.", "Sec. 3.2", exact.flow_is_linear),
    Claim("labels-not-linear", "The flow of a label between two labels is not the flow between theirs, but that of "
          "filters between is (relative difference).", "Sec. 4.3", "exact", exact.labels_between_are_not_linear, 0.01,
          "above"),
    _check("pixels", "Shifts are pixels of the map, down and right.", "Fig. 3", exact.shifts_are_pixels_down_and_right),
    _check("only-filters", "Encoder and decoder see the view through its filters alone.", "Sec. 3.2",
           exact.view_enters_by_its_filters, 0.0),
    _check("batch-norm", "DFNM with a scale of 1 and no offset is batch normalisation.", "Sec. 3.3",
           exact.dfnm_is_batch_norm),
    _check("dfnm", "DFNM is its definition, forward and backward.", "Sec. 3.3", exact.dfnm_scales_by_place, 1e-9),
    _check("adain", "AdaIN sets mean and deviation of each channel.", "public code", exact.adain_sets_the_statistics),
    _check("spectral-norm", "All layers of the discriminator have a largest singular value of 1.", "Sec. 4.1",
           exact.layers_have_norm_one, 1e-4),
    _check("projection", "The discriminator's score is linear in the label.", "Sec. 3.4",
           exact.score_is_linear_in_the_label),
    _check("kl", "The KL loss is the closed form, zero at N(0, I) alone, forward and backward.", "Eq. 1",
           exact.divergence_is_the_closed_form),
    _check("equal-shares", "The classifier's equal shares are the minimum log V of the encoder's loss.", "Eq. 2",
           exact.equal_shares_are_the_minimum),
    _check("gram", "Gram matrices are their definition, forward and backward.", "Eq. 5", exact.gram_is_its_definition),
    _check("hinge", "The hinge losses have their closed form, each fake with a third.", "Eqs. 7, 8",
           exact.hinge_has_its_closed_form, 1e-6),
    faster("folded", "The flow at the published size, forward and backward, is twice as fast as through all channels "
           "F'.", "our form", "flow", "all channels", threshold=2.0),
    faster("module", "The whole module there is 1.5 times as fast as through all channels and a loop over taps.",
           "our form", "module", "channels and taps", threshold=1.5),
    faster("all-views", "All views at once are 1.5 times as fast as one by one.", "our form", "views", "one by one",
           threshold=1.5),
    compared("translates", "Translated pictures are nearer to the real ones (L1) than the source itself.", "our floor",
             {"run": "cdvae"}, lambda of: of["run"]["copied"] - of["run"]["l1"], seeds=SEEDS, unit="of 255"),
    compared("above-mean", "And than the mean of all other objects in the view.", "our floor", {"run": "cdvae"},
             lambda of: of["run"]["average"] - of["run"]["l1"], seeds=SEEDS, unit="of 255"),
    *(
        compared(id, statement, "Table 1", {"better": better, "worse": worse},
                 lambda of: of["worse"]["l1"] - of["better"]["l1"], seeds=SEEDS, unit="of 255, L1", paper=paper)
        for id, statement, better, worse, paper in (
            ("deform", "Deforming features by view (B) beats the label beside them (A).", "cdm", "baseline",
             "7.88 to 8.39 (chairs)"),
            ("deform-dfnm", "With DFNM (C) it beats the label beside features (A).", "no-dac", "baseline",
             "6.68 to 8.39 (chairs)"),
            ("deform-full", "The whole method (D) beats the label beside features (A).", "cdvae", "baseline",
             "6.37 to 8.39 (chairs)"),
            ("normalisation", "DFNM (C) beats the deformed features alone (B).", "no-dac", "cdm",
             "6.68 to 7.88 (chairs)"),
            ("classifier", "DAC (D) lowers the error of C.", "cdvae", "no-dac", "6.37 to 6.68 (chairs)"),
            ("two-filters", "Two filters for x and y (D) beat one for both (E).", "cdvae", "one-filter",
             "6.37 to 7.18 (chairs)"),
            ("own-filters", "Own filters of encoder and decoder (D) beat shared ones (F).", "cdvae", "shared",
             "6.37 to 6.94 (chairs)"),
        )
    ),
    above("similarity", "The whole method (D) has a higher SSIM than the label beside features (A).", "Table 1",
          better="cdvae", worse="baseline", metric="ssim", seeds=SEEDS, paper="0.89 to 0.86 (chairs)"),
    above("disentangled", "A linear probe reads the view from Z worse with DAC (D) than without (C).", "Sec. 3.4",
          better="no-dac", worse="cdvae", metric="probe", seeds=SEEDS, unit="%"),
)  # fmt: skip
