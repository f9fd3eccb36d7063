"""The machine a run is on: Lightning Fabric for devices, precision and processes, and the number of threads.

Using a model in one process needs little of Fabric, and importing it takes as long as importing PyTorch: :class:`Alone`
is that little.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.engine.distribute import under_torchrun
from vergence.runs.machine import Machine

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Alone:
    """The one process that uses a model: as Fabric, but for training."""

    device: torch.device
    precision: str
    global_rank = 0
    world_size = 1

    def autocast(self) -> AbstractContextManager[Any]:
        """The float type of what is computed within."""
        kind = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(self.precision)
        if kind is not None:
            return torch.autocast(self.device.type, kind)
        return _default(torch.float64) if self.precision == "64-true" else nullcontext()

    def broadcast(self, value: Any) -> Any:
        """What the first process says."""
        return value


def here(machine: Machine) -> Fabric | Alone:
    """Where a model is used: Fabric under torchrun, else :class:`Alone`, with the number of threads set."""
    if under_torchrun():
        return make_fabric(machine)
    _prepare(machine)
    name = machine.device
    if name == "auto":
        name = "mps" if torch.backends.mps.is_available() else "cuda" if torch.cuda.is_available() else "cpu"
    return Alone(torch.device(name) if name == "cpu" else torch.device(name, 0), machine.precision)


def make_fabric(machine: Machine) -> Fabric:
    """Fabric for a machine, with the number of threads set. Under torchrun it joins the other processes."""
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.ddp import DDPStrategy

    _prepare(machine)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning_fabric")
    if not under_torchrun():
        return Fabric(accelerator=machine.device, devices=1, precision=machine.precision)
    here = int(os.environ["LOCAL_WORLD_SIZE"])
    fabric = Fabric(
        accelerator=machine.device,
        devices=here,
        num_nodes=int(os.environ["WORLD_SIZE"]) // here,
        precision=machine.precision,
        # Adversarial training uses other parameters in each turn, and a growing model has unused heads.
        strategy=DDPStrategy(find_unused_parameters=True),
    )
    fabric.launch()
    return fabric


def _prepare(machine: Machine) -> None:
    _refuse_what_is_not_here(machine)
    torch.set_num_threads(machine.threads or _threads_here())


@contextmanager
def _default(kind: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(kind)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _threads_here() -> int:
    """What OMP_NUM_THREADS says (of several numbers, the first), else one per core."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else os.cpu_count() or 1


@contextmanager
def joined(machine: Machine) -> Iterator[Fabric]:
    """Fabric for a command; all processes wait for each other at its end."""
    fabric = make_fabric(machine)
    try:
        yield fabric
        fabric.barrier()
    finally:
        if under_torchrun() and dist.is_initialized():
            dist.destroy_process_group()


def over_processes(fabric: Fabric, values: Tensor, how: Literal["mean", "max"]) -> Tensor:
    """The mean or maximum of ``values`` over all processes."""
    return cast(Tensor, fabric.all_reduce(values, reduce_op=how))


def float_type(machine: Machine) -> torch.dtype | None:
    """The type that batches and weights are converted to; None leaves them in float32."""
    return torch.float64 if machine.precision == "64-true" else None


def _refuse_what_is_not_here(machine: Machine) -> None:
    if machine.precision == "16-mixed" and machine.device == "cpu":
        raise VergenceError("16-mixed needs an accelerator; on a CPU use bf16-mixed")
    if machine.precision == "16-mixed" and machine.device == "auto" and not torch.cuda.is_available():
        raise VergenceError("16-mixed needs an accelerator, and there is none here; use bf16-mixed")
    if machine.device == "cuda" and not torch.cuda.is_available():
        raise VergenceError("no CUDA device here; use --device cpu, or install the CUDA build (make TORCH=cuda)")
    if machine.device == "mps" and not torch.backends.mps.is_available():
        raise VergenceError("no MPS device here; use --device cpu")
    if machine.device == "mps" and machine.precision == "64-true":
        raise VergenceError("MPS has no float64; use --precision 32-true")
