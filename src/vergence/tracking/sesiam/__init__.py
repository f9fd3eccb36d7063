"""SE-SiamFC: Siamese tracking with networks that know about size."""

from vergence.contract.about import About

ABOUT = About(
    name="sesiam",
    title="Scale Equivariance Improves Siamese Tracking",
    authors=("Ivan Sosnovik", "Artem Moskalev", "Arnold Smeulders"),
    venue="WACV 2021",
    tasks=("tracking",),
    summary=(
        "A target shown once in a box is found again in every later frame by comparing features of the two. Every "
        "convolution of the network is computed at several scales with shared weights, so that a target that grows or "
        "shrinks moves through the features in a known way."
    ),
    key="sosnovik2021scale",
    links=("https://github.com/ISosnovik/SiamSE",),
)
