"""ATA: temporal attention along matched patches."""

from vergence.contract.about import About

ABOUT = About(
    name="ata",
    title="Alignment-guided Temporal Attention for Video Action Recognition",
    authors=("Yizhou Zhao", "Zhenyang Li", "Xun Guo", "Yan Lu"),
    venue="NeurIPS 2022",
    tasks=("video action recognition",),
    brief="recognises actions by aligned patches",
    summary=(
        "Temporal attention at each position of a video is cheap, but moving objects leave their position. ATA first "
        "reorders the patches of each frame to match those of the frame before (an optimal assignment), and restores "
        "their order afterwards. The alignment has no parameters."
    ),
    key="zhao2022alignment",
    links=("https://arxiv.org/abs/2210.00132",),
)
