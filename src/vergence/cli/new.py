"""``vergence new``: create the files of a new system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from vergence.cli.options import read
from vergence.cli.show import document
from vergence.tools.scaffold import lay_out

DESCRIPTION = """Create a new system in a source checkout: a small classifier that passes every contract test, to be
replaced part by part."""


@dataclass(frozen=True)
class NewOptions:
    place: Annotated[str, tyro.conf.Positional]
    """Its room and name: ROOM/NAME, such as points/flot."""
    json: bool = False
    """One JSON document on standard output."""


def new(args: Sequence[str]) -> int:
    options = read(NewOptions, args, "new", DESCRIPTION)
    written = [str(path) for path in lay_out(options.place)]
    if options.json:
        document(written)
        return 0
    name = options.place.partition("/")[2]
    print("\n".join(written))
    print(f"\nNow: make test SYSTEM={name}, then read CONTRIBUTING.md.")
    return 0
