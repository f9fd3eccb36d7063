"""Peak memory of functions, each measured in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from vergence.core.errors import VergenceError
from vergence.core.memory import peak, reset_peak, resident


def child_peak(target: str, *args: str | int | float) -> int:
    """Peak memory of a function above what its process held before the call, in bytes.

    ``target`` is ``package.module:function``. A fresh process calls ``function(*args)``, which returns the function to
    measure, one without arguments. It is called once to warm up (imports, caches), and the second call is measured.
    """
    return child_peaks(target, [args])[0]


def child_peaks(target: str, cases: Sequence[Sequence[str | int | float]]) -> list[int]:
    """:func:`child_peak` for several arguments. On Linux one process imports the module and forks for each, two at a
    time."""
    if sys.platform != "linux" and len(cases) > 1:
        return [child_peak(target, *args) for args in cases]
    # With these, a larger tensor is returned to the system when it is freed, so that the peak was really held.
    settings = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-m", __name__, target, json.dumps(cases)],
        env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(_FOUND)]
    found = {int(number): int(held) for _, number, held in lines}
    for number, args in enumerate(cases):
        if number not in found:
            why = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
            raise VergenceError(f"the memory of {target}{tuple(args)} could not be measured: {why[-1]}")
    return [found[number] for number in range(len(cases))]


_FOUND, _AT_ONCE = "peak:", 2


def _measure_each(target: str, cases: list[list[Any]]) -> None:
    """Print number and peak of each case; after one that fails, no other is begun."""
    module, _, name = target.partition(":")
    make = getattr(importlib.import_module(module), name)
    if len(cases) == 1:
        print(_FOUND, 0, _measure(make(*cases[0])))
        return
    running = 0
    for number, args in enumerate(cases):
        if running == _AT_ONCE:
            running -= 1
            if os.wait()[1]:
                break
        if os.fork() == 0:
            _answer_and_exit(number, make, args)
        running += 1
    for _ in range(running):
        os.wait()


def _answer_and_exit(number: int, make: Callable[..., Callable[[], Any]], args: list[Any]) -> NoReturn:
    """Print the peak and end this process, without what its parent would do at its end."""
    try:
        line = f"{_FOUND} {number} {_measure(make(*args))}\n"
        os.write(1, line.encode())  # in one piece
        os._exit(0)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        os._exit(1)


def _measure(work: Callable[[], Any]) -> int:
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
    _measure_each(sys.argv[1], json.loads(sys.argv[2]))
