"""Gradient leaking: how much of a classifier's gradient leaves the data, and training that prevents it."""

from vergence.contract.about import About

ABOUT = About(
    name="gradleak",
    title="Defense Against Adversarial Attacks via Controlling Gradient Leaking on Embedded Manifolds",
    authors=("Yueru Li", "Shuyu Cheng", "Hang Su", "Jun Zhu"),
    venue="ECCV 2020",
    tasks=("adversarial robustness", "diagnosis of classifiers"),
    brief="why a classifier is easily fooled",
    summary=(
        "What share of a classifier's input gradient lies in the principal components of its data, and how small a "
        "perturbation fools it: a diagnosis of any PyTorch classifier. And a cheap defence: training pictures are "
        "projected to their leading components, with large noise in the next ones; test pictures stay as they are. "
        "Adversarial training, TRADES, the Max-Mahalanobis head and isotropic noise are its rivals."
    ),
    key="li2020defense",
    intended_use="To measure and improve the robustness of classifiers that you may test.",
)
