"""Where and how exactly to compute: what the machine decides, and no part of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Machine:
    """Where to compute, and how exactly."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where tensors live; auto takes an accelerator if there is one."""
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Float type; the mixed ones compute under autocast."""
    threads: int = 0
    """CPU threads of one process (0: one a core)."""
    workers: int = 0
    """Processes that read data ahead; they change no result."""

    def __post_init__(self) -> None:
        for name, most in (("threads", 1024), ("workers", 1024)):
            if not 0 <= getattr(self, name) <= most:
                raise VergenceError(f"{name} is a number from 0 to {most}, got {getattr(self, name)}")


@dataclass(frozen=True)
class Runtime(Machine):
    """What the machine decides of a training; none of it belongs to the method."""

    threads: int = 1
    """CPU threads of one process (0: one a core). Small networks run faster with one; results repeat bit for bit
    only with the same number."""
    save_every: float = 60.0
    """Seconds between checkpoints."""
    devices: int = 1
    """Processes on this machine, each with its share of every batch (one a GPU; on a CPU they talk over gloo). Batch
    statistics and losses between the samples of a batch are per process."""
    nodes: int = 1
    """Machines; start the command on each of them with torchrun, as the documentation shows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.save_every >= 0:
            raise VergenceError(f"save_every is at least 0 seconds, got {self.save_every}")
        for name in ("devices", "nodes"):
            if not 1 <= getattr(self, name) <= 4096:
                raise VergenceError(f"{name} is a number from 1 to 4096, got {getattr(self, name)}")
