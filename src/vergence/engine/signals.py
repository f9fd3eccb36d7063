"""Signals to stop: the first lets the run save and exit, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether, and by which signal, the work was asked to stop."""

    def __init__(self) -> None:
        self.signal_number = 0
        self.listeners: list[Callable[[int], None]] = []
        """Called at the first signal."""

    def __call__(self) -> bool:
        return self.signal_number != 0


@contextmanager
def listening() -> Iterator[Stop]:
    """Turn SIGINT and SIGTERM into a flag while the block runs."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.signal_number:
            raise KeyboardInterrupt
        stop.signal_number = number
        for listener in stop.listeners:
            listener(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
