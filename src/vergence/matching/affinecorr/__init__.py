"""Oriented 3D points from affine correspondences."""

from vergence.contract.about import About

ABOUT = About(
    name="affinecorr",
    title="Accurate Reconstruction of Oriented 3D Points Using Affine Correspondences",
    authors=("Carolina Raposo", "Joao P. Barreto"),
    venue="ECCV 2020",
    tasks=("surface normals", "affine correspondences", "patch tracking"),
    brief="oriented 3D points from photographs",
    summary=(
        "Photographs with known poses become 3D points with surface normals. Matched patches give an affine map each, "
        "which is noisy; it is made consistent with the poses in closed form, or aligned photometrically with just the "
        "two degrees of freedom that the poses leave. A tracker with three needs no matches, and less texture."
    ),
    key="raposo2020accurate",
    intended_use="Sparse oriented point clouds of static scenes, from pictures whose cameras are calibrated.",
)
