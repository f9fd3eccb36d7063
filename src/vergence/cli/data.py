"""``vergence data check``: check a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from vergence.cli.options import asks_for_help, read
from vergence.cli.show import document, table
from vergence.contract.config import to_json
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.progress import show_progress
from vergence.tools.datacheck import DataCheck, ReaderCheck, SplitCheck, check

DESCRIPTION = """Read every split and every sample of a data set, and list every error. Layouts are those that systems
read: `vergence train NAME --help` lists them under --data. The layout of a plain PATH is guessed from its files."""
USAGE = """usage: vergence data check [LAYOUT:]PATH [OPTIONS]

  check     read every split and every sample; list every error

vergence data check --help lists the options.
"""


@dataclass(frozen=True)
class CheckOptions:
    source: Annotated[str, tyro.conf.Positional]
    """LAYOUT:PATH, as for `--data`, or a plain PATH, whose layout is guessed."""
    system: str = ""
    """Check with the reader of this system only; default: all systems that know the layout."""
    workers: int = 0
    """Number of reading processes (0: read in this process)."""
    json: bool = False
    """One JSON document on standard output."""
    quiet: bool = False
    """No progress."""


def data(args: Sequence[str]) -> int:
    if args and args[0] == "check":
        return _check(args[1:])
    if asks_for_help(args):
        print(USAGE)
        return 0
    if not args:
        raise VergenceError("vergence data needs a subcommand: vergence data check LAYOUT:PATH")
    raise VergenceError(f"vergence data has no {args[0]!r}{did_you_mean(args[0], ['check'])}")


def _check(args: Sequence[str]) -> int:
    options = read(CheckOptions, args, "data check", DESCRIPTION)
    if not 0 <= options.workers <= 1024:
        raise VergenceError(f"workers is a number from 0 to 1024, got {options.workers}")
    with show_progress(options.quiet) as progress:
        result = check(options.source, options.system, options.workers, progress)
    if options.json:
        document(_as_json(result))
    else:
        _tell(result)
    return 0 if result.whole else 2


def _as_json(found: DataCheck) -> dict[str, object]:
    def reader(check: ReaderCheck) -> dict[str, object]:
        return to_json(check) | {"problems": list(check.problems)}

    return {
        "layout": found.layout,
        "path": str(found.path),
        "whole": found.whole,
        "problems": list(found.problems),
        "guessed": found.guessed,
        "also": list(found.also),
        "readers": [reader(check) for check in found.readers],
        "others": [reader(check) for check in found.others],
    }


def _tell(found: DataCheck) -> None:
    for reader in found.readers:
        if found.guessed:
            print(f"{found.path} looks like the layout {found.layout}: {reader.expects}")
        title = f"{found.layout} as {', '.join(reader.systems)} ({', '.join(reader.rooms)}) reads it"
        columns = ["split", "samples", "classes", "a sample", "problems"]
        table(title, columns, [_row(split) for split in reader.splits])
        for note in dict.fromkeys(split.note for split in reader.splits if split.note):
            print(note)
    if found.also:
        print(f"it can also be read as {', '.join(found.also)}: vergence data check LAYOUT:{found.path}")
    for reader in found.others:
        print(f"not as {', '.join(reader.systems)} reads it: {reader.problems[0]}")
    for problem in found.problems:
        print(f"wrong: {problem}")
    count = "1 error" if len(found.problems) == 1 else f"{len(found.problems):,} errors"
    print(f"{found.path} is complete" if found.whole else f"{found.path} is not complete: {count}")


def _row(split: SplitCheck) -> list[str]:
    if split.same_as:
        return [split.split, f"{split.samples:,}", "", f"the same files as {split.same_as}", ""]
    classes = "–" if split.classes is None else f"{split.classes:,}"
    if split.per_class:
        low, high = split.per_class
        classes += f", {low:,} of each" if low == high else f", {low:,} to {high:,} of each"
    parts = "\n".join(f"{place}: {text}" for place, text in split.parts.items())
    return [split.split, f"{split.samples:,}", classes, parts or "–", f"{len(split.problems):,}"]
