"""Randomness without state: every draw is a function of the run's seed and of where in the run it happens.

No generator state is ever saved. A step, a sample or an evaluation seeds its own generator from ``(seed, place, ...)``,
so that resuming and the number of workers or processes cannot change what is drawn.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable

import numpy.random  # NumPy loads it on first use, which can deadlock on the import lock in a forked worker
import torch


def derive(*parts: int | str) -> int:
    """A seed from any names and numbers; different parts give unrelated seeds."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def derive_pairs(first: Iterable[int | str], pairs: Iterable[tuple[int, int]]) -> list[int]:
    """``derive(*first, a, b)`` for each pair (a, b), in half the time."""
    begin, blake = "".join([f"{part}\x1f" for part in first]), hashlib.blake2b
    digests = [blake(f"{begin}{a}\x1f{b}".encode(), digest_size=8).digest() for a, b in pairs]
    return [int.from_bytes(digest, "little") >> 1 for digest in digests]


def generator(*parts: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator seeded from ``parts``."""
    return torch.Generator(device).manual_seed(derive(*parts))


def seed_everything(device: torch.device, *parts: int | str) -> None:
    """Seed the global generators (Python, NumPy, PyTorch), on the CPU and on ``device``.

    Unlike ``torch.manual_seed`` it leaves out other kinds of devices, which would take longer than a small step.
    """
    seed = derive(*parts)
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
