"""The most memory that a piece of work held: of this process, or of a fresh one that does nothing else."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vergence.core.errors import VergenceError


def reset_peak() -> bool:
    """Forget what this process held before; whether the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak() -> int:
    """The most resident memory of this process since :func:`reset_peak`, in bytes."""
    found = _status("VmHWM")
    if found is not None:
        return found
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def child_peak(target: str, *args: str | int | float) -> int:
    """How much a piece of work holds at most over what its process held before it, in bytes.

    ``target`` is ``package.module:function``. A fresh process calls ``function(*args)``, which makes ready and returns
    the work, a function without arguments; only that is measured, after it has been done once (the first time also pays
    for imports and caches).
    """
    # Every larger tensor then goes back to the system when it is freed, and what is measured was really held.
    settings = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-m", __name__, target, json.dumps(args)],
        env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise VergenceError(f"the memory of {target}{args} could not be measured: {said[-1]}")
    return int(done.stdout.split()[-1])


def _measure(target: str, args: list[Any]) -> int:
    module, _, name = target.partition(":")
    work: Callable[[], Any] = getattr(importlib.import_module(module), name)(*args)
    if reset_peak():  # else the first time is all that can be seen
        work()
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    reset_peak()
    before = _status("VmRSS") or peak()
    kept = work()
    held = peak() - before
    del kept
    return max(held, 0)


def _status(field: str) -> int | None:
    with suppress(OSError):
        found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(found.group(1)) * 1024 if found else None
    return None


if __name__ == "__main__":
    print(_measure(sys.argv[1], json.loads(sys.argv[2])))
