"""What searches of this room give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.images import find_images, read_image


@dataclass(frozen=True)
class Match:
    """Something found in a gallery: its name, and how far it is from the query."""

    name: str
    distance: float


def gallery_pictures(gallery: Path | None) -> Callable[[Match], Tensor | None]:
    """How to get at the picture of a match: of a gallery that was given, or of the file that it names, if it still
    exists."""
    given = {str(path): path for path in find_images(gallery)} if gallery is not None else {}

    def picture(match: Match) -> Tensor | None:
        try:
            return read_image(given.get(match.name, Path(match.name)))
        except VergenceError:
            return None

    return picture
