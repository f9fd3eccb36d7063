"""``vergence completion``: a completion script for the shell, and the words it offers.

The script calls ``vergence completion words ...`` for the possible next words. Commands and names are completed without
importing PyTorch; a system's flags, presets and variants are read once and kept in the user's cache until its code
changes.
"""

from __future__ import annotations

import importlib
import os
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal

import tyro

from vergence import catalogue
from vergence._version import __version__
from vergence.cli.main import COMMANDS
from vergence.cli.options import read
from vergence.cli.show import document
from vergence.contract.config import digest
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import write_json
from vergence.reading.tables import read_json

DESCRIPTION = """Print a script that completes commands, systems, flags, presets and variants. For this shell:
bash: source <(vergence completion bash), zsh: source <(vergence completion zsh),
fish: vergence completion fish | source; for every shell, add that line to ~/.bashrc,
~/.zshrc or ~/.config/fish/config.fish."""

NAMED = ("show", "cite", "run", "train", "eval", "predict", "claims", "bench", "export")
"""Commands that take the name of a system."""
OWN_FLAGS = ("train", "eval", "predict")
"""Commands whose flags depend on the system."""
SHELLS = ("bash", "zsh", "fish")

BASH = """# vergence completion for bash
_vergence_complete() {
    local IFS=$'\\n'
    COMPREPLY=($(vergence completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace
}
complete -o default -F _vergence_complete vergence
"""
ZSH = """#compdef vergence
# vergence completion for zsh
_vergence() {
    local -a found
    local line word
    for line in "${(@f)$(vergence completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        word="${line%%$'\\t'*}"
        found+=("${word//:/\\\\:}:${line#*$'\\t'}")
    done
    if (( ${#found} )); then _describe 'vergence' found; else _files; fi
}
if [[ $funcstack[1] = _vergence ]]; then _vergence "$@"; else compdef _vergence vergence; fi
"""
FISH = """# vergence completion for fish
function __vergence_words
    set -l words (commandline -opc) (commandline -ct)
    vergence completion words $words[2..-1] 2>/dev/null
end
complete -c vergence -e
complete -c vergence -a '(__vergence_words)'
"""
SCRIPTS = dict(zip(SHELLS, (BASH, ZSH, FISH), strict=True))

Words = dict[str, str]
"""Possible next words, each with a description."""


@dataclass(frozen=True)
class CompletionOptions:
    shell: Annotated[str, tyro.conf.Positional]
    """bash, zsh or fish."""
    json: bool = False
    """One JSON document on standard output."""


def completion(args: Sequence[str]) -> int:
    if args and args[0] == "words":  # called by the scripts; the last word is the one being typed
        for word, about in complete(args[1:] or [""]).items():
            print(f"{word}\t{about}")
        return 0
    options = read(CompletionOptions, args, "completion", DESCRIPTION)
    if options.shell not in SCRIPTS:
        raise VergenceError(f"no completion for {options.shell!r}{did_you_mean(options.shell, SCRIPTS)}")
    script = SCRIPTS[options.shell]
    document({"shell": options.shell, "script": script}) if options.json else print(script, end="")
    return 0


def complete(words: Sequence[str]) -> Words:
    """Completions of the last word; empty where the shell should complete file names."""
    *before, typed = words
    following: Words = {}
    with suppress(VergenceError):
        following = _next([word for word in before if word], typed)
    return {word: about for word, about in following.items() if word.startswith(typed)}


def _next(before: Sequence[str], typed: str) -> Words:
    if not before:
        return {name: about for name, (_, about) in COMMANDS.items()}
    command, rest = before[0], before[1:]
    name = next((word for word in rest if word in catalogue.names()), "")
    if typed.startswith("-"):
        return {flag: "" for flag in _flags(command, name)}
    if command == "completion" and not rest:
        return {shell: f"a script for {shell}" for shell in SHELLS}
    if command == "data":
        if not rest:
            return {"check": "read every sample and list the errors"}
        rest = rest[1:]
    if rest and rest[-1].startswith("-"):
        values = _values(command, name, rest[-1])
        if values is not None:
            return values
    if command in NAMED and (not name or command in ("claims", "bench")):
        return {system: _title(system) for system in catalogue.names() if system not in rest}
    if command == "data" and not rest:
        return {f"{layout}:": "a layout" for layout in _kept("", "layouts")}
    return {}


def _title(name: str) -> str:
    """Summary of a built-in system; importing a third-party one may take seconds."""
    return catalogue.about(name).title if catalogue.modules()[name].startswith("vergence.") else ""


def _flags(command: str, name: str) -> list[str]:
    found = _kept(name, command) if command in OWN_FLAGS else _described(command, name)
    return [*found, "--help"]


