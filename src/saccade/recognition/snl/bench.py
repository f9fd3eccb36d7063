"""The blocks against direct transcriptions of their definitions, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from saccade.benchmark import Contest
from saccade.nn import BLOCKS
from saccade.reference.blocks import DENSE, two_products
from saccade.seeding import generator

CHANNELS, INNER = 64, 32
LABELS = {
    "nl": "NL",
    "nl-dot": "NL, dot product",
    "nl-concatenation": "NL, concatenation",
    "ns": "NS",
    "a2": "A2",
    "snl": "SNL",
    "gsnl": "gSNL",
    "chebysnl": "ChebySNL",
    "cayleysnl-relu": "CayleySNL, ReLU affinity",
    "cayleysnl": "CayleySNL, sigmoid affinity",
    "cayleyexact": "CayleyExact",
    "cgnl": "CGNL",
    "cc": "CC",
}
MOST = {"cayleyexact": 1024, "cgnl": 64}
"""Up to how many positions the dense form is run: it inverts a matrix, or has one of (N·m) x (N·m)."""


def contests() -> Iterator[Contest]:
    """Each with 32 inner channels on 64, on few positions and on many; criss-cross on a map of 97 x 97."""
    for positions in (64, 1024, 4096):
        for block in LABELS:
            if positions <= MOST.get(block, 4096):
                yield contest(block, positions)
    yield contest("cc", 97 * 97)


def contest(block: str, positions: int) -> Contest:
    """A block against its dense form."""
    rivals = ["dense", "column and row products"] if block == "cc" else ["dense"]
    made = {form: work(block, positions, form) for form in ("ours", *rivals)}
    return Contest(f"{LABELS[block]}, N = {positions}", made.pop("ours"), made)


def work(block: str, positions: int, form: str) -> Callable[[], Any]:
    """One call of a block in a form, forward and backward."""
    made, tokens, shape = ready(block, positions)
    run: Callable[[], Tensor]
    if form == "ours":
        run = partial(made.operate, tokens, shape)
    else:
        run = partial(DENSE[block] if form == "dense" else two_products, made, tokens, shape)
    return lambda: torch.autograd.backward(run().sum())


def ready(block: str, positions: int) -> tuple[Any, Tensor, tuple[int, int]]:
    """A block, tokens, and the grid they are on."""
    side = math.isqrt(positions)
    tokens = torch.randn(1, positions, CHANNELS, generator=generator("bench", positions)).requires_grad_()
    torch.manual_seed(0)
    return BLOCKS[block](CHANNELS, INNER), tokens, (positions // side, side)
