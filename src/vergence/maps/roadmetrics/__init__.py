"""Metrics of road maps that are sensitive to every kind of mistake."""

from vergence.contract.about import About

ABOUT = About(
    name="roadmetrics",
    title="Towards Reliable Evaluation of Algorithms for Road Network Reconstruction from Aerial Images",
    authors=("Leonardo Citraro", "Mateusz Koziński", "Pascal Fua"),
    venue="ECCV 2020",
    tasks=("road network evaluation",),
    brief="scores road maps against a reference",
    summary=(
        "The usual scores of a predicted road map each overlook some kind of mistake. Three that do not compare "
        "edge-disjoint paths (OPT-P), junctions and dead ends (OPT-J), and sub-graphs around random points, matched "
        "one to one (OPT-G); the five usual ones are included: CCQ, TLTS, APLS, JUNCT and SUBG."
    ),
    key="citraro2020towards",
    intended_use="Comparing delineations of roads, vessels or neurons with a reference of the same place.",
    links=("https://github.com/lcit/metrics_delin",),
)
