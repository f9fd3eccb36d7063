"""The most memory that a piece of work holds, in a fresh process that does nothing else."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from vergence.core.errors import VergenceError
from vergence.core.memory import peak, reset_peak, resident


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
    before = resident()
    kept = work()
    held = peak() - before
    del kept
    return max(held, 0)


if __name__ == "__main__":
    print(_measure(sys.argv[1], json.loads(sys.argv[2])))
