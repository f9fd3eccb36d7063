"""BB-GM: keypoints matched by a combinatorial solver inside the network."""

from vergence.contract.about import About

ABOUT = About(
    name="bbgm",
    title="Deep Graph Matching via Blackbox Differentiation of Combinatorial Solvers",
    authors=("Michal Rolínek", "Paul Swoboda", "Dominik Zietlow", "Anselm Paulus", "Vít Musil", "Georg Martius"),
    venue="ECCV 2020",
    tasks=("keypoint matching",),
    brief="keypoints matched between pictures",
    summary=(
        "Two or more pictures of the same kind of thing with marked keypoints give the pairs that correspond; points "
        "without a partner stay alone. A network gives costs for pairs of points and of edges, a real solver finds the "
        "cheapest matching, and training goes through the solver."
    ),
    key="rolinek2020bbgm",
    links=("https://github.com/martius-lab/blackbox-deep-graph-matching",),
)
