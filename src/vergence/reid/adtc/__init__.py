"""Person re-identification without labels: two-stage clustering and voxel attention."""

from vergence.contract.about import About

ABOUT = About(
    name="adtc",
    title="An Attention-Driven Two-Stage Clustering Method for Unsupervised Person Re-identification",
    authors=("Zilong Ji", "Xiaolong Zou", "Xiaohan Lin", "Xiao Liu", "Tiejun Huang", "Si Wu"),
    venue="ECCV 2020",
    tasks=("person re-identification", "unsupervised domain adaptation", "retrieval"),
    brief="learns people from unlabelled pictures",
    summary=(
        "Trains a re-identification network on pictures without identities: k-means centres claim the pictures whose "
        "k-reciprocal neighbourhoods overlap most with their own, pictures claimed twice are dropped, and triplets of "
        "the clusters train the network for the next round. An attention over places and channels of the last map "
        "keeps clusters from following the background of a camera."
    ),
    key="ji2020attention",
    intended_use=(
        "Research and engineering on data that you may use. Recognising people again across cameras is surveillance: "
        "know the law and have the consent it asks for."
    ),
)
