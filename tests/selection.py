"""Which tests concern one system, or what has changed: arguments for pytest, one per line.

    python tests/selection.py system flot
    python tests/selection.py changed [BASE]     # since main, uncommitted changes too

What code concerns is read from imports (:mod:`vergence.runs.imports`). The first line is the systems that the
contract's checks are for, to be put into VERGENCE_SYSTEMS; ``all`` means all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from vergence import catalogue
from vergence.runs import imports

ROOT = Path(__file__).parents[1]
CONTRACT = "tests/contract/test_contract.py"
EVERYTHING = ("pyproject.toml", "constraints.txt", "tests/conftest.py", "tests/helpers.py", "tests/durations.py")


def of_system(name: str) -> tuple[str, list[str]]:
    """The contract's checks of a system, its own tests, and those of its room."""
    room = catalogue.folder(name).parent.name
    tests = [CONTRACT, "tests/test_arrows.py"]
    tests += [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests" / room).glob("test_*.py"))]
    own = ROOT / "tests" / room / name
    return name, [*tests, *([str(own.relative_to(ROOT))] if own.is_dir() else [])]


def of_changes(changed: set[str]) -> tuple[str, list[str]]:
    """The tests that stand on what has changed, and the systems that do."""
    if changed & set(EVERYTHING):
        return "all", ["tests"]
    files = {(ROOT / path).resolve() for path in changed}
    tests = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        local = {path.resolve(), *(p.resolve() for p in path.parent.glob("*.py") if not p.name.startswith("test_"))}
        if str(path.relative_to(ROOT)) != CONTRACT and files & (local | _below([path])):
            tests.append(str(path.relative_to(ROOT)))
    systems = [name for name in catalogue.names() if not name.startswith("fake-") and files & _system(name)]
    engine = files & _below([ROOT / CONTRACT]) or (ROOT / CONTRACT).resolve() in files
    if engine:
        systems = ["all"]
    if changed & {p for p in changed if p.endswith(".md") or p.startswith("docs/")}:
        tests += ["tests/docs", "tests/test_readme.py"]
    return " ".join(systems), [*([CONTRACT] if systems else []), *dict.fromkeys(tests)]


def _below(files: list[Path]) -> set[Path]:
    return set(imports.dependencies(files))


def _system(name: str) -> set[Path]:
    code = catalogue.code(name)
    folder = catalogue.folder(name)
    tests = ROOT / "tests" / folder.parent.name / name
    return {*map(Path.resolve, code), *_below(code), *(p.resolve() for p in [*folder.rglob("*"), *tests.rglob("*")])}


def changes(base: str) -> set[str]:
    """Files that differ from where a branch left ``base``, and those not yet in git."""

    def git(*args: str) -> list[str]:
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")

    fork = git("merge-base", base, "HEAD")[0]
    return {path for path in [*git("diff", "--name-only", fork), *git("ls-files", "-o", "--exclude-standard")] if path}


def main(args: list[str]) -> None:
    systems, tests = of_system(args[1]) if args[0] == "system" else of_changes(changes((args[1:] or ["main"])[0]))
    print("\n".join([systems, *tests]))


if __name__ == "__main__":
    main(sys.argv[1:])
