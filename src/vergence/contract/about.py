"""What the catalogue knows of a system without importing anything heavy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    """A system's page: each system's ``__init__.py`` holds one, named ``ABOUT``."""

    name: str
    title: str
    authors: tuple[str, ...]
    venue: str
    tasks: tuple[str, ...]
    summary: str
    citation: str
    """BibTeX."""
    licence: str = "Apache-2.0"
    """Of this implementation."""
    intended_use: str = "Research and engineering on data that you may use."
    links: tuple[str, ...] = ()
