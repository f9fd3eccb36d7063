"""Volumetric transformer networks: one warping field for each group of feature channels."""

from vergence.contract.about import About

ABOUT = About(
    name="vtn",
    title="Volumetric Transformer Networks",
    authors=("Seungryong Kim", "Sabine Süsstrunk", "Mathieu Salzmann"),
    venue="ECCV 2020",
    tasks=("image classification", "image retrieval"),
    brief="feature maps bent group by group",
    summary=(
        "A layer for the end of a CNN that bends every group of feature channels by a displacement field of its own, "
        "so that different parts of an object line up across pictures. Fields come from responses and a small "
        "encoder-decoder of 178,089 parameters, whatever the backbone; a triplet loss keeps warped maps of one class "
        "alike."
    ),
    key="kim2020volumetric",
)
