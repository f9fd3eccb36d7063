"""Processes that end with the one that started them, even if that one was killed.

The parent starts a child with a pipe as its standard input, holds the other end, and never writes to it. The processes
that the child starts inherit the pipe (torchrun's do). When the parent is gone, however it ended, the pipe ends too.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

TIED = {"VERGENCE_PARENT": "stdin"}
"""The environment that tells a child to watch its standard input."""
GRACE = 5.0
"""Seconds that a child has to save and exit."""
_leaving = threading.Lock()


def watch_parent() -> None:
    """Ask this process to stop when its parent is gone, if it was started with :data:`TIED`."""
    if os.environ.pop("VERGENCE_PARENT", "") != "stdin":  # removed, for its own children have another standard input
        return
    parent = os.getppid()
    for wait in (_until_the_pipe_ends, lambda: _until_orphaned(parent)):
        threading.Thread(target=_leave_after, args=(wait,), daemon=True).start()


def _until_the_pipe_ends() -> None:
    with suppress(OSError):
        while os.read(0, 1):
            pass


def _until_orphaned(parent: int) -> None:
    """For torchrun, which may be killed while the holder of the pipe lives."""
    while os.getppid() == parent:
        time.sleep(1)


def _leave_after(wait: Callable[[], None]) -> None:
    wait()
    if not _leaving.acquire(blocking=False):  # a second signal would end it before it has saved
        return
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # nobody reads progress any more: writing it would fail
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(128 + signal.SIGTERM)
