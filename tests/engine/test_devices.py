"""Where a model is used: the number of threads, and what one process needs no Fabric for."""

import os
import subprocess
import sys

import pytest
import torch

from vergence.engine.devices import Alone, here, make_fabric
from vergence.runs.machine import Machine


@pytest.mark.parametrize(
    ("asked", "said", "used"), [(0, "3", 3), (2, "3", 2), (0, "3,1", 3), (0, "", 4), (0, "many", 4), (0, "0", 4)]
)
def test_threads_are_those_asked_for_then_the_environments_then_one_per_core(asked, said, used, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    before = torch.get_num_threads()
    try:
        make_fabric(Machine(device="cpu", threads=asked))
        assert torch.get_num_threads() == used
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("device", ["cpu", "auto"])
@pytest.mark.parametrize("precision", ["32-true", "64-true", "bf16-mixed"])
def test_one_process_alone_computes_as_with_fabric(device, precision):
    machine = Machine(device=device, precision=precision)
    alone, fabric = here(machine), make_fabric(machine)
    assert isinstance(alone, Alone)
    assert alone.device == fabric.device
    assert (alone.global_rank, alone.world_size) == (fabric.global_rank, fabric.world_size)
    assert alone.broadcast("a") == fabric.broadcast("a") == "a"
    kinds = []
    for place in (alone, fabric):
        with place.autocast():
            made = torch.ones(2, 2, device=place.device)
            kinds.append((made.dtype, (made @ made).dtype, torch.get_default_dtype()))
    assert kinds[0] == kinds[1]
    assert torch.get_default_dtype() == torch.float32


def test_using_a_model_imports_neither_fabric_nor_the_compiler():
    """Together they take as long as all the rest."""
    code = """if True:
        import sys, vergence
        from vergence import catalogue
        vergence.load("varctc").predict(**catalogue.example("varctc"))
        print([name for name in ("lightning_fabric", "torch._dynamo", "matplotlib") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
