"""TabStruct-Net: table structure recognition using top-down and bottom-up cues."""

from vergence.contract.about import About

ABOUT = About(
    name="tabstruct",
    title="Table Structure Recognition using Top-Down and Bottom-Up Cues",
    authors=("Sachin Raja", "Ajoy Mondal", "C. V. Jawahar"),
    venue="ECCV 2020",
    tasks=("table structure recognition",),
    brief="a picture of a table becomes a table",
    summary=(
        "A picture of a table becomes rows, columns and merged cells. A detector with a two-way feature pyramid finds "
        "the cells, and a loss draws the borders of one row or column into line; a graph network on recurrent features "
        "of the cells then says which of them share a row, and which a column."
    ),
    key="raja2020table",
    links=("https://github.com/sachinraja13/TabStructNet",),
)
