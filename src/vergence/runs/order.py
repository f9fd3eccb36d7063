"""Orders: what a run is started with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vergence import catalogue
from vergence.contract.config import digest, from_json, to_json
from vergence.reading.tables import read_json
from vergence.runs.machine import Runtime


@dataclass(frozen=True)
class Order:
    """System, variant, config and machine settings of a run."""

    system: str
    preset: str
    variant: str
    config: Any
    runtime: Runtime = field(default_factory=Runtime)
    init: str = ""
    """Weights to start from."""

    @property
    def key(self) -> str:
        """Equal for orders that give equal results (up to rounding): runs are shared by it."""
        settings = {"precision": self.runtime.precision, "init": self.init}
        # As it is read back: a float that code gives as 1 is 1.0 in the run's file.
        config = from_json(type(self.config), to_json(self.config), f"a config of {self.system}")
        return digest({"system": self.system, "config": to_json(config), **settings})

    @classmethod
    def read(cls, path: Path) -> Order:
        """Read from a run's ``config.json``."""
        stored = from_json(_Stored, read_json(path), str(path))
        config: Any = from_json(catalogue.settings(stored.system).config, stored.config, f"the config in {path}")
        return cls(stored.system, stored.preset, stored.variant, config, stored.runtime, stored.init)


@dataclass(frozen=True)
class _Stored:
    system: str
    preset: str
    variant: str
    config: dict[str, Any]
    runtime: Runtime = field(default_factory=Runtime)
    init: str = ""


def with_seed(config: Any, seed: int) -> Any:
    """The config with another seed."""
    return dataclasses.replace(config, seed=seed)
