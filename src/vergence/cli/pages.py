"""``vergence list``, ``show`` and ``cite``: from the catalogue alone, without PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from vergence import catalogue
from vergence.cli.options import read, take_name
from vergence.cli.show import console, document, table
from vergence.contract.config import to_json
from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class ListOptions:
    """List the systems."""

    task: str = ""
    """Only systems for this task."""
    json: bool = False
    """One JSON document on standard output."""


@dataclass(frozen=True)
class PageOptions:
    """One system's page."""

    json: bool = False
    """One JSON document on standard output."""


@dataclass(frozen=True)
class CiteOptions:
    """Citation of a system."""

    json: bool = False
    """One JSON document on standard output."""


def list(args: Sequence[str]) -> int:  # the name of the command
    options = read(ListOptions, args, "list", "List the systems.")
    pages = []
    for name in catalogue.names():
        try:
            pages.append(catalogue.about(name))
        except VergenceError as error:  # a third-party system that fails to import must not hide the others
            print(f"vergence: {error}", file=sys.stderr)
    pages = [page for page in pages if options.task.lower() in " ".join(page.tasks).lower()]
    if options.json:
        document([to_json(page) for page in pages])
    else:
        rows = [[page.name, page.title, page.venue, ", ".join(page.tasks)] for page in pages]
        table("", ["name", "title", "venue", "tasks"], rows, "For details: vergence show NAME.")
    return 0


def show(args: Sequence[str]) -> int:
    name, rest = take_name(args, "show")
    options = read(PageOptions, rest, f"show {name}", "One system's page.")
    page = catalogue.about(name)
    if options.json:
        document(to_json(page) | {"readme": catalogue.readme(name)})
        return 0
    from rich.markdown import Markdown

    out = console()
    out.print(f"[bold]{page.title}[/]\n{', '.join(page.authors)}. {page.venue}.\n", highlight=False)
    out.print(page.summary + "\n", highlight=False)
    out.print(Markdown(catalogue.readme(name)))
    out.print(f"\nlicence {page.licence}. {page.intended_use}", highlight=False)
    for link in page.links:
        out.print(link)
    return 0


def cite(args: Sequence[str]) -> int:
    name, rest = take_name(args, "cite")
    options = read(CiteOptions, rest, f"cite {name}", "Citation of a system.")
    page = catalogue.about(name)
    document({"name": name, "citation": page.citation}) if options.json else print(page.citation)
    return 0
