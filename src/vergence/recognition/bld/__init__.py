"""BLD: batch-level distillation, for learning from a stream with nothing but the network kept."""

from vergence.contract.about import About

ABOUT = About(
    name="bld",
    title="Online Continual Learning Under Extreme Memory Constraints",
    authors=("Enrico Fini", "Stéphane Lathuilière", "Enver Sangineto", "Moin Nabi", "Elisa Ricci"),
    venue="ECCV 2020",
    tasks=("continual learning", "classification"),
    brief="learns classes from a stream",
    summary=(
        "A network sees a stream of pictures once, one group of classes after another, and keeps nothing but its own "
        "weights between two batches. Within a batch it remembers what its older classifiers said before it learnt, "
        "and is pulled back to that, layer by layer with the strength of what it learns: it forgets less, at the price "
        "of some kilobytes."
    ),
    key="fini2020online",
    links=("https://github.com/DonkeyShot21/batch-level-distillation",),
)
