"""CSKD: a small classifier learns the category structure of a large one."""

from vergence.contract.about import About

ABOUT = About(
    name="categorystructure",
    title="Improving Knowledge Distillation via Category Structure",
    authors=(
        "Zailiang Chen",
        "Xianxian Zheng",
        "Hailan Shen",
        "Ziyang Zeng",
        "Yukun Zhou",
        "Rongchang Zhao",
    ),
    venue="ECCV 2020",
    tasks=("knowledge distillation", "image classification"),
    brief="distillation of category structure",
    summary=(
        "A small classifier learns from a trained, large one: beside labels and answers it copies how the teacher's "
        "samples lie around the centre of their class, and how similar the centres of the classes are to each other. "
        "The loss works with any two networks; the small one costs nothing more to use."
    ),
    key="chen2020improving",
    links=("https://github.com/xeanzheng/CSKD",),
)
