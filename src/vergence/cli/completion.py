"""``vergence completion``: a script for the shell, and the words it asks for.

The script asks ``vergence completion words ...`` for what may come next. Commands and names are answered without
importing PyTorch; what only a system knows (its flags, presets, variants) is asked of it once and kept in the user's
cache, under the version of its code.
"""

from __future__ import annotations

import importlib
import json
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

DESCRIPTION = """Print a script that completes commands, systems, flags, presets and variants. For this shell:
bash: source <(vergence completion bash), zsh: source <(vergence completion zsh),
fish: vergence completion fish | source; for every shell, add that line to ~/.bashrc,
~/.zshrc or ~/.config/fish/config.fish."""

NAMED = ("show", "cite", "run", "train", "eval", "predict", "claims", "bench", "export")
"""Commands that a system's name follows."""
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
"""What may come next, and what it is."""


@dataclass(frozen=True)
class CompletionOptions:
    shell: Annotated[str, tyro.conf.Positional]
    """bash, zsh or fish."""
    json: bool = False
    """One JSON document on standard output."""


def completion(args: Sequence[str]) -> int:
    if args and args[0] == "words":  # what the scripts ask; the last word is the one being typed
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
    """What the last of these words may become; nothing where only the shell knows (files)."""
    *before, typed = words
    found: Words = {}
    with suppress(VergenceError):
        found = _next([word for word in before if word], typed)
    return {word: about for word, about in found.items() if word.startswith(typed)}


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
            return {"check": "read every sample and name what is wrong"}
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
    """Of a system of our own: a guest's page may import what takes seconds."""
    return catalogue.about(name).title if catalogue.modules()[name].startswith("vergence.") else ""


def _flags(command: str, name: str) -> list[str]:
    found = _kept(name, command) if command in OWN_FLAGS else _described(command, name)
    return [*found, "--help"]


def _values(command: str, name: str, flag: str) -> Words | None:
    """What may follow a flag; None if it takes no value, nothing if anything may."""
    found = _kept(name, command) if command in OWN_FLAGS else _described(command, name)
    if flag not in found:
        return None
    choices = found[flag]
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


# What a system knows, asked once -------------------------------------------------------------------------------------


def _kept(name: str, what: str) -> dict[str, Any]:
    """From the cache, or from the system itself (which imports PyTorch), kept for the next time."""
    path = _cache() / f"{name or 'all'}-{what}.json"
    mark = _mark([name] if name else catalogue.names())
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["mark"] == mark:
            return dict(kept["found"])
    if what in OWN_FLAGS and not name:
        return {}
    found = _asked(name, what)
    with suppress(VergenceError):  # a cache that cannot be written costs time, no more
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
    """Changes when the code does: version, interpreter, and times of the files that decide flags."""
    own = [Path(__file__).parent, catalogue.ROOT]
    files = [path for folder in own for path in folder.glob("*.py")]
    for name in names:
        with suppress(VergenceError, ImportError):
            files += catalogue.code(name)
    return digest([__version__, sys.version, sorted([str(p), p.stat().st_mtime_ns] for p in files)])


def flags(kind: type, prefix: str = "", defaults: bool = False) -> Iterator[tuple[str, list[str] | None]]:
    """The flags of a dataclass as the commands have them, with the values each may take: [] for any, None for none.

    What must be given comes without a flag, unless there are ``defaults`` for all of it, as a preset has.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint, marks = _taken_apart(hints[field.name])
        if typing.get_origin(hint) in (typing.Union, UnionType) and is_dataclass(field.default):
            hint = type(field.default)  # of several dataclasses the one that is meant where nobody says which
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
        hint, *found = typing.get_args(hint)
        marks = tuple(found)
    if typing.get_origin(hint) in (typing.Union, UnionType):
        given = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        hint = given[0] if len(given) == 1 else hint
    return hint, marks
