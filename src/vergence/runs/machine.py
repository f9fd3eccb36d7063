"""Machine settings: device, precision, threads and processes. They are no part of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vergence.core.errors import VergenceError


@dataclass(frozen=True)
class Machine:
    """Device, precision, threads and data workers."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Device to compute on; auto takes an accelerator if there is one."""
    precision: Literal["32-true", "64-true", "bf16-mixed", "16-mixed"] = "32-true"
    """Float type; the mixed ones compute under autocast."""
    threads: int = 0
    """CPU threads of one process (0: as OMP_NUM_THREADS says, else one per core)."""
    workers: int = 0
    """Processes that load data ahead; they do not change results."""
    limit: float = 0.0
    """Memory that one prediction may take, in GB (0: three quarters of the machine's)."""

    def __post_init__(self) -> None:
        if not self.limit >= 0:
            raise VergenceError(f"limit is at least 0 GB, got {self.limit}")
        for name, most in (("threads", 1024), ("workers", 1024)):
            if not 0 <= getattr(self, name) <= most:
                raise VergenceError(f"{name} is a number from 0 to {most}, got {getattr(self, name)}")


@dataclass(frozen=True)
class Runtime(Machine):
    """Machine settings of a training; none of them is part of the method."""

    threads: int = 1
    """CPU threads of one process (0: as OMP_NUM_THREADS says, else one per core). Small networks run faster with one;
    results repeat bit for bit only with the same number."""
    save_every: float = 60.0
    """Seconds between checkpoints."""
    devices: int = 1
    """Processes on this machine, each with its share of every batch (one per GPU; on a CPU they use gloo). Batch
    statistics and losses between the samples of a batch are computed per process."""
    nodes: int = 1
    """Machines; start the command on each of them with torchrun, as the documentation shows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.save_every >= 0:
            raise VergenceError(f"save_every is at least 0 seconds, got {self.save_every}")
        for name in ("devices", "nodes"):
            if not 1 <= getattr(self, name) <= 4096:
                raise VergenceError(f"{name} is a number from 1 to 4096, got {getattr(self, name)}")
