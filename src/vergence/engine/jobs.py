"""Several runs at once, each in its own process with its own threads; all progress is shown in one place."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from vergence.core.errors import Interrupted, VergenceError
from vergence.core.parent import TIED
from vergence.core.progress import EVENTS_VARIABLE, Progress, follow
from vergence.engine import signals
from vergence.runs.folder import Run


def run_all(runs: Sequence[Run], jobs: int, progress: Progress) -> None:
    """Start or resume every run, ``jobs`` at a time. The first failure stops the others, which can be resumed later."""
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
            raise Interrupted("stopped; the same command resumes from here", stop.signal_number)
    if crew.failures:
        raise crew.failures[0]


@dataclass
class _Crew:
    waiting: queue.SimpleQueue[Run]
    progress: Progress
    children: list[subprocess.Popen[str]] = field(default_factory=list)
    failures: list[VergenceError] = field(default_factory=list)
    stopped: bool = False

    def work(self) -> None:
        while not self.stopped:
            try:
                run = self.waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self.carry(run)
            except Exception as error:  # a thread that dies in silence would leave its run undone
                self.fail(VergenceError(f"{run.folder} could not be run: {error}"))

    def fail(self, error: VergenceError) -> None:
        self.failures.append(error)
        self.stop()

    def carry(self, run: Run) -> None:
        threads = str(run.order.runtime.threads or os.cpu_count() or 1)
        child = subprocess.Popen(
            [sys.executable, "-m", "vergence", "train", "--resume", str(run.folder)],
            env=os.environ | {EVENTS_VARIABLE: "json", "OMP_NUM_THREADS": threads} | TIED,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C reaches the parent alone, which passes it on once
        )
        self.children.append(child)
        assert child.stderr is not None
        last = next(reversed(follow(child.stderr, self.progress)), "")
        if child.wait() and not self.stopped:
            error = VergenceError(
                f"{run.folder} failed: {last.removeprefix('vergence: ') or f'exit {child.returncode}'}"
            )
            error.exit_code = child.returncode if child.returncode > 0 else 1
            self.fail(error)

    def stop(self) -> None:
        """Ask every child to save and exit; a second call does nothing."""
        if not self.stopped:
            self.stopped = True
            for child in self.children:
                if child.poll() is None:
                    child.send_signal(signal.SIGTERM)
