"""Pattern-Net: point clouds split at random into disjoint clones that must agree."""

from vergence.contract.about import About

ABOUT = About(
    name="orderlydisorder",
    title="Orderly Disorder in Point Cloud Domain",
    authors=("Morteza Ghahremani", "Bernard Tiddeman", "Yonghuai Liu", "Ardhendu Behera"),
    venue="ECCV 2020",
    tasks=("shape classification", "part segmentation"),
    brief="classes and parts of noisy 3-D objects",
    summary=(
        "A point cloud or mesh of one object gets a class, or every point of it a part. Pattern-Net splits the cloud "
        "at random into disjoint clones, runs one small neighbourhood network on each and trains them to contribute "
        "equally: trained on clean clouds, it is meant to withstand noise that breaks DGCNN. It has 366,760 parameters."
    ),
    key="ghahremani2020orderly",
    links=("https://github.com/mogvision/pattern-net",),
)