def _values(command: str, name: str, flag: str) -> Words | None:
    """Possible values of a flag: None if it takes no value, empty if it takes any."""
    flags = _kept(name, command) if command in OWN_FLAGS else _described(command, name)
    if flag not in flags:
        return None
    choices = flags[flag]
    if name and flag in ("--preset", "--variant", "--variants"):
        choices = _kept(name, "names")[flag.removesuffix("s")]
    return None if choices is None else dict.fromkeys(choices, "")


def _described(command: str, name: str) -> dict[str, Any]:
    """The flags of a command whose options do not depend on the system."""
    if command not in COMMANDS:
        return {}
    module = importlib.import_module(f"vergence.cli.{COMMANDS[command][0]}")
    kind = getattr(
        module, f"{'Page' if command == 'show' else 'Check' if command == 'data' else command.title()}Options"
    )
    return dict(flags(kind))


# Flags of a system, read once -----------------------------------------------------------------------------------------


def _kept(name: str, what: str) -> dict[str, Any]:
    """Flags or names from the cache, or else from the system itself (which imports PyTorch)."""
    path = _cache() / f"{name or 'all'}-{what}.json"
    mark = _mark([name] if name else catalogue.names())
    with suppress(VergenceError, ValueError, KeyError, TypeError):
        kept = read_json(path)
        if kept["mark"] == mark:
            return dict(kept["found"])
    if what in OWN_FLAGS and not name:
        return {}
    found = _asked(name, what)
    with suppress(VergenceError):  # without a cache it is only slower
        write_json(path, {"mark": mark, "found": found})
    return found


def _asked(name: str, what: str) -> dict[str, Any]:
    if what == "layouts":
        from vergence.tools.datacheck import layouts

        return {layout: list(systems) for layout, systems in layouts().items()}
    system = catalogue.load(name)
    if what == "names":
        return {"--preset": list(system.settings.presets), "--variant": list(system.variants)}
    from vergence.cli.options import Output
    from vergence.cli.train import TrainOptions
    from vergence.cli.use import EvalOptions, PredictOptions
    from vergence.runs.machine import Machine, Runtime

    parts: Mapping[str, Sequence[Any]] = {
        "train": (TrainOptions, Output, Runtime, system.settings.config),
        "eval": (EvalOptions, Output, Machine, system.settings.config),
        "predict": (system.settings.inputs, PredictOptions, Output, Machine),
    }
    return {
        flag: choices
        for part in parts[what]
        if part is not None
        for flag, choices in flags(part, defaults=part is system.settings.config)
    }


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vergence" / "completion"


def _mark(names: Sequence[str]) -> str:
    """A cache key that changes with the version, the interpreter and the files that define flags."""
    folders = [Path(__file__).parent, catalogue.ROOT]
    files = [path for folder in folders for path in folder.glob("*.py")]
    for name in names:
        with suppress(VergenceError, ImportError):
            files += catalogue.code(name)
    return digest([__version__, sys.version, sorted([str(p), p.stat().st_mtime_ns] for p in files)])


def flags(kind: type, prefix: str = "", defaults: bool = False) -> Iterator[tuple[str, list[str] | None]]:
    """The command-line flags of a dataclass with their possible values: [] for any value, None for no value.

    Required fields are positional and have no flag, unless ``defaults`` (such as a preset) has values for them.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, marks = _taken_apart(hints[field.name])
        if typing.get_origin(hint) in (typing.Union, UnionType) and is_dataclass(field.default):
            hint = type(field.default)  # of a union of dataclasses, the default one
        must_be_given = field.default is MISSING and field.default_factory is MISSING
        if tyro.conf.Positional in marks or (must_be_given and not defaults):
            continue
        settings = [mark for mark in marks if hasattr(mark, "aliases")]
        unnamed = any(getattr(mark, "name", None) == "" for mark in settings)
        name = prefix if unnamed else f"{prefix}{field.name.replace('_', '-')}"
        for alias in (alias for mark in settings for alias in mark.aliases or ()):
            yield alias, []
        if is_dataclass(hint):
            yield from flags(typing.cast(type, hint), name if unnamed else f"{name}.", defaults)
        elif hint is bool:
            yield f"--{name}", None
            yield f"--{prefix}no-{field.name.replace('_', '-')}", None
        else:
            yield f"--{name}", [str(v) for v in typing.get_args(hint)] if typing.get_origin(hint) is Literal else []


def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    marks: tuple[Any, ...] = ()
    if typing.get_origin(hint) is Annotated:
        hint, *metadata = typing.get_args(hint)
        marks = tuple(metadata)
    if typing.get_origin(hint) in (typing.Union, UnionType):
        options = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        hint = options[0] if len(options) == 1 else hint
    return hint, marks
