"""Patch-wise attacks, for evaluating robustness."""

from vergence.contract.about import About

ABOUT = About(
    name="patchwise",
    title="Patch-wise Attack for Fooling Deep Neural Network",
    authors=("Lianli Gao", "Qilong Zhang", "Jingkuan Song", "Xianglong Liu", "Heng Tao Shen"),
    venue="ECCV 2020",
    tasks=("adversarial robustness",),
    brief="attacks that test a classifier",
    summary=(
        "How much of a classifier's accuracy survives perturbations made with other networks. The patch-wise iterative "
        "attack (PI-FGSM) takes larger steps than its budget allows and projects the excess to neighbouring pixels; it "
        "combines with momentum, input diversity and translation invariance, which are its baselines here."
    ),
    key="gao2020patch",
    intended_use="To measure and improve the robustness of classifiers that you may test.",
    links=("https://github.com/qilong-zhang/Patch-wise-iterative-attack",),
)
