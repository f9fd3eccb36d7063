"""Visual relations from picture-level labels, by explaining a graph network."""

from vergence.contract.about import About

ABOUT = About(
    name="explainrelations",
    title="Explanation-Based Weakly-Supervised Learning of Visual Relations with Graph Networks",
    authors=("Federico Baldassarre", "Kevin Smith", "Josephine Sullivan", "Hossein Azizpour"),
    venue="ECCV 2020",
    tasks=("visual relationship detection", "human-object interaction"),
    brief="relations of objects, with reasons",
    summary=(
        "A graph network over the detected objects of a picture learns which predicates (on, holding, rides, ...) "
        "occur in it, from labels of whole pictures alone. Its gradients with respect to objects and pairs then tell "
        "which pair made it say each predicate: ranked triplets (subject, predicate, object), each with what it "
        "rests on."
    ),
    key="baldassarre2020explanation",
    links=("https://github.com/baldassarreFe/ws-vrd",),
)
