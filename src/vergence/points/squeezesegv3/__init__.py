"""SqueezeSegV3: spatially-adaptive convolution for efficient point-cloud segmentation."""

from vergence.contract.about import About

ABOUT = About(
    name="squeezesegv3",
    title="SqueezeSegV3: Spatially-Adaptive Convolution for Efficient Point-Cloud Segmentation",
    authors=(
        "Chenfeng Xu", "Bichen Wu", "Zining Wang", "Wei Zhan", "Peter Vajda", "Kurt Keutzer", "Masayoshi Tomizuka"
    ),
    venue="ECCV 2020",
    tasks=("LiDAR segmentation",),
    brief="classes of LiDAR points by range image",
    summary=(
        "A LiDAR sweep is unrolled into a range image, a 2D network labels its pixels, and neighbours vote on the "
        "label of every point. The statistics of such an image change from place to place, so the network's kernels "
        "are weighted anew at every pixel, by attention computed from the coordinates around it."
    ),
    key="xu2020squeezesegv3",
    links=("https://github.com/chenfengxu714/SqueezeSegV3",),
)  # fmt: skip
