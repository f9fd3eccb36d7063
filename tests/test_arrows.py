"""Arrows point one way: commands and reports know the engine, the engine knows no system, systems know no system."""

import ast
from pathlib import Path

import pytest

import vergence

ROOT = Path(vergence.__file__).parent
CONTRACT = {
    "errors", "about", "config", "training", "seeding", "progress", "files", "inputs", "context", "system", "claims",
    "benchmark",
}  # fmt: skip
PARTS = {"data", "metrics", "search", "nn", "reference"}
ABOVE = {"catalogue", "run", "versions", "study", "ledger", "api", "engine", "report", "cli", "app",
         "datacheck", "imports", "comparison", "exporting", "doctor", "attachment", "results", "traces"}  # fmt: skip
ROOMS = {p.parent.parent.name for p in ROOT.glob("*/*/system.py")}


def modules():
    return sorted(p for p in ROOT.rglob("*.py") if p.name != "__main__.py")


def imported(path):
    """The Vergence modules a file names in imports that run (not those for type checkers)."""
    found = set()
    tree = ast.parse(path.read_text())
    skipped = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    named = {tuple(name.split(".")[1:]) for name in found if name.startswith("vergence.")}
    return named - {("__version__",)}


def may_import(importer, imported):
    """Whether the arrow from one module (as parts below vergence) to another is allowed."""
    top, target = importer[0], imported[0]
    if target == top and top not in ROOMS:
        return True
    if top == "ops":
        return False
    if top in ("nn", "metrics", "search", "reference"):
        return target in {"ops", "errors", "seeding"} or target in PARTS or (top, target) == ("search", "files")
    if top == "data":
        return target in {"ops", "metrics", "errors", "seeding", "files"}
    if top in CONTRACT:
        return target in CONTRACT or target in {"data"}
    if top in ROOMS:
        in_system = len(importer) > 2
        to_system = target in ROOMS and len(imported) > 2 and (ROOT / target / imported[1] / "system.py").exists()
        if to_system:
            return in_system and imported[:2] == importer[:2]
        return target in CONTRACT | PARTS | ROOMS | {"ops"}
    if top == "engine":
        return target in CONTRACT | PARTS | {"ops", "catalogue", "run"}
    return target not in ROOMS


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_arrows(path):
    importer = path.relative_to(ROOT).with_suffix("").parts
    bad = [".".join(name) for name in imported(path) if importer != ("__init__",) and not may_import(importer, name)]
    assert bad == []


def test_the_check_itself_can_fail():
    assert not may_import(("ops", "affinity"), ("errors",))
    assert not may_import(("engine", "fit"), ("recognition", "snl", "system"))
    assert not may_import(("engine", "fit"), ("cli", "main"))
    assert not may_import(("recognition", "data"), ("recognition", "snl", "model"))
    assert may_import(("recognition", "snl", "system"), ("recognition", "snl", "model"))
    assert may_import(("recognition", "snl", "system"), ("recognition", "data"))
    assert not may_import(("system",), ("engine", "fit"))


def test_every_module_belongs_somewhere():
    tops = {p.relative_to(ROOT).with_suffix("").parts[0] for p in modules()} - {"__init__"}
    assert tops <= CONTRACT | PARTS | ABOVE | ROOMS | {"ops"}
