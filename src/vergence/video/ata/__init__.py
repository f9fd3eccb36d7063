"""ATA: temporal attention along matched patches."""

from vergence.contract.about import About

ABOUT = About(
    name="ata",
    title="Alignment-guided Temporal Attention for Video Action Recognition",
    authors=("Yizhou Zhao", "Zhenyang Li", "Xun Guo", "Yan Lu"),
    venue="NeurIPS 2022",
    tasks=("video action recognition",),
    summary=(
        "Attention over time at each place of a video is cheap, but what moves leaves its place. Before it, the "
        "patches of each frame are put in the order in which they match those of the frame before (an optimal "
        "assignment), and afterwards they go back. Nothing has to be learnt for that."
    ),
    key="zhao2022alignment",
    links=("https://arxiv.org/abs/2210.00132",),
)
