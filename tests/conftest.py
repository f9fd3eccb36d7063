"""What every test stands on: one thread, and a place of its own to write to."""

from __future__ import annotations

import gc
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from vergence.data import rendered

rendered.WORTH = 0.1  # seconds: the same small data is asked for again and again

pytest_plugins = ["durations", "scheduling"]

settings.register_profile("steady", derandomize=True)  # the same examples every time: CI says what the code is like
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_collection_finish():
    """Ten thousand tests stay to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
