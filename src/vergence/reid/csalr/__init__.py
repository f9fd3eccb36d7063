"""Compressed self-attention with low-rank approximation, for re-identification."""

from vergence.contract.about import About

ABOUT = About(
    name="csalr",
    title="Compressed Self-Attention for Deep Metric Learning with Low-Rank Approximation",
    authors=("Ziye Chen", "Mingming Gong", "Lingjuan Ge", "Bo Du"),
    venue="IJCAI 2020",
    tasks=("person re-identification", "retrieval"),
    brief="finds a person again across cameras",
    summary=(
        "Self-attention that is affordable in the early stages of a network: landmarks, averaged over a grid, attend "
        "to all positions, and a low-rank approximation spreads the result back to each position. Evaluated on "
        "person re-identification with part-based descriptors (PCB)."
    ),
    key="chen2020compressed",
    intended_use=(
        "Research and engineering on data that you may use. Recognising people again across cameras is surveillance: "
        "know the law and have the consent it asks for."
    ),
)
