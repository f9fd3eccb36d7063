"""The paper's claims, as tests that can fail: the definition, its limits, and trained students."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.recognition.categorystructure import exact
from vergence.recognition.categorystructure.settings import SETTINGS

SEEDS = 3
CLAIMS = (
    Claim("edges", "With m samples of each of c classes, category structure has fewer edges than all pairs of samples, "
          "by the factor m²c/(m + c), which is at most (m/2) sqrt(mc); the two are equal where m = c alone.", "Eq. 11",
          "exact", exact.edges_are_bounded, ROUNDING),
    Claim("single-samples", "With one sample per class, the intra structure is empty, and the inter structure is "
          "the correlation of samples.", "Sec. 3", "exact", exact.single_samples_are_relations, ROUNDING),
    Claim("definition", "Both terms are Eq. 9 as it reads, class by class and pair by pair, forward and backward.",
          "Eqs. 6-9", "check", exact.loss_is_its_definition, ROUNDING),
    Claim("squares", "With norm mse both terms are means of squares, forward and backward.", "public code", "check",
          exact.squares_are_their_definition, ROUNDING),
    Claim("balance", "The samples of a class, minus its centre, sum to zero.", "Eq. 7", "check", exact.samples_balance,
          ROUNDING),
    Claim("classes-move", "Moving whole classes leaves the intra term at zero.", "Eq. 7", "check",
          exact.classes_may_move, ROUNDING),
    Claim("cosines", "M is symmetric with ones on its diagonal; scaling classes and a common rotation leave it alone.",
          "Eq. 8", "check", exact.cosines_are_cosines, ROUNDING),
    Claim("scale", "Scaling all features changes the intra term in proportion, the inter term not at all.", "Eq. 9",
          "check", exact.scale_matters_within, ROUNDING),
    Claim("order", "The order of a batch and the numbers of classes do not matter.", "Eq. 9", "check",
          exact.order_does_not_matter, ROUNDING),
    Claim("detached", "Detaching the student's centres, as the public code does, changes no gradient.", "public code",
          "check", exact.detaching_changes_nothing, ROUNDING),
    Claim("reduces", "Without structure the loss is Eq. 10 alone, with α = 1 cross-entropy; the teacher gets no "
          "gradient, the projector does.", "Eq. 10", "check", exact.weights_reduce, ROUNDING),
    Claim("networks", "Parameters of all students and teachers, and the shapes of their features.", "Tables 1-3",
          "check", exact.networks_have_their_size, 0, unit="parameters off",
          paper="0.7, 1.3, 1.4, 10.7, 14.6 and 58.5 M"),
    parameter_counts("parameters", "Parameters of student, teacher and projector of each pair.", "Tables 1-3",
                     {preset: published.parameters for preset, published in SETTINGS.published.items()}),
    above("teaching-helps", "A student of a teacher's logits is more accurate than one of labels alone.",
          "Tables 1-3", better="kd", worse="ce", metric="top1", seeds=SEEDS, unit="% of Top-1",
          paper="+0.9 to +4.3"),
    above("structure-helps", "Category structure makes the student of logits more accurate.", "Tables 1-4",
          better="cskd", worse="kd", metric="top1", seeds=SEEDS, unit="% of Top-1", paper="+0.98 to +4.13"),
    above("intra-helps", "So does the intra structure alone.", "Table 4", better="intra", worse="kd", metric="top1",
          seeds=SEEDS, unit="% of Top-1", paper="+2.98"),
    above("inter-helps", "So does the inter structure alone.", "Table 4", better="inter", worse="kd", metric="top1",
          seeds=SEEDS, unit="% of Top-1", paper="+2.95"),
    compared("both-help", "Both together are more accurate than the better one alone.", "Table 4",
             {"both": "cskd", "intra": "intra", "inter": "inter"},
             lambda of: of["both"]["top1"] - max(of["intra"]["top1"], of["inter"]["top1"]), seeds=SEEDS,
             unit="% of Top-1", paper="+1.15"),
    compared("tighter", "Category structure groups the samples of a class tighter: their spread, relative to the "
             "distance of class centres, is less than with logits alone.", "Fig. 4", {"cskd": "cskd", "kd": "kd"},
             lambda of: of["kd"]["tightness"] - of["cskd"]["tightness"], seeds=SEEDS, unit="of spread / separation"),
    compared("structure-is-copied", "Held-out pictures have class centres whose cosines are nearer to the teacher's "
             "than with logits alone.", "Sec. 3", {"cskd": "cskd", "kd": "kd"},
             lambda of: of["kd"]["structure"] - of["cskd"]["structure"], seeds=SEEDS, unit="of cosine"),
    faster("by-index", "With 100 classes in batches of 128, the loss takes a third of the time of a loop over classes.",
           "our design", "structure-100", "loop over classes", threshold=3),
)  # fmt: skip
