"""Vergence: published vision systems as one PyTorch library.

::

    model = vergence.load("flot")                       # with its starter weights
    result = model.predict(first="a.ply", second="b.ply")
    result.flow, result.save("out"), result.show()

    network = vergence.create("snl", classes=10)        # the published network, untrained
    vergence.attach(mine, at="layer3.4", block="snl")   # a block in a network of your own
    vergence.run("snl")                                 # the paper's comparison, measured here

Parts are in :mod:`vergence.nn` and :mod:`vergence.ops`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vergence._version import __version__

if TYPE_CHECKING:
    from vergence.api.models import Model, create, describe, features, load
    from vergence.api.work import (
        bench,
        check_data,
        claims,
        compare,
        evaluate,
        export,
        predict,
        replay,
        run,
        train,
    )
    from vergence.catalogue import names as systems
    from vergence.nn.attach import attach, detach

__all__ = [
    "Model",
    "__version__",
    "attach",
    "bench",
    "check_data",
    "claims",
    "compare",
    "create",
    "describe",
    "detach",
    "evaluate",
    "export",
    "features",
    "load",
    "predict",
    "replay",
    "run",
    "systems",
    "train",
]

_MODELS = ("Model", "create", "describe", "features", "load")


def __getattr__(name: str) -> Any:
    # PyTorch takes seconds to import, so it is imported at first use.
    if name == "systems":
        return importlib.import_module("vergence.catalogue").names
    if name in ("attach", "detach"):
        return getattr(importlib.import_module("vergence.nn.attach"), name)
    if name in __all__:
        return getattr(importlib.import_module(f"vergence.api.{'models' if name in _MODELS else 'work'}"), name)
    raise AttributeError(f"module 'vergence' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
