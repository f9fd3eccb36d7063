"""Forms generated from a system's typed inputs.

Points and boxes are chosen by clicking on a picture field before them; with as many such fields as pictures, each on
its own picture. Text fields for file names, recognised by their help, are left out; text in the others is never used as
a path (:func:`safe_text`).
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from vergence.contract.config import documented, from_json
from vergence.contract.inputs import Kind, kinds
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError

FILES = (Kind.IMAGE, Kind.IMAGES, Kind.VIDEO, Kind.VIDEOS, Kind.CLOUD, Kind.FOLDER, Kind.GRAPH)
"""Kinds that are uploaded."""
SHOWN = (Kind.IMAGE, Kind.IMAGES, Kind.VIDEO, Kind.VIDEOS)
"""Kinds with a picture to click on."""
PICKED = (Kind.POINTS, Kind.BOXES)
LONGEST_TEXT = 2000
_FILE = re.compile(r"\bfile\b|\bcsv\b|\bfolder\b|^Weights\b")


@dataclass(frozen=True)
class Field:
    """One field of a form."""

    name: str
    kind: Kind
    help: str = ""
    required: bool = True
    default: Any = None
    choices: tuple[Any, ...] = ()
    whole: bool = False
    """Of a number: integers only."""
    on: tuple[str, ...] = ()
    """Of points and boxes: the picture fields on which they may be chosen."""

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    @property
    def several(self) -> bool:
        """Whether more than one file may be given."""
        return self.kind in (Kind.IMAGES, Kind.VIDEOS, Kind.FOLDER)


def form(system: AnySystem) -> tuple[Field, ...]:
    """The fields of a system's prediction; empty if it offers none."""
    if system.settings.inputs is None or not system.offers("infer"):
        return ()
    fields: list[Field] = []
    declared = _fields(system.settings.inputs)
    single, picked = ([f.name for f in declared if f.kind in own] for own in ((Kind.IMAGE,), PICKED))
    apart = dict(zip(picked, single, strict=True)) if len(single) == len(picked) > 1 else {}
    for field in declared:
        if field.kind is Kind.TEXT and not field.required and _FILE.search(field.help):
            continue
        if field.kind in PICKED:
            on = tuple(f.name for f in fields if f.kind in SHOWN and f.name == apart.get(field.name, f.name))
            if not on and field.required:
                raise VergenceError(f"{system.about.name} asks for {field.name} but has no picture to choose them on")
            if not on:
                continue
            field = dataclasses.replace(field, on=on)
        fields.append(field)
    return tuple(fields)


def _fields(inputs: type) -> list[Field]:
    known, help_texts = kinds(inputs), documented(inputs)
    hints = typing.get_type_hints(inputs, include_extras=True)
    fields = []
    for field in dataclasses.fields(inputs):
        hint = _given(hints[field.name])
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        default = None if required or field.default is dataclasses.MISSING else field.default
        choices = typing.get_args(hint) if known[field.name] is Kind.CHOICE else ()
        kind, whole = known[field.name], hint is int
        fields.append(Field(field.name, kind, help_texts.get(field.name, ""), required, default, choices, whole))
    return fields


def _given(hint: Any) -> Any:
    """The type without None: ``int`` for ``int | None``."""
    found = [part for part in typing.get_args(hint) if part is not type(None)]
    return found[0] if type(None) in typing.get_args(hint) and len(found) == 1 else hint


def filled(system: AnySystem, values: dict[str, Any], taken: Collection[str] | None = None) -> Any:
    """The system's inputs from values by field name; missing values keep their defaults. Fields that are not ``taken``,
    because they do not fit the weights, may be missing."""
    name, plain = system.about.name, dict[str, Any]()
    fields = form(system)
    files = [field for field in fields if field.kind in FILES]
    for field in fields:
        value = values.get(field.name)
        if value is None or value in ("", [], ()):
            others = any(values.get(f.name) for f in files) or (taken is not None and field.name not in taken)
            if field.required and not (several_or_none(field) and others):
                raise VergenceError(f"{field.label} is missing: {_wanted(field)}")
            if field.required:
                plain[field.name] = []
            continue
        plain[field.name] = _plain(field, value)
    assert system.settings.inputs is not None
    return from_json(system.settings.inputs, plain, f"{name}'s inputs")


def several_or_none(field: Field) -> bool:
    """Whether a field is a list of files, which may be empty if others are given; the system checks the combination."""
    return field.kind in (Kind.IMAGES, Kind.VIDEOS)


def _wanted(field: Field) -> str:
    if field.kind in FILES:
        return f"{name_of(field.kind)} is expected"
    return (
        "a value is expected"
        if field.kind not in PICKED
        else f"click on the picture of {' or '.join(field.on)} to choose"
    )


def name_of(kind: Kind) -> str:
    """Description of the files that a kind takes."""
    return {
        Kind.IMAGE: "a picture",
        Kind.IMAGES: "one or more pictures",
        Kind.VIDEO: "a video",
        Kind.VIDEOS: "one or more videos",
        Kind.CLOUD: "a point cloud (.npy, .npz, .ply, .pcd or KITTI's .bin)",
        Kind.FOLDER: "pictures, or a zip of them,",
        Kind.GRAPH: "a graph (.graph, .geojson, .graphml) or a mask (.png)",
    }[kind]


def _plain(field: Field, value: Any) -> Any:
    if field.kind is Kind.NUMBER:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise VergenceError(f"{field.label} expects a number, got {value!r}")
        if field.whole and value != int(value):
            raise VergenceError(f"{field.label} expects a whole number, got {value:g}")
        return int(value) if field.whole else float(value)
    if field.kind is Kind.TEXT:
        return safe_text(field.label, value)
    if field.kind is Kind.CHOICE and value not in field.choices:
        raise VergenceError(f"{field.label} expects one of {', '.join(map(str, field.choices))}, got {value!r}")
    return value


def safe_text(label: str, value: Any) -> str:
    """Refuse text that could be a path outside the job's folder."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise VergenceError(f"{label} expects a text of at most {LONGEST_TEXT} characters")
    if any(sign in value for sign in ("/", "\\", "~", "..", "\0")) or value.lstrip().startswith("-"):
        raise VergenceError(f"{label} expects plain text: names of files and folders are not allowed")
    return value
