"""Variational CTC: lines of text read with a confidence that tells right readings from wrong ones."""

from vergence.contract.about import About

ABOUT = About(
    name="varctc",
    title="Variational Connectionist Temporal Classification",
    authors=("Linlin Chao", "Jingdong Chen", "Wei Chu"),
    venue="ECCV 2020",
    tasks=("text recognition",),
    brief="printed text with a confidence by word",
    summary=(
        "A picture of a line, a word or a page becomes text, with a confidence for each word that says which ones a "
        "person should check. At every step the network first decides whether to emit anything and then which symbol; "
        "training sums over all alignments of a label, and a posterior that knows the label guides the first decision. "
        "CTC, its entropy-regularised and its calibrated forms are beside it."
    ),
    key="chao2020varctc",
)
