"""Saccade: published vision systems as one PyTorch library.

``saccade.create("snl", variant="snl", classes=10)`` builds a model, ``saccade.load("weights.safetensors")`` reads one,
``saccade.evaluate`` and ``saccade.predict`` use it. ``saccade.attach(model, at="layer3.4", block="snl")`` puts a block
into a network of your own. Parts are in :mod:`saccade.nn` and :mod:`saccade.ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from saccade.api import check_data, compare, create, describe, evaluate, export, features, load, predict
    from saccade.attachment import attach, detach

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
        from saccade import attachment

        return getattr(attachment, name)
    if name in __all__:
        from saccade import api

        return getattr(api, name)
    raise AttributeError(f"module 'saccade' has no attribute {name!r}")
