"""Temporal transformations: video features learnt from how time was changed."""

from vergence.contract.about import About

ABOUT = About(
    name="temporaltransforms",
    title="Video Representation Learning by Recognizing Temporal Transformations",
    authors=("Simon Jenni", "Givi Meishvili", "Paolo Favaro"),
    venue="ECCV 2020",
    tasks=("self-supervised video representation learning", "action recognition", "video retrieval"),
    brief="learns motion from videos, no labels",
    summary=(
        "A 3D network is pre-trained on videos without labels: it tells whether a clip was sped up, shuffled, played "
        "forward and backward, or warped in time, and how fast it plays. Only motion tells these apart, so its "
        "features describe motion: for action recognition with few labels, and for finding videos that move alike."
    ),
    key="jenni2020video",
    links=("https://arxiv.org/abs/2007.10730", "https://github.com/sjenni/temporal-ssl"),
)
