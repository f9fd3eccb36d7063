"""Memory of the machine, and of this process now and at its peak, as the operating system reports it."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path


def reset_peak() -> bool:
    """Reset the peak of resident memory; False where the system cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """Peak resident memory since :func:`reset_peak`, in bytes; 0 where the system does not report it."""
    most = _status("VmHWM")
    if most is not None:
        return most
    try:
        import resource
    except ImportError:  # Windows
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def installed() -> int:
    """Memory of the machine, in bytes; 0 where the system does not report it."""
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0


def resident() -> int:
    """Resident memory of this process now, in bytes; its peak where the system does not report it."""
    return _status("VmRSS") or peak()


def _status(field: str) -> int | None:
    with suppress(OSError):
        line = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(line.group(1)) * 1024 if line else None
    return None
