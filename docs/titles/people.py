"""Rendered people of whom starter weights know nothing, as files to search."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from PIL import Image
from torch import Tensor

from titles.canvas import Canvas, pixels
from vergence.drawing.figure import GREEN, RED
from vergence.reid.crowds import Hiding, Population, population

HEIGHT, WIDTH = 192, 96


class Files(NamedTuple):
    """Pictures in files: queries by the first half of the cameras, a gallery by the others."""

    people: Population
    queries: list[Path]
    places: list[int]
    """Of the queries in the population."""
    gallery: Path


def written(folder: Path, people: int, hiding: Hiding = "some", cameras: tuple[int, ...] = (0, 1, 2, 3)) -> Files:
    """One picture of each of some people by each camera, in files named by identity and place."""
    found = population(people, HEIGHT, WIDTH, "title", cameras, 1, hiding)
    files = Files(found, [], [], folder / "gallery")
    files.gallery.mkdir()
    asking = cameras[: len(cameras) // 2]
    for place, (identity, camera) in enumerate(zip(found.identities, found.cameras, strict=True)):
        asks = place < found.queries
        if asks != (camera in asking):
            continue
        path = (folder if asks else files.gallery) / f"{identity}-{place}.png"
        Image.fromarray(pixels(found.pictures[place])).save(path)
        if asks:
            files.queries.append(path)
            files.places.append(place)
    return files


def same(query: Path, match: str) -> bool:
    """Whether two files show the same person."""
    return query.stem.split("-")[0] == Path(match).stem.split("-")[0]


def tile(canvas: Canvas, picture: Tensor, x: float, y: float, width: float, height: float, right: bool) -> None:
    """A match in a frame: green if it is right, red if not."""
    axes = canvas.picture(pixels(picture), x, y, width, height)
    across, down = picture.shape[-1] - 0.5, picture.shape[-2] - 0.5
    axes.plot([-0.5, across, across, -0.5, -0.5], [-0.5, -0.5, down, down, -0.5], color=GREEN if right else RED,
              linewidth=9)  # fmt: skip
