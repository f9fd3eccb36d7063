"""camera360: the vertical of a panorama as two segmented spots, and the panorama set upright."""

from vergence.contract.about import About

ABOUT = About(
    name="camera360",
    title="360° Camera Alignment via Segmentation",
    authors=("Benjamin Davidson", "Mohsan S. Alvi", "João F. Henriques"),
    venue="ECCV 2020",
    tasks=("panorama levelling",),
    brief="sets tilted 360° panoramas upright",
    summary=(
        "A tilted 360° picture is set upright. A network segments the two spots where the vertical pierces the "
        "equirectangular picture, helped by an image of votes for vanishing points; the centroid of the more probable "
        "spot is the vertical, and the picture is rotated so that it points up. The loss is a generalised dice over "
        "points that are uniform on the sphere."
    ),
    key="davidson2020camera",
    links=("https://github.com/ben-davidson-6/Gated-SCNN",),
)
