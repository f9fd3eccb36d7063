"""FLOT: scene flow on point clouds guided by optimal transport."""

from vergence.contract.about import About

ABOUT = About(
    name="flot",
    title="FLOT: Scene Flow on Point Clouds Guided by Optimal Transport",
    authors=("Gilles Puy", "Alexandre Boulch", "Renaud Marlet"),
    venue="ECCV 2020",
    tasks=("scene flow",),
    brief="scene flow between two point clouds",
    summary=(
        "Two point clouds of one scene, an instant apart, give one motion vector for every point of the first. Points "
        "are matched by an unrolled, relaxed optimal transport between learnt features, and a small network refines "
        "the resulting flow. The model has 111,109 parameters."
    ),
    key="puy2020flot",
    links=("https://github.com/valeoai/FLOT",),
)
