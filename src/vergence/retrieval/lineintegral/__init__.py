"""Affine-invariant shape retrieval by a line integral transform."""

from vergence.contract.about import About

ABOUT = About(
    name="lineintegral",
    title="A Novel Line Integral Transform for 2D Affine-Invariant Shape Retrieval",
    authors=("Bin Wang", "Yongsheng Gao"),
    venue="ECCV 2020",
    tasks=("shape retrieval",),
    brief="shape retrieval under affine maps",
    summary=(
        "Chord lengths of a shape along lines that its own supporting lines place, normalised by moments row by row, "
        "then their Fourier magnitudes: a matrix of 18 x 180 numbers that no affine map changes. Shapes, with holes or "
        "of several parts, are compared by L1; nothing is trained."
    ),
    key="wang2020novel",
    intended_use=(
        "Search in collections of silhouettes, logos, marks and other masks. The shape must be whole and apart from "
        "its background; a covered or touched shape is another shape to this method."
    ),
)
