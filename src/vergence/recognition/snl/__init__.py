"""The spectral view of nonlocal blocks."""

from vergence.contract.about import About

ABOUT = About(
    name="snl",
    title="Unifying Nonlocal Blocks for Neural Networks",
    authors=("Lei Zhu", "Qi She", "Duo Li", "Yanye Lu", "Xuejing Kang", "Jie Hu", "Changhu Wang"),
    venue="ICCV 2021",
    tasks=("image classification", "action recognition", "video re-identification"),
    brief="nonlocal blocks for image recognition",
    summary=(
        "A layer in which every position of a feature map attends to every other is a graph filter, defined by its "
        "affinity, normalisation and filter. The spectral nonlocal block (SNL) uses a symmetric affinity and a "
        "first-order Chebyshev filter with both weights free."
    ),
    key="zhu2021unifying",
    links=("https://github.com/zh460045050/SNL_ICCV2021",),
)
