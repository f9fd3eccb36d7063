"""Configs: frozen dataclasses, converted to flags and to JSON and back, and overridden by dotted names.

JSON is read strictly: an unknown field, a missing one or a value of the wrong type is a one-sentence error.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import hashlib
import inspect
import json
import math
import textwrap
import types
import typing
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from vergence.core.errors import VergenceError, did_you_mean

C = TypeVar("C")


def to_json(value: Any) -> Any:
    """A config (or any of its values) as plain data for ``json``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(v) for v in value]
    return value


def from_json(kind: type[C], value: Any, at: str = "config") -> C:
    """Build a ``kind`` (a dataclass, or any type a config field may have) from JSON data."""
    return _read(kind, value, at)


def _read(kind: Any, value: Any, at: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, value, at)
    if origin is typing.Annotated:
        return _read(args[0], value, at)
    if origin is Literal:
        # `1 == True` in Python: the type decides too.
        if any(value == a and type(value) is type(a) for a in args):
            return value
        raise _wrong(at, " or ".join(map(repr, args)), value)
    if origin in (Union, types.UnionType):
        return _read_union(args, value, at)
    if origin is tuple:
        return _read_tuple(args, value, at)
    if origin is list:
        return [_read(args[0], v, f"{at}.{i}") for i, v in enumerate(_expect(list, value, at, "a list"))]
    if origin in (dict, Mapping):
        pairs = _expect(dict, value, at, "an object").items()
        return {_read(args[0], k, at): _read(args[1], v, f"{at}.{k}") for k, v in pairs}
    return _read_plain(kind, value, at)


def _read_dataclass(kind: Any, value: Any, at: str) -> Any:
    values = _expect(dict, value, at, f"an object with the fields of {kind.__name__}")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    for name in values:
        if name not in fields:
            raise VergenceError(f"{at} has no field {name!r}{did_you_mean(str(name), fields)}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise VergenceError(f"{at} needs {name!r}, a {_name(hints[name])}")
    return kind(**{name: _read(hints[name], v, f"{at}.{name}") for name, v in values.items()})


def _read_union(args: tuple[Any, ...], value: Any, at: str) -> Any:
    if value is None and type(None) in args:
        return None
    if isinstance(value, dict):  # the dataclass that has all these fields is meant: its errors are shown
        meant = [
            a for a in args if dataclasses.is_dataclass(a) and value.keys() <= {f.name for f in dataclasses.fields(a)}
        ]
        if meant:
            return _read(meant[0], value, at)
    for option in args:
        if option is not type(None):
            try:
                return _read(option, value, at)
            except VergenceError:
                continue
    raise _wrong(at, " or ".join(_name(a) for a in args), value)


def _read_tuple(args: tuple[Any, ...], value: Any, at: str) -> Any:
    items = _expect((list, tuple), value, at, "a list")
    if len(args) == 2 and args[1] is Ellipsis:
        args = (args[0],) * len(items)
    if len(items) != len(args):
        raise _wrong(at, f"{len(args)} values", value)
    return tuple(_read(a, v, f"{at}.{i}") for i, (a, v) in enumerate(zip(args, items, strict=True)))


def _read_plain(kind: Any, value: Any, at: str) -> Any:
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.nan
        if math.isnan(number):
            raise _wrong(at, "a number", value)
        return number
    if kind is int and (isinstance(value, bool) or (isinstance(value, int) and not fits(value))):
        raise _wrong(at, "a whole number" if isinstance(value, bool) else "a whole number of 64 bits", value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):  # a named tuple
        return kind(*_read_tuple(tuple(typing.get_type_hints(kind)[name] for name in kind._fields), value, at))
    if kind in (None, type(None)):
        return _expect(type(None), value, at, "nothing")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise _wrong(at, " or ".join(repr(e.value) for e in kind), value) from None
    return _expect(kind, value, at, _name(kind))


def fits(number: int) -> bool:
    """Whether an integer fits in 64 bits."""
    return -(2**63) <= number < 2**63


def _expect(kind: Any, value: Any, at: str, what: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(at, what, value)
    return value


def _wrong(at: str, expected: str, got: Any) -> VergenceError:
    try:
        shown = repr(got)
    except (ValueError, RecursionError):  # a number too long to print, a list too deep
        shown = f"a {type(got).__name__}"
    return VergenceError(f"{at} expects {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _name(kind: Any) -> str:
    plain = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "nothing"}
    return plain[kind] if kind in plain else str(getattr(kind, "__name__", kind))


def override(config: C, changes: Mapping[str, Any]) -> C:
    """The config with fields replaced by dotted name: ``override(config, {"model.block": "nl"})``."""
    for path, value in changes.items():
        config = _replace(config, path.split("."), value, path)
    return config


def _replace(config: Any, path: list[str], value: Any, whole: str) -> Any:
    head, rest = path[0], path[1:]
    names = [f.name for f in dataclasses.fields(config)] if dataclasses.is_dataclass(config) else []
    if head not in names:
        raise VergenceError(f"no config field {whole!r}{did_you_mean(head, names)}")
    if rest:
        new = _replace(getattr(config, head), rest, value, whole)
    else:
        hint = typing.get_type_hints(type(config), include_extras=True)[head]
        new = _read(hint, to_json(value), whole)
    return dataclasses.replace(config, **{head: new})


def differences(a: Any, b: Any) -> dict[str, tuple[Any, Any]]:
    """Where two configs differ, by dotted name: ``{"train.steps": (100, 200)}``."""
    left, right = flat(to_json(a)), flat(to_json(b))
    return {k: (left.get(k), right.get(k)) for k in sorted(left | right) if left.get(k) != right.get(k)}


def flat(tree: Any, at: str = "") -> dict[str, Any]:
    """The leaves of nested JSON objects, by dotted name."""
    if not isinstance(tree, dict):
        return {at: tree}
    out: dict[str, Any] = {}
    for key, value in tree.items():
        out |= flat(value, f"{at}.{key}" if at else key)
    return out


def digest(value: Any) -> str:
    """A short hash of a config: equal configs have equal digests."""
    text = json.dumps(to_json(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def documented(kind: type) -> dict[str, str]:
    """The docstring below each field of a dataclass, inherited ones first, read from its source; empty for a class made
    at run time."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base) or base is kind:
            texts |= _documented_in(base)
    return texts


def _documented_in(kind: type) -> dict[str, str]:
    """The same for the fields of one class alone."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError, SyntaxError):  # no source
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    texts = {}
    for line, below in pairwise(body):
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            texts[line.target.id] = " ".join(str(text).split())
    return texts
