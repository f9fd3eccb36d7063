"""The catalogue of systems, found by name and imported only on request.

A system is a package ``vergence/<room>/<name>`` with a ``system.py``. Other packages add theirs through the entry point
group ``vergence.systems``: a name and the module that holds ``ABOUT``, with ``SYSTEM`` there or in its ``system``
submodule.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from vergence.contract.about import About
from vergence.contract.settings import Settings
from vergence.contract.system import AnySystem
from vergence.core.errors import VergenceError, did_you_mean
from vergence.reading.tables import read_json

ROOT = Path(__file__).parent


@cache
def modules() -> dict[str, str]:
    """Every system's module by name, without importing any."""
    own = {p.parent.name: f"vergence.{p.parent.parent.name}.{p.parent.name}" for p in ROOT.glob("*/*/system.py")}
    guests = {point.name: point.value for point in entry_points(group="vergence.systems")}
    return dict(sorted((guests | own).items()))


def names() -> list[str]:
    """Names of all systems."""
    return list(modules())


def about(name: str) -> About:
    """A system's metadata, without importing PyTorch."""
    try:
        page: About = importlib.import_module(_module(name)).ABOUT
    except (ImportError, AttributeError, SyntaxError) as error:
        raise VergenceError(f"the system {name!r} (module {_module(name)}) cannot be opened: {error}") from error
    return page


def room(name: str) -> str:
    """The room of a system: the package that its own package is in."""
    parts = _module(name).split(".")
    return parts[1] if parts[0] == "vergence" and len(parts) > 2 else parts[0]


def matching(pages: Iterable[About], words: str = "", task: str = "", room_name: str = "") -> list[About]:
    """The pages that hold every word, have a task that holds ``task``, and are in a room, if one is named."""
    found = []
    for page in pages:
        own = room(page.name) if page.name in modules() else ""
        text = " ".join((page.name, own, page.title, *page.authors, page.venue, *page.tasks, page.brief, page.summary))
        if (
            all(word in text.lower() for word in words.lower().split())
            and task.lower() in " / ".join(page.tasks).lower()
            and room_name in ("", own)
        ):
            found.append(page)
    return found


def load(name: str) -> AnySystem:
    """The system itself."""
    about(name)
    module = importlib.import_module(_module(name))
    if not hasattr(module, "SYSTEM"):
        module = importlib.import_module(f"{_module(name)}.system")
    system: AnySystem = module.SYSTEM
    return system


def settings(name: str) -> Settings[Any]:
    """A system's declared settings, without importing PyTorch."""
    about(name)
    try:
        spec = importlib.util.find_spec(f"{_module(name)}.settings")
    except ModuleNotFoundError:  # a system of a single file
        spec = None
    if spec is None:
        return load(name).settings
    declared: Settings[Any] = importlib.import_module(f"{_module(name)}.settings").SETTINGS
    return declared


def bench(name: str) -> Any | None:
    """The system's ``bench`` module, if it has one."""
    module = f"{_module(name)}.bench"
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    return importlib.import_module(module) if spec else None


def folder(name: str) -> Path:
    """The folder of the system's code."""
    spec = importlib.util.find_spec(_module(name))
    if spec is None or spec.origin is None:
        raise VergenceError(f"the code of {name!r} was not found")
    return Path(spec.origin).parent


def code(name: str) -> list[Path]:
    """The system's own Python files."""
    spec = importlib.util.find_spec(_module(name))
    origin = Path(spec.origin) if spec and spec.origin else folder(name)
    return sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]


def readme(name: str) -> str:
    """The system's README, or the docstring of a system that is a single file."""
    path = folder(name) / "README.md"
    if path.exists() and len(code(name)) > 1:
        return path.read_text(encoding="utf-8")
    return importlib.import_module(_module(name)).__doc__ or ""


def picture(name: str) -> Path | None:
    """The system's title picture, if it has one: ``results/picture.png``, with ``picture.json`` beside it (caption,
    command and environment)."""
    path = folder(name) / "results" / "picture.png"
    return path if path.exists() else None


def example(name: str) -> dict[str, Any] | None:
    """The inputs of a system's example by field, with the paths of its files; None if it has none. It is the folder
    ``example`` beside its code, with ``inputs.json`` and the files that it names."""
    from vergence.contract.inputs import FILES, kinds

    place = folder(name) / "example"
    inputs = settings(name).inputs
    if inputs is None or not (place / "inputs.json").is_file():
        return None
    values, known = dict(read_json(place / "inputs.json")), kinds(inputs)
    for field, value in values.items():
        if known[field] in FILES:
            values[field] = [str(place / v) for v in value] if isinstance(value, list) else str(place / value)
    return values


def starters(name: str) -> dict[str, Path]:
    """Starter weights shipped with a system, by name, in the order in which it declares them."""
    files = {key: folder(name) / "weights" / f"{key}.safetensors" for key in settings(name).starters}
    return {key: path for key, path in files.items() if path.is_file()}


def starter(name: str) -> Path | None:
    """The default starter weights, if there are any."""
    return next(iter(starters(name).values()), None)


def snippet(name: str) -> str:
    """The first Python block of the README."""
    found = re.search(r"```python\n(.*?)```", readme(name), re.DOTALL)
    return found.group(1) if found else ""


def _module(name: str) -> str:
    known = modules()
    if not isinstance(name, str) or name not in known:
        raise VergenceError(f"no system {name!r}{did_you_mean(str(name), known)}")
    return known[name]
