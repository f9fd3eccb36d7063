"""Several runs at once, each in a process of its own with its own threads; the bars stay in one place."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from saccade.engine import signals
from saccade.errors import Interrupted, SaccadeError
from saccade.progress import EVENTS_VARIABLE, Progress
from saccade.run import Run


def run_all(runs: Sequence[Run], jobs: int, progress: Progress) -> None:
    """Carry every run to its end, ``jobs`` at a time. The first that fails stops the rest, which can go on later."""
    waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
    for run in runs:
        waiting.put(run)
    with signals.listening() as stop:
        crew = _Crew(waiting, progress)
        threads = [threading.Thread(target=crew.work, daemon=True) for _ in range(min(jobs, len(runs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)
                if stop():
                    crew.stop()
        if stop():
            raise Interrupted("stopped; the same command goes on from here", stop.signal_number)
    if crew.failures:
        raise SaccadeError(crew.failures[0])


@dataclass
class _Crew:
    waiting: queue.SimpleQueue[Run]
    progress: Progress
    children: list[subprocess.Popen[str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    stopped: bool = False

    def work(self) -> None:
        while not self.stopped:
            try:
                run = self.waiting.get_nowait()
            except queue.Empty:
                return
            self.carry(run)

    def carry(self, run: Run) -> None:
        threads = str(run.order.runtime.threads or os.cpu_count() or 1)
        child = subprocess.Popen(
            [sys.executable, "-m", "saccade", "train", "--resume", str(run.folder)],
            env=os.environ | {EVENTS_VARIABLE: "json", "OMP_NUM_THREADS": threads},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C reaches the parent alone, which passes it on once
        )
        self.children.append(child)
        last = self.follow(child)
        if child.wait() and not self.stopped:
            self.failures.append(f"{run.folder} failed: {last or f'exit code {child.returncode}'}")
            self.stop()

    def follow(self, child: subprocess.Popen[str]) -> str:
        """Show what a child reports; its last plain line."""
        assert child.stderr is not None
        tasks: dict[int, int] = {}
        last = ""
        for line in child.stderr:
            try:
                event: dict[str, Any] = json.loads(line)
                self.show(event, tasks)
            except (ValueError, KeyError, TypeError, AttributeError):
                last = line.strip() or last
        for task in tasks.values():
            self.progress.finish(task)
        return last

    def show(self, event: dict[str, Any], tasks: dict[int, int]) -> None:
        if event["event"] == "start":
            tasks[event["task"]] = self.progress.start(event["label"], event["total"])
        elif event["event"] == "update":
            self.progress.update(tasks[event["task"]], event["done"], event["note"], event["total"])
        elif event["event"] == "finish":
            self.progress.finish(tasks.pop(event["task"]))
        elif event["event"] == "say":
            self.progress.say(event["text"])

    def stop(self) -> None:
        """Ask every child to save and leave; asking twice changes nothing."""
        if not self.stopped:
            self.stopped = True
            for child in self.children:
                if child.poll() is None:
                    child.send_signal(signal.SIGTERM)
