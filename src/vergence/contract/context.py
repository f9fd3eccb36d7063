"""The run context passed to every hook: config, device, randomness, progress and output folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vergence.contract.data import Data
from vergence.contract.identity import Identity
from vergence.contract.loader import InOrder
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import save_tensors
from vergence.core.progress import Progress
from vergence.reading.weights import load_tensors

C = TypeVar("C")
F = TypeVar("F")
G = TypeVar("G", Tensor, list[Any])
Stage = Literal["fit", "validate", "test", "predict"]


def _backward(loss: Tensor) -> None:
    loss.backward()


def _itself(value: Any) -> Any:
    return value


def _load(path: Path) -> tuple[nn.Module, Identity]:
    raise VergenceError(f"{path} cannot be loaded here: there is no engine behind this context")


@dataclass
class Context(Generic[C, F]):
    """Everything that a hook may use of the run it belongs to."""

    config: C
    folder: Path
    """The only folder to write files to."""
    facts: F = None  # type: ignore[assignment]  # known once the data has been read
    """Properties of the data that the model depends on. A phase that changes the model's shape replaces them in
    :meth:`System.start`."""
    stage: Stage = "fit"
    """Training, evaluation between epochs, the final test, or prediction on a user's files."""
    device: torch.device = torch.device("cpu")
    float_type: torch.dtype | None = None
    """The type that floats of a batch are converted to; None leaves them."""
    generator: torch.Generator = field(default_factory=torch.Generator)
    """On the device; seeded anew for every step, evaluation, rebuild and prediction."""
    progress: Progress = field(default_factory=Progress)
    cancelled: Callable[[], bool] = bool
    """Whether the work was asked to stop; a system checks it in its own long loops."""

    # While training
    phase: str = ""
    """Empty in the final test, and while the facts that decide the phases are computed."""
    epoch: int = 0
    step: int = 0
    """Step of the phase."""
    turn: str = ""
    """With several optimisers: the one whose losses are computed."""
    optimisers: dict[str, Optimizer] = field(default_factory=dict)
    """For manual updates; their learning rates follow the schedule."""
    backward: Callable[[Tensor], None] = _backward
    """Back-propagate a loss, for manual updates."""
    rebuilt: Mapping[str, Tensor] | None = None
    """The last state that :meth:`System.rebuild` returned in this phase."""
    scalars: dict[str, float] = field(default_factory=dict)

    # For pictures
    measured: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The metrics of each variant's run."""

    # Set by the engine
    rank: int = 0
    world: int = 1
    """The number of processes; ``rank`` is the index of this one."""
    workers: int = 0
    memory: int = 0
    """Bytes that a prediction may take; 0 for no limit."""
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Computes in the requested precision."""
    agree: Callable[[Any], Any] = _itself
    """Broadcasts the value of the first process to all."""
    load: Callable[[Path], tuple[nn.Module, Identity]] = _load
    """Loads the model of another weights file, on the device and in evaluation mode, with its identity."""

    def need(self, amount: float, work: str) -> None:
        """Refuse ``work`` that would take more than the memory of a prediction. Systems call it with an estimate before
        they begin, where inputs decide how much they need."""
        if self.memory and amount > self.memory:
            raise VergenceError(
                f"{work} needs about {amount / 1e9:,.1f} GB of memory, more than the {self.memory / 1e9:,.1f} GB for a "
                f"prediction (--limit {math.ceil(amount / 1e9):d} allows it)"
            )

    def log(self, **values: float | Tensor) -> None:
        """Record numbers beside the losses of this step."""
        self.scalars.update({k: v.detach().item() if isinstance(v, Tensor) else v for k, v in values.items()})

    def batches(self, data: Data, size: int, label: str = "") -> Iterator[Any]:
        """This process's share of the data in order, in batches on the device; all shares together are the data."""
        share = range(self.rank * len(data) // self.world, (self.rank + 1) * len(data) // self.world)
        loader = InOrder(data, share, size, self.workers)
        shown: Iterable[Any] = self.progress.track(loader, label) if label else loader
        for batch in shown:
            if self.cancelled():
                raise Cancelled("cancelled")
            yield self.to_device(batch)

    def gather(self, values: G) -> G:
        """The results of all processes from :meth:`batches`, in the order of the data: tensors are concatenated along
        the first dimension, lists joined."""
        if self.world == 1:
            return values
        parts: list[Any] = [None] * self.world
        if isinstance(values, Tensor):
            torch.distributed.all_gather_object(parts, values.cpu())
            return torch.cat(parts).to(values.device)
        torch.distributed.all_gather_object(parts, values)
        return [item for part in parts for item in part]

    def to_device(self, batch: Any) -> Any:
        """Move a batch (tensors in dicts, lists, tuples) to the device."""
        if isinstance(batch, Tensor):
            kind = self.float_type if batch.is_floating_point() else None
            return batch.to(self.device, kind or batch.dtype, non_blocking=True)
        if isinstance(batch, dict):
            return type(batch)((k, self.to_device(v)) for k, v in batch.items())
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*map(self.to_device, batch))
        if isinstance(batch, list | tuple):
            return type(batch)(map(self.to_device, batch))
        return batch

    def keep(self, name: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Compute tensors once and keep them in the run's folder: features, teacher maps, indices. All processes
        compute (they may share the work with :meth:`batches`), the first one writes."""
        path = self.folder / "prepared" / f"{name}.safetensors"
        if not self.agree(path.exists()):
            computed = compute()
            if self.rank == 0:
                save_tensors(path, computed)
            self.agree(None)  # wait until the first process has written it
        return load_tensors(path)[0]
