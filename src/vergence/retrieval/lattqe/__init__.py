"""Learned query expansion with attention, for image retrieval."""

from vergence.contract.about import About

ABOUT = About(
    name="lattqe",
    title="Attention-Based Query Expansion Learning",
    authors=("Albert Gordo", "Filip Radenovic", "Tamara Berg"),
    venue="ECCV 2020",
    tasks=("image retrieval", "query expansion"),
    brief="image retrieval with expanded queries",
    summary=(
        "A small transformer attends to a query's descriptor and those of its nearest neighbours, and predicts the "
        "weight of each neighbour in the expanded query. It helps with few neighbours and with many, and the same "
        "model, with a softmax, augments the database offline."
    ),
    key="gordo2020attention",
    intended_use=(
        "Research and engineering on collections that you may search. Expansion trusts unverified neighbours: "
        "show people the ranking without it where a wrong match has a cost."
    ),
)
