"""BLD's claims: what holds by construction, and what a stream shows."""

from __future__ import annotations

from vergence.contract.claims import Claim, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING
from vergence.recognition.bld import exact

SEEDS = 3
CLAIMS = (
    Claim("algorithms", "A step in chunks of copies is that of Algorithms 1 and 2 on all copies at once.",
          "Algs. 1 and 2", "check", exact.steps_are_the_algorithms, ROUNDING),
    Claim("warm-up", "Without a warm-up step the distillation loss has no gradient; with one it has.", "Sec. 3.4",
          "exact", exact.distillation_needs_the_warm_up, ROUNDING),
    Claim("balance", "In every shared layer the balanced gradient is λ times as long as the new task's, however the "
          "loss is scaled.", "Alg. 2", "check", exact.layers_are_balanced, ROUNDING),
    Claim("classifiers", "Balanced per layer, older classifiers do not move, and the new one learns its task alone.",
          "our reading of Alg. 2", "check", exact.old_classifiers_stay, 0),
    Claim("fine-tuning", "With λ = 0, or in the first task, BLD is fine-tuning with as many updates.", "Alg. 2",
          "check", exact.no_strength_is_fine_tuning, 0),
    Claim("copies", "Copies are made again to the bit, whatever the chunks.", "Sec. 3.5", "check",
          exact.copies_are_made_again, 0, unit="pixels"),
    Claim("warps", "Without rotation, copies are shifted and mirrored pictures.", "Sec. 3.5", "check",
          exact.warps_by_whole_pixels, ROUNDING),
    Claim("nothing-kept", "A learner made anew from the weights alone for each batch learns the same, and no tensor of "
          "a batch is alive after it.", "constraint (1)", "check", exact.nothing_else_survives, 0),
    Claim("bank", "In a batch of the fifth task, BLD stores 32 kB of predictions.", "Tables 2 to 4", "exact",
          exact.bank_size, 32_000, unit="bytes", paper="32 kB"),
    Claim("lwf-bank", "LwF stores 384 kB of predictions for MNIST and 320 kB for CIFAR-10.", "Tables 2 and 3", "exact",
          exact.stored_by_lwf, 0, unit="bytes off", paper="384 kB, 320 kB"),
    Claim("published-warm-up", "After a warm-up at the published rate, 1e-6, the distillation gradient in float32 has "
          "the direction of that in float64 (cosine; small network).", "Sec. 4.1", "exact", exact.published_warm_up,
          0.99, "at least"),
    parameter_counts("parameters", "Trainable parameters: ResNet-18 and five classifiers of two classes, or two of "
                     "five.", "Sec. 4.1", {"paper": 11_173_962, "paper-two": 11_173_962}, "44.8 MB (L2's copy)"),
    above("above-finetuning", "BLD is better on old tasks than fine-tuning.", "Tables 2 to 4", better="bld",
          worse="finetune", metric="old", margin=5.0, seeds=SEEDS, unit="%", paper="+11.2 (MNIST), +17.5 (CIFAR-10)"),
    above("balancing-helps", "Balanced per layer, old tasks are better than with a constant weight.", "Table 5",
          better="bld", worse="unbalanced", metric="old", seeds=SEEDS, unit="%", paper="+5.7 (CIFAR-10)"),
    above("better-overall", "BLD's mean accuracy over all tasks is above that of fine-tuning.", "Tables 2 to 4",
          better="bld", worse="finetune", metric="accuracy", margin=3.0, seeds=SEEDS, unit="%",
          paper="+9.3 (MNIST), +13.9 (CIFAR-10), +10.8 (SVHN)"),
    compared("learns-as-well", "BLD learns the newest task as well as fine-tuning, within 2 %.", "Tables 2 to 4",
             {"bld": "bld", "plain": "finetune"}, lambda of: of["plain"]["newest"] - of["bld"]["newest"],
             threshold=2.0, sense="at most", seeds=SEEDS, unit="%", paper="0.1 (MNIST), 0.0 (CIFAR-10)"),
    above("stored-is-better", "LwF, which stores predictions of a whole task, is better than BLD.", "Tables 2 to 4",
          better="lwf", worse="bld", metric="accuracy", seeds=SEEDS, unit="%", paper="+9.2 (MNIST), 0.0 (CIFAR-10)"),
    above("joint-is-the-ceiling", "Learning all tasks at once is better than BLD.", "our ceiling", better="joint",
          worse="bld", metric="accuracy", seeds=SEEDS, unit="%"),
    faster("fast-copies", "Making the copies of a batch at once is at least three times as fast as one by one.", "ours",
           "copies", "one by one", threshold=3.0),
)  # fmt: skip
