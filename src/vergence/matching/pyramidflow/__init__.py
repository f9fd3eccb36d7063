"""Optical flow that keeps small things: four changes to pyramid networks."""

from vergence.contract.about import About

ABOUT = About(
    name="pyramidflow",
    title="Improving Optical Flow on a Pyramid Level",
    authors=("Markus Hofinger", "Samuel Rota Bulò", "Lorenzo Porzi", "Arno Knapitsch", "Thomas Pock",
             "Peter Kontschieder"),
    venue="ECCV 2020",
    tasks=("optical flow",),
    brief="optical flow between two frames",
    summary=(
        "Two frames of a video give the motion of every pixel, forward and backward, and what is occluded. A network "
        "searches from coarse to fine; at each level every pixel samples the other frame around its own flow instead "
        "of reading a warped copy, no gradient passes to the coarser flow, and the loss attends to the hardest pixels."
    ),
    key="hofinger2020improving",
    links=("https://arxiv.org/abs/1912.10739",),
)  # fmt: skip
