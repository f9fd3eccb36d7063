"""Dependencies between files of Vergence, read from their imports without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def dependencies(files: Iterable[Path], root: Path = ROOT) -> list[Path]:
    """All files below ``root`` that these import, directly or indirectly, without the files themselves.

    A name that a package only re-exports (``from vergence.nn import ResNet``) counts as an import of the module that
    defines it, not of the whole package.
    """
    start = {path.resolve() for path in files}
    reached: set[Path] = set()
    todo = list(start)
    while todo:
        new = {path for path in _imported(todo.pop(), root) if path not in reached and path not in start}
        reached |= new
        todo += new
    return sorted(reached)


@cache
def _imported(path: Path, root: Path) -> frozenset[Path]:
    return frozenset(file for module, name in _named(path, root) for file in _files(module, name, root))


@cache
def _named(path: Path, root: Path) -> tuple[tuple[str, str], ...]:
    """Imported modules of the package, each with one imported name ("" for the module itself)."""
    named = list[tuple[str, str]]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named += [(alias.name, "") for alias in node.names if _inside(alias.name, root)]
        elif isinstance(node, ast.ImportFrom) and node.module and _inside(node.module, root):
            named += [(node.module, alias.name) for alias in node.names]
    return tuple(named)


def _inside(module: str, root: Path) -> bool:
    return module.split(".")[0] == root.name


def _files(module: str, name: str, root: Path) -> Iterator[Path]:
    """The file that defines a name of a module."""
    place = root.joinpath(*module.split(".")[1:])
    if place.with_suffix(".py").is_file():
        yield place.with_suffix(".py").resolve()
    elif name and ((below := place / f"{name}.py").is_file() or (below := place / name / "__init__.py").is_file()):
        yield below.resolve()
    elif (package := place / "__init__.py").is_file():
        exported = {asked: of for of, asked in _named(package, root)}
        if name in exported:
            yield from _files(exported[name], name, root)
        else:
            yield package.resolve()
