"""``vergence list``, ``show`` and ``cite``: from the catalogue alone, without PyTorch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vergence import catalogue
from vergence.cli.options import read, take_name
from vergence.cli.show import console, document
from vergence.cli.summary import Counts, claim_counts, summary
from vergence.contract.about import About
from vergence.contract.config import to_json
from vergence.core.errors import VergenceError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 80


@dataclass(frozen=True)
class ListOptions:
    """List the systems."""

    words: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Only systems whose name, paper, tasks or summary hold these words."""
    task: str = ""
    """Only systems for this task."""
    room: str = ""
    """Only systems in this room, such as `tracking`."""
    json: bool = False
    """One JSON document on standard output."""


@dataclass(frozen=True)
class PageOptions:
    """One system's page."""

    full: bool = False
    """The whole text: how to use it, and where it departs from its paper."""
    json: bool = False
    """One JSON document on standard output."""


@dataclass(frozen=True)
class CiteOptions:
    """Citation of a system."""

    json: bool = False
    """One JSON document on standard output."""


def list(args: Sequence[str]) -> int:  # the name of the command
    options = read(ListOptions, args, "list", "List the systems, by room.")
    pages, rooms = [], {catalogue.room(name) for name in catalogue.names()}
    if options.room and options.room not in rooms:
        raise VergenceError(f"no room {options.room!r}{did_you_mean(options.room, rooms)}")
    for name in catalogue.names():
        try:
            pages.append(catalogue.about(name))
        except VergenceError as error:  # a third-party system that fails to import must not hide the others
            print(f"vergence: {error}", file=sys.stderr)
    pages = catalogue.matching(pages, " ".join(options.words), options.task, options.room)
    if options.json:
        document([_listed(page) for page in pages])
    elif pages:
        print("\n".join(_lines(pages)))
    else:
        print("no system matches")
    return 0


def _listed(page: About) -> dict[str, Any]:
    counts = claim_counts(page.name)
    return to_json(page) | {
        "room": catalogue.room(page.name),
        "weights": [*catalogue.starters(page.name)],
        "claims": {"hold": counts.hold, "do not hold": counts.fail, "open": counts.open},
    }


def _lines(pages: Sequence[About]) -> Iterator[str]:
    """One line per system, below the name of its room."""
    wide = max(len(page.name) for page in pages)
    middle = max(len(page.does) for page in pages)
    ends = "  weights  hold  not  open"
    middle = max(min(middle, WIDTH - 2 - wide - 2 - len(ends)), 12)
    yield f"{'':{2 + wide + 2 + middle}}{ends}"
    total = Counts()
    for room in sorted({catalogue.room(page.name) for page in pages}):
        yield room
        for page in pages:
            if catalogue.room(page.name) == room:
                counts = claim_counts(page.name)
                total += counts
                weights = "yes" if catalogue.starter(page.name) else "no"
                text = f"  {page.name:<{wide}}  {fitted(page.does, middle):<{middle}}  {weights:>7}"
                yield f"{text}  {counts.hold:>4}  {counts.fail:>3}  {counts.open:>4}"
    yield ""
    many = "1 system" if len(pages) == 1 else f"{len(pages)} systems"
    yield f"{many}; claims: {total}. Details: vergence show NAME"


def fitted(text: str, width: int) -> str:
    """A text of at most ``width`` characters, without its last words if it is longer."""
    if len(text) <= width:
        return text
    return text[: width - 1].rpartition(" ")[0].rstrip(",") + " …" if " " in text[: width - 1] else text[:width]


def show(args: Sequence[str]) -> int:
    name, rest = take_name(args, "show")
    options = read(PageOptions, rest, f"show {name}", "One system's page.")
    page = catalogue.about(name)
    if options.json:
        document(_listed(page) | {"readme": catalogue.readme(name)})
        return 0
    if not options.full:
        width = os.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
        print("\n".join(summary(name, max(width, 40))))
        return 0
    out = console()
    if out.is_terminal:
        os.environ.setdefault("LESS", "FRX")  # colours; no paging of what fits on the screen
        with out.pager(styles=True):
            _print_whole(page, out)
    else:
        _print_whole(page, out)
    return 0


def _print_whole(page: About, out: Console) -> None:
    from rich.markdown import CodeBlock, Markdown
    from rich.text import Text

    class Verbatim(CodeBlock):
        """Code as it is written: what is copied from it must run."""

        def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
            for line in str(self.text).rstrip().splitlines():
                yield Text(f"    {line}", style="cyan", no_wrap=True, overflow="ignore")

    class Page(Markdown):
        elements = Markdown.elements | {"fence": Verbatim, "code_block": Verbatim}

    out.print(f"[bold]{page.title}[/]\n{', '.join(page.authors)}. {page.venue}.\n", highlight=False)
    out.print(page.summary + "\n", highlight=False)
    out.print(Page(catalogue.readme(page.name)), crop=False)
    out.print(f"\nlicence {page.licence}. {page.intended_use}", highlight=False)
    for link in page.links:
        out.print(link)


def cite(args: Sequence[str]) -> int:
    name, rest = take_name(args, "cite")
    options = read(CiteOptions, rest, f"cite {name}", "Citation of a system.")
    page = catalogue.about(name)
    document({"name": name, "citation": page.citation}) if options.json else print(page.citation)
    return 0
