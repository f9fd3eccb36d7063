"""Object detection in a domain without labels: alignment by the classes that a picture shows."""

from vergence.contract.about import About

ABOUT = About(
    name="dualmultilabel",
    title="Adaptive Object Detection with Dual Multi-label Prediction",
    authors=("Zhen Zhao", "Yuhong Guo", "Haifeng Shen", "Jieping Ye"),
    venue="ECCV 2020",
    tasks=("object detection", "unsupervised domain adaptation"),
    brief="detects objects in another domain",
    summary=(
        "Trains a Faster R-CNN on labelled pictures of one look (photographs, clear weather) so that it also works on "
        "unlabelled pictures of another (paintings, fog). A second head predicts which classes a picture shows; a "
        "discriminator of domains sees the features together with that prediction, so that pictures are aligned with "
        "pictures of the same objects; and what the regions say of a picture's classes is kept consistent with it."
    ),
    key="zhao2020adaptive",
    intended_use=(
        "Research and engineering on data that you may use. Detecting people is surveillance where it is done to them "
        "without consent: know the law that applies."
    ),
)
