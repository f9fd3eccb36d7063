"""Runs: one execution and its folder.

``runs/<system>/<time>-<variant>-s<seed>/`` holds ``config.json`` (what was asked for), ``environment.json``,
``facts.json``, ``metrics.jsonl``, ``checkpoints/``, ``best.safetensors``, ``last.safetensors``, ``pictures/``,
``result.json`` (once it has finished) and ``report.html``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from saccade import catalogue
from saccade.config import differences, digest, from_json, to_json
from saccade.errors import SaccadeError
from saccade.files import read_json, write_json, write_text
from saccade.versions import environment, fingerprint

ROOT = Path("runs")


@dataclass(frozen=True)
class Runtime:
    """What the machine decides; none of it belongs to the method."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where tensors live; auto takes an accelerator if there is one."""
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Float type; the mixed ones compute under autocast."""
    threads: int = 1
    """CPU threads of one process (0: one a core). Small networks run faster with one; results repeat bit for bit
    only with the same number."""
    workers: int = 0
    """Processes that read data ahead; they change no result."""
    save_every: float = 60.0
    """Seconds between checkpoints."""

    def __post_init__(self) -> None:
        for name in ("threads", "workers", "save_every"):
            if getattr(self, name) < 0:
                raise SaccadeError(f"{name} is at least 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class Order:
    """What a run is asked to do."""

    system: str
    preset: str
    variant: str
    config: Any
    runtime: Runtime = field(default_factory=Runtime)
    init: str = ""
    """Weights to start from."""

    @property
    def key(self) -> str:
        """Equal for orders that give equal results: runs are shared by it."""
        return digest({"system": self.system, "config": to_json(self.config), "init": self.init})

    @classmethod
    def read(cls, path: Path) -> Order:
        """From a run's ``config.json``."""
        stored = read_json(path)
        if not isinstance(stored, dict) or "system" not in stored or "config" not in stored:
            raise SaccadeError(f"{path} is not the config of a run: it names no system and config")
        config: Any = from_json(catalogue.load(stored["system"]).config_type, stored["config"])
        plain = from_json(_Stored, {k: v for k, v in stored.items() if k not in ("config", "saccade")}, str(path))
        return cls(plain.system, plain.preset, plain.variant, config, plain.runtime, plain.init)


@dataclass(frozen=True)
class _Stored:
    system: str
    preset: str
    variant: str
    runtime: Runtime = field(default_factory=Runtime)
    init: str = ""


@dataclass(frozen=True)
class Run:
    """A run's folder."""

    folder: Path

    @classmethod
    def create(cls, order: Order, root: Path = ROOT) -> Run:
        """A new folder with what was asked for in it."""
        stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
        name = f"{stamp}-{order.variant}-s{order.config.seed}"
        for suffix in ["", *(f".{n}" for n in range(2, 1000))]:
            folder = root / order.system / (name + suffix)
            try:
                folder.mkdir(parents=True)
                break
            except FileExistsError:
                continue
            except OSError as error:
                raise SaccadeError(f"cannot make the run folder {folder}: {error.strerror}") from error
        write_json(folder / "environment.json", environment(order.system) | {"command": sys.argv})
        # config.json comes last: a folder without it is not a run yet.
        write_json(folder / "config.json", to_json(order))
        return cls(folder)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """An existing run."""
        if not (folder / "config.json").is_file():
            raise SaccadeError(f"{folder} is not a run: it has no config.json")
        return cls(folder)

    @property
    def order(self) -> Order:
        return Order.read(self.folder / "config.json")

    @property
    def result(self) -> dict[str, Any] | None:
        """Metrics and cost, once the run has finished."""
        path = self.folder / "result.json"
        if not path.exists():
            return None
        found = read_json(path)
        if not isinstance(found, dict) or not isinstance(found.get("metrics"), dict):
            raise SaccadeError(f"{path} is not a run's result: it holds no metrics")
        return found

    @property
    def weights(self) -> Path | None:
        """The weights it ended with, if it got so far."""
        path = self.folder / "last.safetensors"
        return path if path.exists() else None

    def environment(self) -> dict[str, Any]:
        found = read_json(self.folder / "environment.json")
        return found if isinstance(found, dict) else {}

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of ``metrics.jsonl``."""
        path = self.folder / "metrics.jsonl"
        found = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
            try:
                record = json.loads(line)
            except ValueError:
                raise SaccadeError(f"{path} is damaged: line {number} is not JSON") from None
            if not isinstance(record, dict):
                raise SaccadeError(f"{path} is damaged: line {number} is not an object")
            found.append(record)
        return found

    def record(self, values: Mapping[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``."""
        try:
            with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(values) + "\n")
        except OSError as error:
            raise SaccadeError(f"cannot write {self.folder / 'metrics.jsonl'}: {error.strerror}") from error

    def rewind(self, records: int) -> None:
        """Keep only so many lines of ``metrics.jsonl``: the run goes on from there."""
        path = self.folder / "metrics.jsonl"
        if path.exists():
            kept = path.read_text(encoding="utf-8").splitlines(keepends=True)[:records]
            write_text(path, "".join(kept))


def runs(system: str, root: Path = ROOT) -> Iterator[Run]:
    """A system's runs, newest first."""
    for path in sorted((root / system).glob("*/config.json"), reverse=True):
        yield Run(path.parent)


def find(order: Order, root: Path = ROOT) -> Run | None:
    """A run of the same order by the same version of the system's code, finished or not; finished ones first."""
    own = fingerprint(order.system)
    unfinished = None
    for run in runs(order.system, root):
        try:
            same = run.order.key == order.key and run.environment().get("code") == own
            if same and run.result is not None:
                return run
        except SaccadeError:
            continue  # a damaged or older folder is not a match
        unfinished = unfinished or (run if same else None)
    return unfinished


def same_or_refuse(run: Run, order: Order) -> None:
    """Refuse to go on with a run under another config."""
    changed = differences(run.order.config, order.config)
    if changed:
        name, (was, new) = next(iter(changed.items()))
        raise SaccadeError(
            f"{run.folder} was started with {name}={was!r}, not {new!r}; start a new run (--init keeps its weights)"
        )


def with_seed(config: Any, seed: int) -> Any:
    """The config under another seed."""
    return dataclasses.replace(config, seed=seed)
