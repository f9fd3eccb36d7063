"""SE-SiamFC: Siamese tracking with scale-equivariant networks."""

from vergence.contract.about import About

ABOUT = About(
    name="sesiam",
    title="Scale Equivariance Improves Siamese Tracking",
    authors=("Ivan Sosnovik", "Artem Moskalev", "Arnold Smeulders"),
    venue="WACV 2021",
    tasks=("tracking",),
    brief="tracks an object that changes in size",
    summary=(
        "A target given by a box in the first frame is located in later ones by comparing features of the two. Every "
        "convolution of the network is computed at several scales with shared weights, so that a change of the "
        "target's size shifts the features along a scale axis."
    ),
    key="sosnovik2021scale",
    links=("https://github.com/ISosnovik/SiamSE",),
)
