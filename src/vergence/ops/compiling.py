"""Loops compiled by numba (the extra ``fast``): importing this module needs it."""

from __future__ import annotations

from typing import Any

from numba import njit


def compiled(function: Any, **options: Any) -> Any:
    """``function`` compiled to run without the GIL, and cached on disk where that is writable."""
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep it
        return njit(nogil=True, **options)(function)
