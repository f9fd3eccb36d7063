"""Which files of Vergence others stand on, read from their imports without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def dependencies(files: Iterable[Path], root: Path = ROOT) -> list[Path]:
    """The files below ``root`` that these import, and that those import, and so on; the files themselves left out.

    A name that a package only passes on (``from vergence.nn import ResNet``) leads to the module it comes from, not to
    everything that the package has.
    """
    own = {path.resolve() for path in files}
    found: set[Path] = set()
    todo = list(own)
    while todo:
        new = {path for path in _imported(todo.pop(), root) if path not in found and path not in own}
        found |= new
        todo += new
    return sorted(found)


@cache
def _imported(path: Path, root: Path) -> frozenset[Path]:
    return frozenset(file for module, name in _named(path, root) for file in _files(module, name, root))


def _named(path: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Modules of the package, each with one name asked of it ("" for the module itself)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if _inside(alias.name, root))
        elif isinstance(node, ast.ImportFrom) and node.module and _inside(node.module, root):
            yield from ((node.module, alias.name) for alias in node.names)


def _inside(module: str, root: Path) -> bool:
    return module.split(".")[0] == root.name


def _files(module: str, name: str, root: Path) -> Iterator[Path]:
    """The file that a name of a module comes from."""
    place = root.joinpath(*module.split(".")[1:])
    if place.with_suffix(".py").is_file():
        yield place.with_suffix(".py").resolve()
    elif name and ((below := place / f"{name}.py").is_file() or (below := place / name / "__init__.py").is_file()):
        yield below.resolve()
    elif (package := place / "__init__.py").is_file():
        passed_on = {asked: of for of, asked in _named(package, root)}
        if name in passed_on:
            yield from _files(passed_on[name], name, root)
        else:
            yield package.resolve()
