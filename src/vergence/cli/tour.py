"""``vergence tour``: every system that is ready for use, on its own example, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from vergence import catalogue
from vergence.cli.options import read
from vergence.cli.show import document, table
from vergence.core.progress import show_progress

DESCRIPTION = """Run every system that needs no training or has starter weights on its own example, and write one page:
what came out, the main numbers, and the command and the line of Python that made it."""


@dataclass(frozen=True)
class TourOptions:
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Systems to visit; if none is given, all."""
    output: Path = Path("tour")
    """The folder to write into; -o for short."""
    json: bool = False
    """Print the result as JSON."""
    quiet: bool = False
    """Show no progress."""


def tour(args: Sequence[str]) -> int:
    options = read(TourOptions, ["--output" if a == "-o" else a for a in args], "tour", DESCRIPTION)
    for name in options.names:
        catalogue.about(name)
    from vergence.tools.tour import tour as visit

    with show_progress(options.quiet) as progress:
        page, stops = visit(options.output, options.names, progress)
    if options.json:
        rows = [{"system": s.name, "seconds": s.seconds, "command": s.command, "python": s.python} for s in stops]
        document({"page": str(page), "systems": rows})
        return 0
    rows_shown = [
        [s.name, f"{s.seconds:.1f} s" if s.seconds is not None else "needs training", s.command] for s in stops
    ]
    table("", ["system", "prediction", "command"], rows_shown)
    print(page)
    return 0
