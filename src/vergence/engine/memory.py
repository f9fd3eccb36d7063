"""Peak memory of a function, measured in a fresh process."""

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
    """Peak memory of a function above what its process held before the call, in bytes.

    ``target`` is ``package.module:function``. A fresh process calls ``function(*args)``, which returns the function to
    measure, one without arguments. It is called once to warm up (imports, caches), and the second call is measured.
    """
    # With these, a larger tensor is returned to the system when it is freed, so that the peak was really held.
    settings = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-m", __name__, target, json.dumps(args)],
        env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise VergenceError(f"the memory of {target}{args} could not be measured: {lines[-1]}")
    return int(done.stdout.split()[-1])


def _measure(target: str, args: list[Any]) -> int:
    module, _, name = target.partition(":")
    work: Callable[[], Any] = getattr(importlib.import_module(module), name)(*args)
    if reset_peak():  # where the peak cannot be reset, only the first call shows
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
