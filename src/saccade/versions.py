"""What a result was made with: versions of packages, of the code, and of the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from saccade import __version__, catalogue

SHARED = ("ops", "nn", "data", "metrics", "search", "reference", "engine")
"""Folders whose code decides what a system computes, beside its own."""


def environment(system: str) -> dict[str, Any]:
    """Versions, commit and machine, for a run's folder or a stored result."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "saccade": __version__,
        "commit": commit(),
        "code": fingerprint(system),
        "shared": shared_fingerprint(system),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("torch", "lightning-fabric", "numpy", "scipy")},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


@cache
def commit() -> str | None:
    """The commit of the source tree, with a + if it was changed; None outside one."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, timeout=10)
        if head.returncode:
            return None
        changes = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


@cache
def fingerprint(system: str) -> str:
    """The version of the system's own code: results of another one are stale."""
    return _hash(catalogue.code(system))


@cache
def shared_fingerprint(system: str) -> str:
    """The version of what the system stands on: the shared folders and the data, synth and metrics of the rooms."""
    root = catalogue.ROOT
    below = [path for name in SHARED for path in sorted((root / name).rglob("*.py"))]
    rooms = sorted({path.parent.parent for path in root.glob("*/*/system.py")})
    return _hash([*below, *(path for room in rooms for path in sorted(room.glob("*.py")))])


def _hash(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:12]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
