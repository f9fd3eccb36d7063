"""Foreground object search: which cut-outs fit a box in a picture, learned from a frozen pattern classifier."""

from vergence.contract.about import About

ABOUT = About(
    name="fosearch",
    title="Interpretable Foreground Object Search as Knowledge Distillation",
    authors=("Boren Li", "Po-Yu Zhuang", "Jian Gu", "Mingyang Li", "Ping Tan"),
    venue="ECCV 2020",
    tasks=("foreground object search", "image composition", "image retrieval"),
    brief="cut-outs that fit a box in a picture",
    summary=(
        "A picture and a box give the cut-outs of a gallery that would look right there. A classifier of patterns, "
        "groups of interchangeable cut-outs, is trained first and frozen; a query encoder, the outer product of a "
        "picture's features and the box, learns to land in its embedding. Search is by cosine, among cut-outs or among "
        "patterns."
    ),
    key="li2020fosearch",
    links=("https://doi.org/10.1007/978-3-030-58604-1_12",),
)
