"""What a system takes from a user's files and what it gives back, from a small closed set of kinds.

A system declares a frozen dataclass ``Inputs`` whose fields have these types; the command line, the report and the
gallery read that one declaration::

    @dataclass(frozen=True)
    class Inputs:
        images: Images
        points: Points = ()
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from tyro.constructors import PrimitiveConstructorSpec

from vergence.core.errors import VergenceError


class Kind(Enum):
    """What a field holds, for those who draw forms from it."""

    IMAGE = "image"
    IMAGES = "images"
    VIDEO = "video"
    VIDEOS = "videos"
    CLOUD = "cloud"
    FOLDER = "folder"
    GRAPH = "graph"
    TEXT = "text"
    POINTS = "points"
    BOXES = "boxes"
    NUMBER = "number"
    CHOICE = "choice"


Axes = Literal["camera", "lidar"]
"""How the coordinates of a cloud point: left, up, forward; or forward, left, up as laser scanners have it."""


class Point(NamedTuple):
    """A place in an image, in its own pixels."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle in an image, in its own pixels: left, top, width, height."""

    x: float
    y: float
    width: float
    height: float


def _numbers(kind: Any) -> PrimitiveConstructorSpec[Any]:
    """Read ``3,4`` as a Point and ``3,4,10,20`` as a Box."""
    names = kind._fields

    def read(args: list[str]) -> Any:
        try:
            values = [float(v) for v in args[0].split(",")]
            return kind(*values)
        except (ValueError, TypeError):
            raise ValueError(f"expected {','.join(names)}, got {args[0]!r}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=",".join(n.upper() for n in names),
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, kind),
        str_from_instance=lambda value: [",".join(f"{v:g}" for v in value)],
    )


Image = Annotated[Path, Kind.IMAGE]
Images = Annotated[tuple[Path, ...], Kind.IMAGES]
Video = Annotated[Path, Kind.VIDEO]
Videos = Annotated[tuple[Path, ...], Kind.VIDEOS]
Cloud = Annotated[Path, Kind.CLOUD]
Folder = Annotated[Path, Kind.FOLDER]
Graph = Annotated[Path, Kind.GRAPH]
Text = Annotated[str, Kind.TEXT]
Points = Annotated[tuple[Annotated[Point, _numbers(Point)], ...], Kind.POINTS]
Boxes = Annotated[tuple[Annotated[Box, _numbers(Box)], ...], Kind.BOXES]


def kinds(inputs: type) -> dict[str, Kind]:
    """The kind of each field of an ``Inputs`` class; plain numbers and literals have theirs by type."""
    found = {}
    hints = typing.get_type_hints(inputs, include_extras=True)
    for field in fields(inputs):
        hint = _unwrapped(hints[field.name])
        named = [a for a in getattr(hint, "__metadata__", ()) if isinstance(a, Kind)]
        if named:
            found[field.name] = named[0]
        elif hint in (int, float):
            found[field.name] = Kind.NUMBER
        elif typing.get_origin(hint) is Literal:
            found[field.name] = Kind.CHOICE
        elif hint is str:
            found[field.name] = Kind.TEXT
        else:
            raise VergenceError(
                f"{inputs.__qualname__}.{field.name} is a {hint}, not one of the kinds of vergence.contract.inputs"
            )
    return found


def _unwrapped(hint: Any) -> Any:
    """What an optional field holds when it is given."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        given = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return given[0] if len(given) == 1 else hint
    return hint


@dataclass(frozen=True)
class Artifact:
    """Something a system made: a file and what it shows."""

    kind: Literal["image", "video", "table", "text", "json", "html", "cloud", "folder"]
    path: Path
    caption: str
