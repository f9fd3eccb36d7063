"""Rendered data kept on disk, so that the runs of a study render it once.

It lies below ``$VERGENCE_HOME/rendered``. A file's name holds a digest of what was asked for and of the code that draws
it, so that changed code never reads old pictures; the oldest files go when there are too many.
"""

from __future__ import annotations

import hashlib
import importlib.util
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.files import home, save_tensors
from vergence.reading.weights import load_tensors

WORTH = 3.0
"""Seconds: what is rendered in less is not kept."""
MOST = 4_000_000_000
"""Bytes kept in all."""


def rendered(
    name: str, asked: Mapping[str, object], code: Sequence[str], render: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """The tensors of ``render()``, which depend on nothing but ``asked`` and the code of the modules ``code``."""
    text = f"{sorted(asked.items())}\0{_digest(tuple(code))}"
    path = home() / "rendered" / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.safetensors"
    if path.is_file():
        with suppress(VergenceError):  # a damaged file is rendered again
            tensors = load_tensors(path)[0]
            path.touch()
            return tensors
    began = time.monotonic()
    tensors = render()
    if time.monotonic() - began > WORTH:
        with suppress(VergenceError, OSError):  # a disk that is full or read-only costs time, not results
            _make_room(path.parent, sum(t.numel() * t.element_size() for t in tensors.values()))
            save_tensors(path, tensors)
    return tensors


def _make_room(folder: Path, wanted: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in files) + wanted
    for path in files:
        if total <= MOST:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)


@cache
def _digest(modules: tuple[str, ...]) -> str:
    """A digest of the source of modules and packages."""
    digest = hashlib.sha256()
    for module in modules:
        spec = importlib.util.find_spec(module)
        origin = Path(spec.origin) if spec and spec.origin else None
        if origin is None:
            continue
        for path in sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]:
            digest.update(path.read_bytes())
    return digest.hexdigest()
