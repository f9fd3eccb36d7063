"""The paper's claims, as tests that can fail.

Narrow and wide are d = 300 and 800 in the paper, where they keep 96.85 and 99.40 % of the variance of CIFAR-10, and 300
and 500 on the embedded pictures, where they keep 98.4 and 99.4 %. Bands of accuracy are the paper's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from vergence.contract.claims import Claim, Sense, above, compared, compared_models, faster, parameter_counts
from vergence.contract.context import Context
from vergence.contract.evidence import ROUNDING
from vergence.core.seeding import generator
from vergence.robustness.gradleak import exact
from vergence.robustness.gradleak.settings import SETTINGS, Facts
from vergence.robustness.linf import PGD
from vergence.robustness.things import KINDS

Metrics = Mapping[str, Mapping[str, float]]
SEEDS = 3
CURVE_SEEDS = 5
CURVE = "tiny-curve"
_POINTS, _NORM = "points", "of the L2 norm"


def _lead(
    id: str, statement: str, source: str, better: str, worse: str, metric: str = "pert", paper: str = "",
    unit: str = _NORM, margin: float = 0.0,
) -> Claim:  # fmt: skip
    return above(
        id, statement, source, better=better, worse=worse, metric=metric, margin=margin, seeds=SEEDS, unit=unit,
        paper=paper,
    )  # fmt: skip


def _cost(id: str, statement: str, variant: str, most: float, paper: str) -> Claim:
    def lost(of: Metrics) -> float:
        return of["defended"]["err"] - of["ordinary"]["err"]

    runs = {"defended": variant, "ordinary": "ord"}
    return compared(
        id, statement, "Table 2", runs, lost, threshold=most, sense="at most", seeds=SEEDS, unit=_POINTS, paper=paper
    )


def _single(
    id: str, statement: str, source: str, variant: str, measure: Callable[[Mapping[str, float]], float],
    threshold: float = 0.0, sense: Sense = "above", unit: str = "", paper: str = "",
) -> Claim:  # fmt: skip
    return compared(
        id, statement, source, {"run": variant}, lambda of: measure(of["run"]), threshold=threshold, sense=sense,
        seeds=SEEDS, unit=unit, paper=paper,
    )  # fmt: skip


def _curve(
    id: str, statement: str, variant: str, measure: Callable[[Mapping[str, float], Mapping[str, float]], float],
    threshold: float, sense: Sense = "above", unit: str = "",
) -> Claim:  # fmt: skip
    """A claim about a variant and ordinary training on the curve in 20 dimensions."""
    runs = {"one": (variant, CURVE), "ord": ("ord", CURVE)}
    return compared(
        id, statement, "Figs. 2 and 3", runs, lambda of: measure(of["one"], of["ord"]), threshold=threshold,
        sense=sense, seeds=CURVE_SEEDS, unit=unit,
    )  # fmt: skip


def whitebox_is_stronger(models: Mapping[str, Any]) -> float:
    """Points of accuracy that PGD on the defended network takes beyond what the same attack on another one takes from
    it: negative if the defence only hides its gradients."""
    from vergence.robustness.gradleak.system import SYSTEM

    config = SETTINGS.configure("tiny", "noise")
    data = SYSTEM.data(Context(config, Path(), Facts(len(KINDS), KINDS)), "test")
    images, labels = (torch.stack([torch.as_tensor(data[i][part]) for i in range(120)]) for part in (0, 1))
    attack = PGD(4 / 255, 20, 1 / 255)
    left = []
    for name in ("noise", "ord"):
        attacked = attack(models[name], images, labels, generator("claims", "transfer"))
        with torch.no_grad():
            left.append(float((models["noise"](attacked).argmax(1) == labels).double().mean()))
    return 100 * (left[1] - left[0])


CLAIMS = (
    # Our code -----------------------------------------------------------------------------------------------------
    Claim("components", "Components found in chunks are those of the definition.", "Alg. 1, line 1", "check",
          exact.components_are_the_definition, ROUNDING),
    Claim("randomised", "Randomised components are within the bound that they state, and converge.", "our variant",
          "check", exact.randomised_components_are_bounded, ROUNDING),
    Claim("curves", "All leak curves by one product are Eq. 2, forward and backward, and rise from 0 to 1.", "Eq. 2",
          "check", exact.curves_are_eq_2, ROUNDING),
    Claim("chance", "Over directions without preference, α_d is d / D on average.", "Eq. 2", "check",
          exact.isotropic_directions_have_chance, ROUNDING),
    Claim("transform", "The transform of a batch is Algorithm 1, picture by picture.", "Alg. 1", "check",
          exact.transform_is_algorithm_1, ROUNDING),
    Claim("promises", "d = D changes nothing, projecting twice is projecting once, the mean stays, nothing is left "
          "beyond d + m, and without noise it is the projection.", "Sect. 4", "check",
          exact.transform_keeps_its_promises, ROUNDING),
    Claim("variance", "Noise has c² times the variance of the data in each direction, isotropic noise the same energy, "
          "and both are fresh at every use.", "Alg. 1, line 4", "check", exact.noise_has_its_variance, 0.04,
          unit="relative"),
    Claim("margin", "DeepFool and L2-BIM find |margin| / ||w|| of linear classifiers.", "closed form", "check",
          exact.linear_margins_are_found, 1e-5, unit="relative"),
    Claim("margin-cw", "So does C&W, within steps of its learning rate.", "closed form", "check",
          exact.linear_margins_are_found_by_adam, 5e-3, unit="relative"),
    Claim("batches", "Attacks on whole batches find what loops over pictures find.", "DeepFool, C&W", "check",
          exact.batches_are_loops, ROUNDING),
    Claim("gradients", "Gradients by the picture are central differences, for both losses.", "Eq. 2", "check",
          exact.gradients_are_central_differences, 1e-7),
    Claim("simplex", "Max-Mahalanobis centres have norm 1 and inner products of -1 / (L - 1).", "MMC", "check",
          exact.centres_are_a_simplex, ROUNDING),
    parameter_counts("parameters", "Parameters of DenseNet-BC-100-12, WRN-28-10 and the ResNet-32 with its head.",
                     "counted by hand", {"paper": 769_162, "paper-wrn": 36_479_194, "paper-mmc": 470_416}),
    # The paper ----------------------------------------------------------------------------------------------------
    Claim("first-layer", "On projected pictures, a fully connected network's first layer learns nothing outside their "
          "components and mean: there it keeps its initial values, shrunk by weight decay alone.", "Sect. 4.1",
          "exact", exact.first_layers_keep_what_they_never_see, ROUNDING),
    Claim("table-1", "The coefficients of determination of Table 1 follow from its own rows.", "Table 1", "exact",
          exact.table_1_adds_up, 0.002),
    _lead("pca-alpha", "Projection raises the share of the gradient in the components.", "Table 2", "pca", "ord",
          "alpha", "+0.67", "of ᾱ"),
    _lead("noise-alpha", "Noise in the next components raises it further.", "Table 2", "noise", "pca", "alpha", "+0.23",
          "of ᾱ"),
    _lead("pca-pert", "Projection makes the smallest perturbations larger.", "Table 2", "pca", "ord", paper="+0.166"),
    _lead("noise-pert", "Noise in the next components makes them larger still.", "Table 2", "noise", "pca",
          paper="+0.052"),
    _lead("noise-ord-pert", "The whole method makes them larger than ordinary training.", "Table 2", "noise", "ord",
          paper="+0.218"),
    _lead("noise-wide-pert", "So does noise after the wider number of components.", "Table 2", "noise-wide", "pca-wide",
          paper="+0.048"),
    _lead("fewer-pert", "Fewer components make them larger.", "Table 2", "noise", "noise-wide", paper="+0.100"),
    _lead("subspace", "Noise in the next components makes them larger than isotropic noise of the same energy.",
          "Sect. 4.2", "noise", "isotropic"),
    _lead("subspace-alpha", "It keeps more of the gradient in the components than isotropic noise.", "Sect. 4.2",
          "noise", "isotropic", "alpha", unit="of ᾱ"),
    _cost("noise-cost", "The method costs at most 10.6 points of accuracy, as on CIFAR-10.", "noise", 10.6, "10.6"),
    _cost("noise-wide-cost", "With the wider number of components, at most 2.9.", "noise-wide", 2.9, "2.9"),
    _cost("pca-cost", "Projection alone costs at most 5.8.", "pca", 5.8, "5.8"),
    _lead("trades", "TRADES needs larger perturbations than the method.", "Table 2", "trades", "noise",
          paper="+0.356"),
    _lead("trades-alpha", "TRADES keeps less of its gradient in the components than the method.", "Table 2", "noise",
          "trades", "alpha", "+0.526", "of ᾱ"),
    _lead("trades-cost", "TRADES costs more accuracy than the method.", "Table 2", "trades", "noise", "err", "+4.7",
          _POINTS),
    _lead("mmc-p", "Projection makes MMC withstand more PGD attacks.", "Table 3", "mmc-p", "mmc", "pgd4", "+18.3",
          _POINTS),
    _lead("mmc", "MMC withstands more PGD attacks than cross-entropy.", "Table 3", "mmc", "ord", "pgd4", "+21.7",
          _POINTS),
    _single("leaks", "Ordinary training leaks: the gradient's share in the components is far below the pictures'.",
            "Fig. 4 (a)", "ord", lambda of: of["energy"] / 100 - of["alpha"], 0.3),
    _single("first-order", "Perturbations have almost the same share in the components as gradients.", "Fig. 4 (a)",
            "ord", lambda of: abs(of["alpha_pert"] - of["alpha"]), 0.1, "at most"),
    _single("discovered", "Training first moves the gradient into the components.", "Fig. 4 (b)", "ord",
            lambda of: of["alpha_first"] - of["alpha_untrained"]),
    _single("leaks-later", "Then it leaks out of them again.", "Fig. 4 (b)", "ord",
            lambda of: of["alpha_highest"] - of["alpha"], 0.05),
    compared_models("no-masking", "The method does not hide its gradients: attacks on the network itself take more "
                    "accuracy than attacks made with another one.", "our control", {"noise": "noise", "ord": "ord"},
                    whitebox_is_stronger, seeds=SEEDS, unit=_POINTS),
    _single("more-steps", "Nor do five times the PGD steps take much more.", "our control", "noise",
            lambda of: of["pgd1"] - of["pgd_long"], 5.0, "at most", _POINTS),
    _curve("curve-alpha", "On the curve, projection moves the gradient into the first component.", "pca",
           lambda one, ord: one["alpha"] - ord["alpha"], 0.5, unit="of ᾱ"),
    _curve("curve-pert", "There, the median perturbation at least doubles.", "pca",
           lambda one, ord: one["median"] / ord["median"], 2.0, "at least", "times"),
    _curve("curve-noise", "With noise it doubles too.", "noise", lambda one, ord: one["median"] / ord["median"], 2.0,
           "at least", "times"),
    _curve("curve-cost", "At the same accuracy, give or take two points.", "noise",
           lambda one, ord: one["err"] - ord["err"], 2.0, "at most", _POINTS),
    # Cost ---------------------------------------------------------------------------------------------------------
    faster("deepfool-cost", "DeepFool on a batch of 64 is 8 times as fast as a loop (two hidden layers).", "our aim",
           "deepfool-mlp", "loop over pictures", threshold=8.0),
    faster("deepfool-conv-cost", "So it is with the convolutional network of tiny.", "our aim", "deepfool-small",
           "loop over pictures", threshold=8.0),
    faster("cw-cost", "C&W on a batch of 64 is 8 times as fast as a loop (two hidden layers).", "our aim", "cw-mlp",
           "loop over pictures", threshold=8.0),
    faster("cw-conv-cost", "So it is with the convolutional network of tiny.", "our aim", "cw-small",
           "loop over pictures", threshold=8.0),
)  # fmt: skip
