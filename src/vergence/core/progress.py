"""Progress display: bars on a terminal, plain lines elsewhere, JSON lines to a parent process.

All of it goes to standard error; standard output is for results.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

T = TypeVar("T")
Note = str | Callable[[], str]
"""A short status text; a function is called only when the text is shown."""

EVENTS_VARIABLE = "VERGENCE_PROGRESS"
"""Set to ``json`` in a child process, so that its parent draws the bars."""


class Progress:
    """Base class of progress displays, which shows nothing."""

    def start(self, label: str, total: int | None) -> int:
        """Begin a task and return its number."""
        return 0

    def update(self, task: int, done: int, note: Note = "", total: int | None = None) -> None:
        """``done`` units are finished; ``note`` is the status, ``total`` the length if it is known by now."""

    def finish(self, task: int) -> None:
        """End a task."""

    def say(self, text: str) -> None:
        """Show one line of text."""

    def track(self, items: Iterable[T], label: str) -> Iterator[T]:
        """Iterate over ``items`` and show the progress."""
        task = self.start(label, len(items) if isinstance(items, Sized) else None)
        try:
            for done, item in enumerate(items, 1):
                yield item
                self.update(task, done)
        finally:
            self.finish(task)

    def close(self) -> None:
        """Restore the terminal."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class _Piece:
    label: str
    total: int | None
    began: float
    shown: float
    done: int = 0
    note: Note = ""
    last_line: int | None = None
    """``done`` when a line was last shown."""

    def line(self) -> str:
        spent = time.monotonic() - self.began
        if not self.done:
            return f"{self.label}: {clock(spent)} so far"
        of = f"/{self.total}" if self.total else ""
        left = (
            f", {clock(spent / self.done * (self.total - self.done))} left"
            if self.total and self.done < self.total
            else ""
        )
        return f"{self.label}: {self.done}{of} in {clock(spent)}{left}  {_text(self.note)}".rstrip()


class Lines(Progress):
    """Plain lines: one every ``seconds`` for a long task, and one at its end."""

    def __init__(self, stream: TextIO | None = None, seconds: float = 10.0) -> None:
        self.stream = stream or sys.stderr
        self.seconds = seconds
        self.pieces: dict[int, _Piece] = {}
        self.numbers = itertools.count(1)  # two threads never get the same one

    def start(self, label: str, total: int | None) -> int:
        task, now = next(self.numbers), time.monotonic()
        self.pieces[task] = _Piece(label, total, began=now, shown=now)
        return task

    def update(self, task: int, done: int, note: Note = "", total: int | None = None) -> None:
        piece, now = self.pieces[task], time.monotonic()
        piece.done, piece.note, piece.total = done, note, total or piece.total
        if now - piece.shown >= self.seconds:
            piece.shown, piece.last_line = now, done
            self.say(piece.line())

    def finish(self, task: int) -> None:
        piece = self.pieces.pop(task)
        # A short task needs no line, nor one that counts nothing; if the last update showed one, that is enough.
        if time.monotonic() - piece.began >= 1 and piece.done and piece.last_line != piece.done:
            self.say(piece.line())

    def say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


class Events(Progress):
    """JSON lines on standard error for a parent process, at most ten per second for each task."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.shown: dict[int, float] = {}
        self.numbers = itertools.count(1)

    def start(self, label: str, total: int | None) -> int:
        task = next(self.numbers)
        self.shown[task] = 0.0
        self._send(event="start", task=task, label=label, total=total)
        return task

    def update(self, task: int, done: int, note: Note = "", total: int | None = None) -> None:
        now = time.monotonic()
        if now - self.shown[task] >= 0.1:
            self.shown[task] = now
            self._send(event="update", task=task, done=done, note=_text(note), total=total)

    def finish(self, task: int) -> None:
        self._send(event="finish", task=task)

    def say(self, text: str) -> None:
        self._send(event="say", text=text)

    def _send(self, **event: object) -> None:
        print(json.dumps(event), file=self.stream, flush=True)


class Bars(Progress):
    """Progress bars on a terminal: label, count, rate, time left and status."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            ProgressColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress
        from rich.text import Text

        class _Speed(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text(f"{task.speed:.3g}/s" if task.speed else "", style="dim")

        self.bars: RichProgress = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _Speed(),
            TimeElapsedColumn(),
            TextColumn("[dim]left"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self.shown: dict[int, float] = {}
        self.bars.start()

    def start(self, label: str, total: int | None) -> int:
        return int(self.bars.add_task(label, total=total, note=""))

    def update(self, task: int, done: int, note: Note = "", total: int | None = None) -> None:
        from rich.progress import TaskID

        now = time.monotonic()
        if now - self.shown.get(task, 0.0) >= 0.1:
            self.shown[task] = now
            self.bars.update(TaskID(task), completed=done, note=_text(note))
            if total is not None:
                self.bars.update(TaskID(task), total=total)

    def finish(self, task: int) -> None:
        from rich.progress import TaskID

        self.bars.remove_task(TaskID(task))

    def say(self, text: str) -> None:
        self.bars.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self.bars.stop()


def follow(lines: Iterable[str], progress: Progress) -> list[str]:
    """Show the :class:`Events` of a child process and return its other lines."""
    tasks: dict[int, int] = {}
    plain = []
    for line in lines:
        try:
            _show(json.loads(line), tasks, progress)
        except (ValueError, KeyError, TypeError):
            if line.strip():
                plain.append(line.strip())
    for task in tasks.values():
        progress.finish(task)
    return plain


def _show(event: Any, tasks: dict[int, int], progress: Progress) -> None:
    if event["event"] == "start":
        tasks[event["task"]] = progress.start(event["label"], event["total"])
    elif event["event"] == "update":
        progress.update(tasks[event["task"]], event["done"], event["note"], event["total"])
    elif event["event"] == "finish":
        progress.finish(tasks.pop(event["task"]))
    elif event["event"] == "say":
        progress.say(event["text"])


def _text(note: Note) -> str:
    return note if isinstance(note, str) else note()


def show_progress(quiet: bool = False) -> Progress:
    """The display that suits standard error: JSON lines to a parent process, bars on a terminal, or plain lines."""
    if quiet:
        return Progress()
    if os.environ.get(EVENTS_VARIABLE) == "json":
        return Events()
    return Bars() if sys.stderr.isatty() else Lines()


def clock(seconds: float) -> str:
    """Seconds as a clock time: ``75`` as ``1:15``."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def about_minutes(minutes: float) -> str:
    """A rough time in words: "about 1 minute", "about 1.5 minutes", "about 30 seconds"."""
    if minutes < 1:
        return f"about {round(60 * minutes)} seconds"
    return f"about {minutes:.2g} minute{'' if f'{minutes:.2g}' == '1' else 's'}"
