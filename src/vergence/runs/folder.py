"""Runs: one execution and its folder.

``runs/<system>/<time>-<variant>-s<seed>/`` holds ``config.json`` (what was asked for), ``environment.json``,
``facts.json``, ``metrics.jsonl``, ``checkpoints/``, ``best.safetensors``, ``last.safetensors``, ``pictures/``,
``result.json`` (once it has finished) and ``report.html``.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from vergence.contract.config import differences, from_json, to_json
from vergence.contract.data import EMBEDDED, source_of
from vergence.core.errors import VergenceError
from vergence.core.files import finite, lock, open_plain, refuse_link, remove_partials, replacing, write_json
from vergence.reading.files import read_bytes
from vergence.reading.tables import parse_json, read_json
from vergence.runs.order import Order
from vergence.runs.versions import Environment, environment, fingerprint, shared_fingerprint

ROOT = Path("runs")
WRITTEN = ("checkpoints", "tensorboard", "prepared")
"""Folders of a run that its training writes to."""


@dataclass(frozen=True)
class Result:
    """Metrics and cost of a finished run."""

    metrics: dict[str, float | None]
    """On the test data; None where a value is not finite."""
    steps: int = 0
    seconds: float = 0.0
    """Computing time, including that before the run was last resumed."""
    seconds_a_step: float | None = None
    samples_a_second: float | None = None
    """Throughput of the evaluation on the test data."""
    peak_memory: int | None = None
    """In bytes."""
    threads: int | None = None
    split: str = "test"
    """The split that the metrics were measured on: ``val`` where a data set has no ``test``."""


@dataclass(frozen=True)
class Run:
    """A run, by its folder."""

    folder: Path

    @classmethod
    def create(cls, order: Order, root: Path = ROOT, command: Sequence[str] = ()) -> Run:
        """Make a new run folder that holds the order."""
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        variant = re.sub(r"[^\w.-]", "_", order.variant)  # it may come from a file: keep path separators out
        name = f"{stamp}-{variant}-s{order.config.seed}"
        for suffix in ["", *(f".{n}" for n in range(2, 1000))]:
            folder = root / order.system / (name + suffix)
            try:
                folder.mkdir(parents=True)
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise VergenceError(f"cannot make the run folder {folder}: {error.strerror}") from error
        write_json(folder / "environment.json", environment(order.system) | {"command": list(command or sys.argv)})
        # config.json comes last: a folder without it is not a run yet.
        write_json(folder / "config.json", to_json(order))
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Open an existing run."""
        if not (folder / "config.json").is_file():
            raise VergenceError(f"{folder} is not a run: it has no config.json")
        return cls(folder)

    @cached_property
    def order(self) -> Order:
        """The order of the run; it never changes."""
        return Order.read(self.folder / "config.json")

    @property
    def result(self) -> Result | None:
        """Metrics and cost once the run has finished, else None: another process may still write it."""
        if "_result" not in self.__dict__:
            path = self.folder / "result.json"
            if not path.exists():
                return None
            self.__dict__["_result"] = from_json(Result, read_json(path), str(path))
        result: Result = self.__dict__["_result"]
        return result

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics on the test data; empty until the run has finished."""
        result = self.result
        return {} if result is None else {k: math.nan if v is None else v for k, v in result.metrics.items()}

    @property
    def measured_on(self) -> str:
        """The data that the metrics were measured on, in words."""
        source, result = source_of(self.order.config), self.result
        if source in (None, EMBEDDED):
            return "test data"
        return f"{result.split if result else 'test'} split of {source}"

    @property
    def weights(self) -> Path | None:
        """The latest weights, if any were saved."""
        path = self.folder / "last.safetensors"
        return path if _is_file(path) else None

    def environment(self) -> Environment:
        path = self.folder / "environment.json"
        return Environment.read(read_json(path), str(path))

    def records(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``. Of an unfinished run, half a last line is left out: a process was killed, or
        is writing it."""
        path = self.folder / "metrics.jsonl"
        lines, torn = _lines(path)
        if torn and (self.folder / "result.json").exists():
            lines.append(torn)
        return [_record(line, f"line {number} of {path}") for number, line in enumerate(lines, 1)]

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Lock the run for this process, which may then write to it; another one waits, and says so."""
        with lock(self.folder / ".lock", f"{self.folder} is in use by another process; waiting for it", say):
            for name in WRITTEN:
                refuse_link(self.folder / name, "a folder")
            for folder in (self.folder, *(self.folder / name for name in WRITTEN)):
                remove_partials(folder)
            yield

    def record(self, values: Mapping[str, Any]) -> None:
        """Append a line to ``metrics.jsonl``."""
        path = self.folder / "metrics.jsonl"
        if _is_torn(path):
            self.rewind()
        try:
            with open_plain(path, "a+b") as file:
                file.write(json.dumps(finite(values)).encode() + b"\n")
        except OSError as error:
            raise VergenceError(f"cannot write {path}: {error.strerror}") from error

    def rewind(self, records: int | None = None) -> int:
        """Keep the first ``records`` lines of ``metrics.jsonl``, from where the run resumes, and return how many it
        has. Half a last line is never kept: the next record would be glued to it."""
        path = self.folder / "metrics.jsonl"
        refuse_link(path, "a regular file")
        kept = _lines(path)[0][:records]
        if path.exists():
            with replacing(path) as partial:
                partial.write_bytes(b"".join(line + b"\n" for line in kept))
        return len(kept)


def _lines(path: Path) -> tuple[list[bytes], bytes]:
    """The whole lines of a file of records, and half a last line if a process was killed while it wrote. A last record
    that lacks no more than the end of its line is whole."""
    *lines, last = read_bytes(path, "a file of records", "text_bytes").split(b"\n") if path.exists() else [b""]
    with suppress(VergenceError):
        if last and isinstance(parse_json(last, path), dict):
            return [*lines, last], b""
    return lines, last


def _is_torn(path: Path) -> bool:
    """Whether a file ends within a line."""
    if not path.exists():
        return False
    with open_plain(path, "a+b") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        return file.read(1) not in (b"", b"\n")


@dataclass(frozen=True)
class _Line:
    total: int
    phase: str = ""
    epoch: int = 0
    split: str = ""
    losses: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)


def _record(line: bytes, at: str) -> dict[str, Any]:
    record = parse_json(line, at)
    from_json(_Line, record, at)
    return dict(record)


def runs(system: str, root: Path = ROOT) -> Iterator[Run]:
    """A system's runs, newest first. Whatever else is in their folder is ignored."""
    for path in sorted((root / system).glob("*/config.json"), reverse=True):
        if _is_file(path):
            yield Run(path.parent)


