"""The memory that this process holds and has held, as the operating system counts it."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path


def reset_peak() -> bool:
    """Forget what this process held before; whether the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """The most resident memory of this process since :func:`reset_peak`, in bytes; 0 where the system does not say."""
    most = _status("VmHWM")
    if most is not None:
        return most
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def resident() -> int:
    """The resident memory of this process now, in bytes; where the system does not say, its peak."""
    return _status("VmRSS") or peak()


def _status(field: str) -> int | None:
    with suppress(OSError):
        line = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(line.group(1)) * 1024 if line else None
    return None
