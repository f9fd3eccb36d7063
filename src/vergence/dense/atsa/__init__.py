"""ATSA: the object that people look at first, from a photograph and its depth map."""

from vergence.contract.about import About

ABOUT = About(
    name="atsa",
    title="Asymmetric Two-Stream Architecture for Accurate RGB-D Saliency Detection",
    authors=(
        "Miao Zhang", "Sun Xiao Fei", "Jie Liu", "Shuang Xu", "Yongri Piao", "Huchuan Lu",
    ),
    venue="ECCV 2020",
    tasks=("salient object detection", "RGB-D"),
    brief="cuts out what stands out, by depth",
    summary=(
        "A photograph and its depth map give a mask of the object that people look at first, and the object cut out. A "
        "VGG-19 reads the photograph, a network of a twelfth of its size reads the depth, and three attention gates "
        "let depth steer the colour features, which a ladder of four resolutions keeps sharp. The model has 25,928,386 "
        "parameters that are used; the public code builds 32,156,742."
    ),
    key="zhang2020atsa",
    links=("https://github.com/sxfduter/ATSA",),
)  # fmt: skip
