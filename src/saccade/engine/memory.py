"""The most memory that a piece of work held."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path


def reset_peak() -> None:
    """Forget what this process held before, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """The most resident memory of this process since :func:`reset_peak`, in bytes."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found.group(1)) * 1024
    except OSError:
        pass
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
