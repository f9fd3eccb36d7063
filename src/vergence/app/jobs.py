"""Background jobs, each in its own process, with progress and cancellation.

A limited number run at once; the others wait. Every job is stopped at its time limit.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vergence.app.limits import Limits
from vergence.contract.config import from_json, to_json
from vergence.contract.inputs import Artifact
from vergence.core.errors import VergenceError
from vergence.core.files import write_json
from vergence.core.progress import EVENTS_VARIABLE, Note, Progress, clock, follow
from vergence.reading.tables import read_json

State = Literal["waiting", "running", "done", "failed", "stopped"]
GRACE = 10.0
"""Seconds between asking a job to stop and killing it."""
ORDER, MADE, INPUTS, OUTPUTS = "order.json", "made.json", "in", "out"


@dataclass
class Piece:
    """One progress bar of a job."""

    label: str
    total: int | None
    done: int = 0
    note: str = ""


class Watched(Progress):
    """Keeps the progress of a job for display."""

    def __init__(self) -> None:
        self.pieces: dict[int, Piece] = {}
        self.said: list[str] = []
        self._last = 0

    def start(self, label: str, total: int | None) -> int:
        self._last += 1
        self.pieces[self._last] = Piece(label, total)
        return self._last

    def update(self, task: int, done: int, note: Note = "", total: int | None = None) -> None:
        piece = self.pieces[task]
        piece.done, piece.total = done, total or piece.total
        piece.note = note if isinstance(note, str) else note()

    def finish(self, task: int) -> None:
        self.pieces.pop(task, None)

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass(eq=False)
class Job:
    """A prediction or training in a separate process."""

    system: str
    what: Literal["prediction", "training"]
    command: Sequence[str]
    seconds: float
    """Time limit."""
    folder: Path | None = None
    """The job's folder, removed with it."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Random secret that gives access to the job and its results."""
    progress: Watched = field(default_factory=Watched)
    state: State = "waiting"
    error: str = ""
    made: list[Artifact] = field(default_factory=list)
    followers: int = 1
    began: float = 0.0
    ended: float = 0.0
    process: subprocess.Popen[str] | None = None

    @property
    def over(self) -> bool:
        return self.state in ("done", "failed", "stopped")

    @property
    def took(self) -> float:
        return (self.ended or time.monotonic()) - self.began if self.began else 0.0


