"""Inputs and outputs of prediction, from a small fixed set of kinds.

A system declares a frozen dataclass ``Inputs`` whose fields have these types; the command line, the report and the
gallery read that one declaration::

    @dataclass(frozen=True)
    class Inputs:
        images: Images
        points: Points = ()
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from tyro.constructors import PrimitiveConstructorSpec

from vergence.contract.config import from_json, to_json
from vergence.core.errors import VergenceError, did_you_mean

I = TypeVar("I")  # noqa: E741


class Kind(Enum):
    """The kind of a field, for anyone who builds a form from it."""

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
"""Axis convention of a point cloud: left, up, forward; or forward, left, up as in laser scanners."""


class Point(NamedTuple):
    """A point in an image, in pixels of the original image."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle in an image, in pixels of the original image: left, top, width, height."""

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


class InMemory(type(Path())):  # type: ignore[misc]
    """A path without a file: an array, tensor or PIL image given in Python, with a name.

    Readers of :mod:`vergence.data` return its value, so that systems need not know where an input came from. Several
    values together (frames, a gallery) are a folder.
    """

    value: Any

    def __new__(cls, name: str, value: Any) -> InMemory:
        made: InMemory = super().__new__(cls, name)
        made.value = value
        return made

    def __init__(self, name: str, value: Any) -> None:
        if sys.version_info >= (3, 12):
            super().__init__(name)

    def exists(self, **_: Any) -> bool:
        return True

    def is_dir(self, **_: Any) -> bool:
        return isinstance(self.value, list | tuple)

    def is_file(self, **_: Any) -> bool:
        return not self.is_dir()


FILES = {
    Kind.IMAGE: ".png",
    Kind.IMAGES: ".png",
    Kind.VIDEO: ".mp4",
    Kind.VIDEOS: ".mp4",
    Kind.CLOUD: ".npy",
    Kind.GRAPH: ".png",
    Kind.FOLDER: "",
}
"""Kinds that are files, with the suffix of values given in Python."""
SEVERAL = (Kind.IMAGES, Kind.VIDEOS)
NUMBERS = (Kind.POINTS, Kind.BOXES)


def make_inputs(inputs: type[I], values: Mapping[str, Any], at: str) -> list[I]:
    """Build inputs from Python values: paths, NumPy arrays, tensors or PIL images.

    A field for a single value may be given a list: the result then has one ``inputs`` per element, and all of them
    share the other fields. Otherwise the result has one element.
    """
    known = kinds(inputs)
    for name in values:
        if name not in known:
            raise VergenceError(f"{at} have no {name!r}{did_you_mean(name, known)}")
    single = [n for n, k in known.items() if k in FILES and k not in (*SEVERAL, Kind.FOLDER)]
    lists = {name: list(values[name]) for name in single if isinstance(values.get(name), list | tuple)}
    counts = {len(items) for items in lists.values()}
    if len(counts) > 1:
        raise VergenceError(f"{at} need lists of equal length, got " + _counted(lists))
    rows = [{**values, **{n: items[i] for n, items in lists.items()}} for i in range(counts.pop() if counts else 1)]
    return [_inputs(inputs, row, known, at) for row in rows]


def _inputs(inputs: type[I], values: Mapping[str, Any], known: Mapping[str, Kind], at: str) -> I:
    plain, held = dict[str, Any](values), dict[str, Any]()
    for name, kind in known.items():
        if name in values and values[name] is not None and kind in FILES:
            held[name] = _held(name, kind, values[name])
            plain[name] = [str(path) for path in held[name]] if kind in SEVERAL else str(held[name])
        elif name in values and kind in NUMBERS:
            plain[name] = _rows(values[name])
    return replace(from_json(inputs, to_json(plain), at), **held)  # type: ignore[type-var]


def _rows(value: Any) -> Any:
    """Boxes or points as lists, also from arrays; a single one may stand for a list of one."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list | tuple) and value and not hasattr(value[0], "__len__"):
        return [value]
    return value


def _held(name: str, kind: Kind, value: Any) -> Any:
    if kind in SEVERAL:
        every = list(value) if isinstance(value, list | tuple) else [value]
        return tuple(_one(f"{name}-{number}{FILES[kind]}", item) for number, item in enumerate(every, 1))
    if kind is Kind.FOLDER and isinstance(value, list | tuple):
        return InMemory(name, [_one(f"{name}-{number}.png", item) for number, item in enumerate(value, 1)])
    return _one(f"{name}{FILES[kind]}", value)


def _one(name: str, value: Any) -> Path:
    if isinstance(value, str | PathLike):
        return Path(value).expanduser() if not isinstance(value, InMemory) else value
    return InMemory(name, value)


def _counted(lists: Mapping[str, list[Any]]) -> str:
    return " and ".join(f"{len(items)} of {name!r}" for name, items in lists.items())


def kinds(inputs: type) -> dict[str, Kind]:
    """The kind of each field of an ``Inputs`` class; plain numbers, literals and text get theirs from the type."""
    by_field = {}
    hints = typing.get_type_hints(inputs, include_extras=True)
    for field in fields(inputs):
        hint = _unwrapped(hints[field.name])
        named = [a for a in getattr(hint, "__metadata__", ()) if isinstance(a, Kind)]
        if named:
            by_field[field.name] = named[0]
        elif hint in (int, float):
            by_field[field.name] = Kind.NUMBER
        elif typing.get_origin(hint) is Literal:
            by_field[field.name] = Kind.CHOICE
        elif hint is str:
            by_field[field.name] = Kind.TEXT
        else:
            raise VergenceError(
                f"{inputs.__qualname__}.{field.name} is a {hint}, not one of the kinds of vergence.contract.inputs"
            )
    return by_field


def _unwrapped(hint: Any) -> Any:
    """The type of an optional field without None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        options = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return options[0] if len(options) == 1 else hint
    return hint


@dataclass(frozen=True)
class Artifact:
    """An output file of a system, with its caption."""

    kind: Literal["image", "video", "table", "text", "json", "html", "cloud", "folder"]
    path: Path
    caption: str
