"""SPVNAS: sparse point-voxel convolution, and the search for small networks of it."""

from vergence.contract.about import About

ABOUT = About(
    name="spvnas",
    title="Searching Efficient 3D Architectures with Sparse Point-Voxel Convolution",
    authors=("Haotian Tang", "Zhijian Liu", "Shengyu Zhao", "Yujun Lin", "Ji Lin", "Hanrui Wang", "Song Han"),
    venue="ECCV 2020",
    tasks=("semantic segmentation",),
    brief="a class per point of a LiDAR sweep",
    summary=(
        "A sparse-voxel U-Net labels every point of a large LiDAR sweep; a cheap branch of points beside it (SPVConv) "
        "keeps small objects visible. A supernet whose parts share their weights holds millions of such networks, and "
        "an evolutionary search finds the best one under a limit of multiply-adds."
    ),
    key="tang2020searching",
    links=("https://github.com/mit-han-lab/spvnas", "https://github.com/mit-han-lab/torchsparse"),
)
