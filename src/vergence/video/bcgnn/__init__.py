"""BC-GNN: spans of actions in long videos, from a graph of boundaries and contents."""

from vergence.contract.about import About

ABOUT = About(
    name="bcgnn",
    title="Boundary Content Graph Neural Network for Temporal Action Proposal Generation",
    authors=("Yueran Bai", "Yingying Wang", "Yunhai Tong", "Yang Yang", "Qiyue Liu", "Junhui Liu"),
    venue="ECCV 2020",
    tasks=("temporal action proposals", "temporal action detection"),
    brief="finds when something happens in video",
    summary=(
        "From a long video, a ranked list of the spans in which something happens. Every possible start and end is a "
        "node of a graph and every span an edge between them; edges and nodes inform each other, so that a boundary is "
        "believed only if the content between boundaries looks like an action, and the other way round."
    ),
    key="bai2020boundary",
    links=("https://arxiv.org/abs/2008.01432",),
)
