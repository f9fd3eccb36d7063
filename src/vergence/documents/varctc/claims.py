"""The paper's claims, as tests that can fail: counts, identities, costs, confidence and alignment."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.documents.varctc import exact

COUNTS = {"paper": 8_747_765, "paper/ctc": 8_720_165, "paper/mml": 8_720_165, "paper-iam": 15_861_781}
SEEDS = 5
CLAIMS = (
    parameter_counts("parameters", "Trainable parameters of CTC, Mml-CTC and Var-CTC.", "Table 6", COUNTS,
                     "8,720,165; 8,720,165; 8,747,765"),
    Claim("parts", "Heads, posterior, trunks and both forms of the recurrent layers have the parameters counted by "
          "hand.", "Table 6", "check", exact.parts_have_their_counts, 0, unit="parameters off"),
    Claim("sum-over-blanks", "The likelihood is the sum over all choices of blanks.", "Eq. 4", "check",
          exact.blanks_are_summed_over, ROUNDING),
    Claim("emission", "Blank and symbols are one distribution, in either form, and any softmax is one of them.",
          "Eq. 6", "check", exact.emissions_agree, ROUNDING),
    Claim("mml-is-ctc", "Mml-CTC is CTC with other parameters: the same loss and gradient.", "Eqs. 3 and 6", "check",
          exact.mml_is_ctc, ROUNDING),
    Claim("gradient", "Gradients of the variational loss are its slopes, in the odds of the blank and in the symbols.",
          "Eq. 5", "check", exact.gradient_is_the_slope, 1e-7),
    Claim("divergence", "The divergence is that of Bernoulli distributions, 0 for equal ones and finite for odds of "
          "any size.", "Eq. 5", "check", exact.divergence_is_bernoullis, ROUNDING),
    Claim("equal-posterior", "With the prior as posterior, the variational loss is Mml-CTC's.", "Eq. 5", "check",
          exact.equal_posterior_is_mml, ROUNDING),
    Claim("jensen", "The term that is computed is at least the expectation of Eq. 5.", "Eq. 5", "check",
          exact.expectation_is_below, 0.0, unit="nats"),
    Claim("long-labels", "Labels that need more steps than there are count as zero, also in the gradient.", "Eq. 2",
          "check", exact.long_labels_are_left_out, ROUNDING),
    Claim("published-form", "The network is the published one written out, forward and backward.", "Sec. 3.1", "check",
          exact.network_is_the_published_one, 1e-9),
    Claim("one-bias", "Recurrent layers with one bias per gate are those with two that add up to it.", "our form",
          "check", exact.one_bias_is_the_sum_of_two, ROUNDING),
    Claim("posterior", "The posterior depends on neither padding nor the order of the label.", "Eq. 8", "check",
          exact.posterior_ignores_padding, ROUNDING),
    Claim("lexicon", "Scores of a lexicon are those of a loop over its words.", "our form", "check",
          exact.lexicon_is_the_loop, ROUNDING),
    Claim("average-precision", "Average precision is scikit-learn's, and recall at a precision has its closed forms.",
          "Table 2", "check", exact.precision_is_scikit_learns, 1e-9, unit="%"),
    Claim("edit-distance", "The edit distance is Levenshtein's.", "Table 4", "check", exact.distance_is_levenshteins,
          0),
    Claim("lower-bound", "The objective, computed with the posterior's chances in the likelihood, is a lower bound of "
          "the log likelihood (its largest excess).", "Eq. 5", "exact", exact.objective_above_the_likelihood, 0.0,
          unit="nats"),
    above("var-precision", "Var-CTC's confidence has a higher average precision than CTC's.", "Table 3", better="var",
          worse="ctc", metric="ap", seeds=SEEDS, unit="%", paper="98.64 against 98.01"),
    above("mml-precision", "Mml-CTC's confidence has a higher average precision than CTC's.", "Table 3", better="mml",
          worse="ctc", metric="ap", seeds=SEEDS, unit="%", paper="98.59 against 98.01"),
    above("var-alignment", "Within a character's extent, Var-CTC gives it a higher chance than CTC, given that one is "
          "emitted.", "Fig. 6", better="var", worse="ctc", metric="alignment", seeds=SEEDS, unit="%"),
    above("mml-alignment", "The same of Mml-CTC.", "Fig. 6", better="mml", worse="ctc", metric="alignment", seeds=SEEDS,
          unit="%"),
    compared("var-accuracy", "Var-CTC reads at most 3 % fewer words correctly than CTC.", "Tables 1 and 3",
             {"var": "var", "ctc": "ctc"}, lambda of: of["ctc"]["accuracy"] - of["var"]["accuracy"], threshold=3.0,
             sense="at most", seeds=SEEDS, unit="%", paper="-0.3 to 0.9"),
    faster("loss-time", "The variational loss, forward and backward, takes at most twice the time of PyTorch's CTC "
           "loss.", "our form", "loss", "ctc_loss", threshold=0.5),
    faster("reading-time", "Reading a batch takes at most 1.3 times the time of trunk and recurrent layers alone.",
           "our form", "reading", "network alone", threshold=1 / 1.3),
)  # fmt: skip
