"""The description of a system in the catalogue, read without importing anything heavy."""

from __future__ import annotations

from dataclasses import dataclass

VENUES = {
    "CVPR": "Conference on Computer Vision and Pattern Recognition (CVPR)",
    "ECCV": "European Conference on Computer Vision (ECCV)",
    "ICCV": "International Conference on Computer Vision (ICCV)",
    "IJCAI": "International Joint Conference on Artificial Intelligence (IJCAI)",
    "NeurIPS": "Advances in Neural Information Processing Systems (NeurIPS)",
    "WACV": "Winter Conference on Applications of Computer Vision (WACV)",
}
"""Conferences in full, as BibTeX entries name them."""


@dataclass(frozen=True)
class About:
    """Name, paper, tasks and licence of a system: its ``__init__.py`` holds one, named ``ABOUT``."""

    name: str
    title: str
    authors: tuple[str, ...]
    venue: str
    """Abbreviated, with the year: "ECCV 2020"."""
    tasks: tuple[str, ...]
    summary: str
    key: str
    """Key of its BibTeX entry: "puy2020flot"."""
    brief: str = ""
    """What it does, in at most 38 characters: its entry in lists."""
    licence: str = "Apache-2.0"
    """Licence of this implementation."""
    intended_use: str = "Research and engineering on data that you may use."
    links: tuple[str, ...] = ()

    @property
    def does(self) -> str:
        """What it does, in a few words."""
        return self.brief or ", ".join(self.tasks)

    @property
    def citation(self) -> str:
        """The BibTeX entry of the paper."""
        place, _, year = self.venue.rpartition(" ")
        fields = {
            "title": f"{{{self.title}}}",  # braces keep its capitals
            "author": " and ".join(map(_surname_first, self.authors)),
            "booktitle": VENUES.get(place, place),
            "year": year,
        }
        lines = [f"  {name}={{{value}}}" for name, value in fields.items()]
        return f"@inproceedings{{{self.key},\n" + ",\n".join(lines) + "\n}"


def _surname_first(author: str) -> str:
    given, _, surname = author.rpartition(" ")
    return f"{surname}, {given}" if given else surname
