"""Options shared by commands, and a system's config as flags."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from vergence import catalogue
from vergence.contract.config import fits
from vergence.core.errors import VergenceError, did_you_mean
from vergence.runs.folder import ROOT

T = TypeVar("T")


@dataclass(frozen=True)
class Output:
    """How to report."""

    json: bool = False
    """One JSON document on standard output instead of tables."""
    quiet: bool = False
    """No progress."""
    runs: Path = ROOT
    """Where run folders are kept."""


def take_name(args: Sequence[str], command: str) -> tuple[str, list[str]]:
    """Split the arguments into the system's name, which comes first, and the rest."""
    if args and not args[0].startswith("-"):
        known = catalogue.names()
        if args[0] not in known:
            raise VergenceError(f"no system {args[0]!r}{did_you_mean(args[0], known)}")
        return args[0], list(args[1:])
    if asks_for_help(args):
        names = ", ".join(catalogue.names())
        print(
            f"usage: vergence {command} NAME [OPTIONS]\n\nsystems: {names}\n\nvergence {command} NAME --help lists all."
        )
        raise SystemExit(0)
    raise VergenceError(f"vergence {command} needs the name of a system first; vergence list shows them")


def peek(args: Sequence[str], flag: str) -> str | None:
    """The value of a flag, before all options can be parsed."""
    for index, arg in enumerate(args):
        if arg == flag and index + 1 < len(args):
            return args[index + 1]
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
    return None


def read(kind: type[T], args: Sequence[str], prog: str, description: str) -> T:
    """Parse a dataclass of options from the command line; fields without a default are positional."""
    marks = (tyro.conf.PositionalRequiredArgs,)
    found = tyro.cli(kind, args=list(args), prog=f"vergence {prog}", description=description, config=marks)
    _refuse_what_does_not_fit(found, "")
    return found


def _refuse_what_does_not_fit(value: Any, at: str) -> None:
    if isinstance(value, int) and not fits(value):
        raise VergenceError(f"--{at} expects a whole number of 64 bits, got one of {value.bit_length()}")
    if isinstance(value, tuple):
        for item in value:
            _refuse_what_does_not_fit(item, at)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _refuse_what_does_not_fit(getattr(value, field.name), field.name.replace("_", "-"))


def without_place(args: Sequence[str]) -> list[str]:
    """Arguments as recorded in a stored result, without the folder of the runs."""
    kept = [arg for arg in args if not arg.startswith("--runs=")]
    if "--runs" in kept:
        at = kept.index("--runs")
        del kept[at : at + 2]
    return kept


def asks_for_help(args: Sequence[str]) -> bool:
    return any(arg in ("-h", "--help") for arg in args)


def joined(*parts: tuple[str, Any]) -> type:
    """Join dataclasses into one, with flags without a prefix. A part is a class, or an instance whose values are the
    defaults."""
    fields: list[Any] = []
    for name, value in parts:
        if isinstance(value, type):
            fields.append((name, Annotated[value, tyro.conf.arg(name="")]))
        else:
            fields.append((name, Annotated[type(value), tyro.conf.arg(name="")], dataclasses.field(default=value)))
    return dataclasses.make_dataclass("Options", fields, frozen=True)