def _is_file(path: Path) -> bool:
    """Whether it is a file, or a link to one; what cannot be looked at is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def index(system: str, root: Path = ROOT, same_code: bool = False) -> dict[str, Run]:
    """A system's runs by the key of their order, made with the current version of its code (with ``same_code``, also
    of the code it depends on). Of equal orders it has the newest finished run, else the newest unfinished one."""
    code, shared = fingerprint(system), shared_fingerprint(system)
    finished: dict[str, Run] = {}
    unfinished: dict[str, Run] = {}
    for run in runs(system, root):
        try:
            used = run.environment()
            if used.code == code and (not same_code or used.shared == shared):
                (unfinished if run.result is None else finished).setdefault(run.order.key, run)
        except VergenceError:
            continue  # a damaged or older folder is not a match
    return unfinished | finished


def find(order: Order, root: Path = ROOT, same_code: bool = False) -> Run | None:
    """A run of the same order, finished or not."""
    return index(order.system, root, same_code).get(order.key)


def same_or_refuse(run: Run, order: Order) -> None:
    """Refuse to resume a run with another config, precision or initial weights."""
    old = run.order
    changed = differences(old.config, order.config) | differences(
        {"precision": old.runtime.precision, "init": old.init},
        {"precision": order.runtime.precision, "init": order.init},
    )
    if changed:
        name, (was, new) = next(iter(changed.items()))
        raise VergenceError(
            f"{run.folder} was started with {name}={was!r}, not {new!r}; start a new run (--init keeps its weights)"
        )
