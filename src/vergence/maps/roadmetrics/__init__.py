"""Road maps compared so that every kind of mistake counts."""

from vergence.contract.about import About

ABOUT = About(
    name="roadmetrics",
    title="Towards Reliable Evaluation of Algorithms for Road Network Reconstruction from Aerial Images",
    authors=("Leonardo Citraro", "Mateusz Koziński", "Pascal Fua"),
    venue="ECCV 2020",
    tasks=("road network evaluation",),
    summary=(
        "Scores of a predicted road map against the true one each overlook some kind of mistake. Three that do not: "
        "paths that share no edge (OPT-P), junctions and dead ends (OPT-J), and what can be reached from random "
        "places, matched one to one (OPT-G); beside the five usual ones, CCQ, TLTS, APLS, JUNCT and SUBG."
    ),
    key="citraro2020towards",
    intended_use="Comparing delineations of roads, vessels or neurons with a reference of the same place.",
    links=("https://github.com/lcit/metrics_delin",),
)
