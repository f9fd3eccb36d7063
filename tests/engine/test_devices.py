"""The number of threads: as asked, as the environment says, or one per core."""

import os

import pytest
import torch

from vergence.engine.devices import make_fabric
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
