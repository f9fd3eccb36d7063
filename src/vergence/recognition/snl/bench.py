"""Cost of the blocks, forward and backward: against direct transcriptions of their definitions, on pictures and clips,
and within a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.nn import BLOCKS, NonlocalBlock, ResNet3d
from vergence.reference.blocks import DENSE, stacked_powers, two_products

CHANNELS, INNER = 64, 32
WIDE = 4
"""Factor of both in the contests that are called wide."""
LABELS = {
    "nl": "NL",
    "nl-dot": "NL, dot product",
    "nl-concatenation": "NL, concatenation",
    "ns": "NS",
    "a2": "A2",
    "snl": "SNL",
    "gsnl": "gSNL",
    "chebysnl-4": "ChebySNL of order 4",
    "cayleysnl-relu": "CayleySNL, ReLU affinity",
    "cayleysnl": "CayleySNL, sigmoid affinity",
    "cayleyexact": "CayleyExact",
    "cgnl": "CGNL",
    "cc": "CC",
}
PICTURES = {
    64: ("nl", "snl"),
    576: ("cayleyexact",),
    1024: ("ns", "nl-dot", "nl-concatenation", "a2", "gsnl", "cc"),
    3136: ("nl",),
    4096: ("snl", "chebysnl-4", "cayleysnl-relu", "cayleysnl"),
}
"""By number of positions, the blocks that are run against their dense forms: few positions, where calls cost most, and
many. The dense form of CayleyExact inverts a matrix, which takes seconds with many more; the matrix of CGNL is
(N·m) x (N·m), and its rival is the public code instead."""
PRODUCTS, PUBLIC = "column and row products", "the public code"
FORMS = {"dense": DENSE, PRODUCTS: {"cc": two_products}, PUBLIC: {"cgnl": stacked_powers}}
"""The forms of rivals, by block."""

Work = Callable[[], Any]


def contests() -> Iterator[Contest]:
    """Blocks with 64 channels, 32 inner, on few positions and on many; then an I3D with one block."""
    for positions, blocks in PICTURES.items():
        for block in blocks:
            title = f"{LABELS[block]}, N = {positions}"
            yield _contest(f"{block}-{positions}", title, block, _square(positions), "dense")
    ours, dense = (_work("nl", (32, 32), form, WIDE) for form in ("ours", "dense"))
    yield Contest("nl-1024-wide", f"NL with {WIDE * CHANNELS} channels, N = 1024", ours, {"dense": dense})
    yield _contest("cc-9409", "CC, N = 97 x 97", "cc", (97, 97), PRODUCTS)
    yield _on_clip("cgnl", (8, 14, 14), PUBLIC)
    yield _on_clip("cgnl", (16, 28, 28), PUBLIC)
    fused = {"fused NL": _work("nl", (8, 20, 20), "ours")}
    yield replace(_on_clip("snl", (8, 20, 20)), rivals=fused)
    yield _in_a_network()


def _on_clip(block: str, grid: tuple[int, int, int], *rivals: str) -> Contest:
    size = " x ".join(map(str, grid))
    return _contest(f"{block}-clip-{size.replace(' ', '')}", f"{LABELS[block]}, clip of {size}", block, grid, *rivals)


def _contest(id: str, title: str, block: str, grid: tuple[int, ...], *rivals: str) -> Contest:
    return Contest(id, title, _work(block, grid, "ours"), {form: _work(block, grid, form) for form in rivals})


def _square(positions: int) -> tuple[int, int]:
    side = math.isqrt(positions)
    return positions // side, side


def work(block: str, positions: int, form: str) -> Work:
    """Forward and backward pass of a block on a picture, in the given form."""
    return _work(block, _square(positions), form)


def _work(block: str, grid: tuple[int, ...], form: str, factor: int = 1) -> Work:
    positions = math.prod(grid)
    source = generator("bench", positions)
    tokens = torch.randn(1, positions, factor * CHANNELS, generator=source).requires_grad_()
    torch.manual_seed(0)
    name, options = (block.removesuffix("-4"), {"order": 4}) if block.endswith("-4") else (block, {})
    module = BLOCKS[name](factor * CHANNELS, factor * INNER, **options)
    run: Callable[[], Tensor]
    run = partial(module.operate if form == "ours" else partial(FORMS[form][name], module), tokens, grid)
    return lambda: torch.autograd.backward(run().sum())


# A network ------------------------------------------------------------------------------------------------------------

CLIP = (1, 4, 3, 80, 80)
PLACE = "layer1.1"
"""Place of a block in an I3D, with 2 x 20 x 20 positions. At the published one, layer3.4, there are 5 x 5, and any
block adds next to nothing."""


class Seat(nn.Module):
    """A slot in a network for a block; it may be empty."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.taken: Callable[[Tensor], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        return x if self.taken is None else self.taken(x)


@cache
def _network() -> ResNet3d:
    """One I3D shared by all contestants, which differ only in the block."""
    torch.manual_seed(0)
    return ResNet3d(101, at=(PLACE,), insert=Seat)


def _in_a_network() -> Contest:
    """Forward and backward pass of an I3D on one clip."""
    return Contest(f"i3d-{PLACE}", f"I3D with SNL after {PLACE}", _step("snl"), {"no block": _step()})


def _step(block: str = "") -> Work:
    """Builds the network on the first run: it is large, and most processes that list contests run others."""
    built: list[NonlocalBlock] = []

    def run() -> None:
        network = _network()
        seat = network.inserted[PLACE]
        assert isinstance(seat, Seat)
        if block and not built:
            torch.manual_seed(0)
            built.append(BLOCKS[block](seat.channels))
        clip = torch.randn(CLIP, generator=generator("bench", "clip"))
        seat.taken = built[0] if block else None
        try:
            torch.autograd.backward(network(clip).sum())
        finally:
            seat.taken = None

    return run