class Jobs:
    """Runs jobs, ``limits.jobs`` at a time."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.known: dict[str, Job] = {}
        self.line: list[Job] = []
        self.running: list[Job] = []
        self.lock = threading.RLock()
        self.closed = False

    # Orders -------------------------------------------------------------------------------------------------------

    def new_folder(self) -> Path:
        """A folder for a job's inputs and results."""
        path = self.folder / secrets.token_hex(8)
        (path / INPUTS).mkdir(parents=True)
        return path

    def predict(self, system: str, inputs: Any, weights: Path | None, folder: Path) -> Job:
        """Submit a prediction on files in the job's folder."""
        order = {"system": system, "weights": str(weights.resolve()) if weights else "", "inputs": to_json(inputs)}
        write_json(folder / ORDER, order)
        command = [sys.executable, "-m", "vergence.app.work", str(folder)]
        return self.submit(Job(system, "prediction", command, self.limits.job_seconds, folder))

    def train(self, system: str, runs: Path) -> Job:
        """Submit a training of ``tiny``; if one is running already, return that one."""
        with self.lock:
            for job in [*self.running, *self.line]:
                if job.what == "training" and job.system == system:
                    job.followers += 1
                    return job
            command = [sys.executable, "-m", "vergence", "train", system, "--runs", str(runs.resolve())]
            return self.submit(Job(system, "training", command, self.limits.train_minutes * 60))

    def submit(self, job: Job) -> Job:
        """Add a job to the queue."""
        with self.lock:
            if self.closed:
                raise VergenceError("the gallery is closing")
            if len(self.running) >= self.limits.jobs and len(self.line) >= self.limits.waiting:
                self._remove(job)
                raise VergenceError(f"{len(self.line)} jobs are waiting already: please try again in a few minutes")
            self.known[job.token] = job
            self.line.append(job)
            self._fill()
        return job

    def find(self, token: str) -> Job | None:
        return self.known.get(token)

    def ahead(self, job: Job) -> int:
        """Number of jobs before a waiting one."""
        with self.lock:
            return self.line.index(job) if job in self.line else 0

    def cancel(self, job: Job) -> None:
        """Remove one follower; the job stops when none are left."""
        with self.lock:
            job.followers -= 1
            if job.followers <= 0 and not job.over:
                self._stop(job, "stopped", "")

    # Work ---------------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        while self.line and len(self.running) < self.limits.jobs:
            job = self.line.pop(0)
            self.running.append(job)
            job.state, job.began = "running", time.monotonic()
            threading.Thread(target=self._carry, args=(job,), daemon=True).start()

    def _carry(self, job: Job) -> None:
        deadline = threading.Timer(job.seconds, self._too_long, [job])
        deadline.daemon = True
        try:
            with self.lock:
                if not job.over:
                    job.process = _start(job, max((os.cpu_count() or 1) // self.limits.jobs, 1))
                    deadline.start()
            if job.process is not None:
                assert job.process.stderr is not None
                lines = follow(job.process.stderr, job.progress)
                self._judge(job, job.process.wait(), lines)
        except Exception as error:  # if the thread died silently, the visitor would wait forever
            print(f"vergence gallery: {job.what} of {job.system}: {error!r}", file=sys.stderr)
            self._end(job, "failed", f"the {job.what} could not be run")
        finally:
            deadline.cancel()
            with self.lock:
                self.running.remove(job)
                self._end(job, "failed", f"the {job.what} ended without a result")
                self._fill()

    def _judge(self, job: Job, code: int, lines: list[str]) -> None:
        if code == 0:
            job.made = _made(job)
            return self._end(job, "done")
        last = next((line for line in reversed(lines) if line.startswith("vergence: ")), "")
        if code != VergenceError.exit_code and not job.over:
            print(*lines, sep="\n", file=sys.stderr)  # details for the operator; visitors get one sentence
        message = last.removeprefix("vergence: ")
        if job.folder is not None:
            message = re.sub(rf"{re.escape(str(job.folder))}(/\w+)*/", "", message)
        self._end(job, "failed", message or f"the {job.what} failed; see the terminal that runs the gallery")

    def _end(self, job: Job, state: State, error: str = "") -> None:
        with self.lock:
            if not job.over:
                job.state, job.error, job.ended = state, error, time.monotonic()
                if job in self.line:
                    self.line.remove(job)
            if job.folder is not None:  # uploads are no longer needed
                shutil.rmtree(job.folder / INPUTS, ignore_errors=True)

    def _too_long(self, job: Job) -> None:
        self._stop(job, "failed", f"stopped: it took longer than the {clock(job.seconds)} that a job may take")

    def _stop(self, job: Job, state: State, error: str) -> None:
        with self.lock:
            self._end(job, state, error)
            process = job.process
        if process is not None and process.poll() is None:
            _signal(process, signal.SIGTERM)
            last = threading.Timer(GRACE, _signal, [process, signal.SIGKILL])
            last.daemon = True
            last.start()

    # Leaving ------------------------------------------------------------------------------------------------------

    def forget(self, minutes: float) -> None:
        """Remove jobs that ended more than ``minutes`` ago, with their results."""
        with self.lock:
            for job in list(self.known.values()):
                if job.over and time.monotonic() - job.ended > minutes * 60:
                    del self.known[job.token]
                    self._remove(job)

    def close(self) -> None:
        """Stop all jobs and remove their files."""
        with self.lock:
            self.closed = True
            going = [job for job in self.known.values() if not job.over]
        for job in going:
            self._stop(job, "stopped", "the gallery was closed")
        for job in going:
            if job.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    job.process.wait(GRACE)
                _signal(job.process, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove(self, job: Job) -> None:
        if job.folder is not None:
            shutil.rmtree(job.folder, ignore_errors=True)


def _start(job: Job, threads: int) -> subprocess.Popen[str]:
    environment = os.environ | {EVENTS_VARIABLE: "json", "OMP_NUM_THREADS": str(threads)}
    for display in ("DISPLAY", "WAYLAND_DISPLAY"):  # no window opens on the server
        environment.pop(display, None)
    return subprocess.Popen(
        list(job.command),
        cwd=job.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # so that all its processes can be ended together
    )


def _signal(process: subprocess.Popen[str], number: int) -> None:
    """Signal a job and all its child processes."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, number)


def _made(job: Job) -> list[Artifact]:
    if job.folder is None:
        return []
    found = from_json(list[Artifact], read_json(job.folder / MADE), "what the job made")
    out = (job.folder / OUTPUTS).resolve()
    return [a for a in found if a.path.resolve().is_relative_to(out)]
