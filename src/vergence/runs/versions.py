"""Provenance of results: versions of the code and the packages, and the machine."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import subprocess
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence._version import __version__
from vergence.contract.config import from_json, to_json
from vergence.core.errors import VergenceError
from vergence.runs.imports import dependencies

RUNNING = ("fit", "evaluate", "stepper", "optimisers", "execute")
"""Modules of the engine that decide what a system computes, though the system imports none of them."""


@dataclass(frozen=True)
class Environment:
    """The versions and the machine that a run or a stored result was made with."""

    date: str = ""
    version: str = ""
    """Version of this package."""
    commit: str | None = None
    code: str = ""
    """Fingerprint of the system's own code."""
    shared: str = ""
    """Fingerprint of the code it depends on."""
    python: str = ""
    packages: dict[str, str | None] = field(default_factory=dict)
    machine: str = ""
    command: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    threads: int | None = None

    @classmethod
    def read(cls, value: Any, at: str) -> Environment:
        """Read from JSON; unknown fields of other versions are ignored."""
        known = {f.name for f in fields(cls)}
        return from_json(cls, {k: v for k, v in value.items() if k in known} if isinstance(value, dict) else value, at)


def environment(system: str) -> dict[str, Any]:
    """Versions, commit and machine, for a run's folder or a stored result."""
    current = Environment(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        version=__version__,
        commit=commit(),
        code=fingerprint(system),
        shared=shared_fingerprint(system),
        python=platform.python_version(),
        packages={name: _version(name) for name in ("torch", "lightning-fabric", "numpy", "scipy")},
        machine=f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores",
    )
    return {k: v for k, v in to_json(current).items() if v not in ([], None) or k == "commit"}


@cache
def commit() -> str | None:
    """The commit of the source tree, with a + if it was changed; None outside one."""
    git = ["git", "-C", str(catalogue.ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10)
        if head.returncode:
            return None
        code = ["status", "--porcelain", "--", ".", ":(exclude,glob)**/results/**"]  # results are not code
        changes = subprocess.run([*git, *code], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def refuse_uncommitted() -> None:
    """Refuse to store results of uncommitted code: anyone must be able to check out what produced them."""
    if (commit() or "").endswith("+"):
        raise VergenceError("the source tree has uncommitted changes: commit them before results are stored")


@cache
def fingerprint(system: str) -> str:
    """A hash of the system's own code: results of other code are stale."""
    return _hash(catalogue.code(system))


@cache
def shared_fingerprint(system: str) -> str:
    """A hash of the code that the system depends on: everything it imports, and the engine that runs it."""
    engine = [catalogue.ROOT / "engine" / f"{name}.py" for name in RUNNING]
    return _hash([*dependencies(catalogue.code(system)), *engine])


def _hash(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        inside = path.is_relative_to(catalogue.ROOT)
        name = path.relative_to(catalogue.ROOT).as_posix() if inside else path.name
        stat = path.stat()
        meaning = zlib.decompress(_packed(path, stat.st_mtime_ns, stat.st_size))
        total.update(name.encode() + b"\0" + meaning + b"\0")
    return total.hexdigest()[:12]


@cache
def _packed(path: Path, modified: int, size: int) -> bytes:
    """The meaning of a file as it was at a time, compressed: most systems depend on the same files."""
    return zlib.compress(_meaning(path.read_text(encoding="utf-8")).encode(), 1)


def _meaning(source: str) -> str:
    """Python code without comments, docstrings and layout: equal for equal programs that are worded differently."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [s for s in body if not (isinstance(s, ast.Expr) and _is_text(s.value))]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@cache
def _processor() -> str:
    """The processor's name: another one may round differently."""
    try:
        match = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        match = None
    return match.group(1) if match else platform.processor() or "unknown processor"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
