"""Files of a new system, which pass the contract tests from the start."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from vergence import catalogue
from vergence.core.errors import VergenceError
from vergence.core.files import write_text

CODE = ("__init__", "settings", "model", "system", "predict", "claims", "bench")


def lay_out(place: str, root: Path | None = None) -> list[Path]:
    """Write the skeleton of ``ROOM/NAME`` into a source checkout: a small classifier on generated pictures, to be
    replaced part by part. ``root`` is the checkout, by default the one this package runs from."""
    room, _, name = place.partition("/")
    for word in (room, name):
        if not re.fullmatch(r"[a-z][a-z0-9]*", word):
            raise VergenceError(f"a new system is named ROOM/NAME in lower-case letters and digits, got {place!r}")
    top = root or catalogue.ROOT.parents[1]
    package, tests = top / "src" / "vergence", top / "tests"
    if not (package / "catalogue.py").is_file() or not tests.is_dir():
        raise VergenceError(f"{top} is not a source checkout of Vergence: clone the repository and run this in it")
    if name in catalogue.names() or (package / room / name).exists():
        raise VergenceError(f"there is a system {name!r} already")
    written = [_file(f"{part}.py", package / room / name / f"{part}.py", room, name) for part in CODE]
    written.append(_file("README.md", package / room / name / "README.md", room, name))
    written.append(_file("fixtures.py", tests / room / name / "fixtures.py", room, name))
    written.append(_file("test_system.py", tests / room / name / f"test_{name}.py", room, name))
    new = {package / room / "__init__.py": f'"""The room of {room}."""\n', tests / room / "__init__.py": ""}
    for path, text in new.items():
        if not path.exists():
            write_text(path, text)
            written.append(path)
    return written


def _file(template: str, path: Path, room: str, name: str) -> Path:
    text = files("vergence.tools").joinpath("skeleton", f"{template}.txt").read_text(encoding="utf-8")
    for mark, value in (("@NAME@", name), ("@ROOM@", room), ("@CLASS@", f"{name.capitalize()}System")):
        text = text.replace(mark, value)
    write_text(path, _sorted_imports(text))
    return path


def _sorted_imports(text: str) -> str:
    """Sort the imports, whose order depends on the room's name."""
    own = re.compile(r"(?:^from vergence[^\n]*\n)+", re.MULTILINE)
    return own.sub(lambda block: "".join(sorted(block.group().splitlines(keepends=True), key=_module)), text)


def _module(line: str) -> str:
    return line.split()[1]
