"""CDVAE: other views of an object from one picture, learnt from pictures of which no two show the same object."""

from vergence.contract.about import About

ABOUT = About(
    name="cdvae",
    title="Novel View Synthesis on Unpaired Data by Conditional Deformable Variational Auto-Encoder",
    authors=("Mingyu Yin", "Li Sun", "Qingli Li"),
    venue="ECCV 2020",
    tasks=("novel view synthesis",),
    brief="other views of a pictured object",
    summary=(
        "One picture of an object and the label of its view are encoded into a code that does not depend on the view; "
        "a decoder draws the code from any labelled view. The label of the view becomes filters that compute a flow "
        "from the features, and the flow deforms the features in encoder and decoder. Training needs pictures with "
        "labels of views, but never two pictures of the same object."
    ),
    key="yin2020novel",
    links=("https://github.com/MingyuY/deformable-view-synthesis",),
)
