"""The machine a run is on: Lightning Fabric for devices, precision and processes, and the number of threads."""

from __future__ import annotations

import logging
import os
import warnings

import torch
from lightning_fabric import Fabric

from saccade.errors import SaccadeError
from saccade.run import Runtime


def make_fabric(runtime: Runtime) -> Fabric:
    """Fabric for what was asked, with the threads set."""
    torch.set_num_threads(runtime.threads or os.cpu_count() or 1)
    logging.getLogger("lightning.fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning_fabric")
    if runtime.device == "cpu" and runtime.precision == "16-mixed":
        raise SaccadeError("16-mixed needs an accelerator; on a CPU use bf16-mixed")
    if runtime.device == "cuda" and not torch.cuda.is_available():
        raise SaccadeError("no CUDA device here; use --device cpu, or install the CUDA build (make TORCH=cuda)")
    if runtime.device == "mps" and not torch.backends.mps.is_available():
        raise SaccadeError("no MPS device here; use --device cpu")
    return Fabric(accelerator=runtime.device, devices=1, precision=runtime.precision)
