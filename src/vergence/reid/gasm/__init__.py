"""Guided saliency feature learning and adaptive spatial matching, for re-identification of hidden people."""

from vergence.contract.about import About

ABOUT = About(
    name="gasm",
    title="Guided Saliency Feature Learning for Person Re-identification in Crowded Scenes",
    authors=("Lingxiao He", "Wu Liu"),
    venue="ECCV 2020",
    tasks=("person re-identification", "occlusion"),
    brief="finds a half-hidden person again",
    summary=(
        "A network that learns from masks and key points where the person is, and needs neither to be used: features "
        "are pooled by that saliency, and each location of a query searches a gallery picture for its nearest, "
        "weighted by saliency, so that whatever hides the person counts little."
    ),
    key="he2020guided",
    intended_use=(
        "Research and engineering on data that you may use. Recognising people again across cameras is surveillance: "
        "know the law and have the consent it asks for."
    ),
)
