"""Vergence: published vision systems as one PyTorch library.

``vergence.create("snl", variant="snl", classes=10)`` builds a model, ``vergence.load("weights.safetensors")`` reads
one, ``vergence.evaluate`` and ``vergence.predict`` use it. ``vergence.attach(model, at="layer3.4", block="snl")`` puts
a block into a network of your own. Parts are in :mod:`vergence.nn` and :mod:`vergence.ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vergence._version import __version__

if TYPE_CHECKING:
    from vergence.api import check_data, compare, create, describe, evaluate, export, features, load, predict
    from vergence.nn.attach import attach, detach

__all__ = [
    "__version__",
    "attach",
    "check_data",
    "compare",
    "create",
    "describe",
    "detach",
    "evaluate",
    "export",
    "features",
    "load",
    "predict",
]


def __getattr__(name: str) -> Any:
    # PyTorch takes seconds to import: it is, when the first of these is used.
    if name in ("attach", "detach"):
        from vergence.nn import attach as attachment

        return getattr(attachment, name)
    if name in __all__:
        from vergence import api

        return getattr(api, name)
    raise AttributeError(f"module 'vergence' has no attribute {name!r}")
