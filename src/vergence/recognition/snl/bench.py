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
PICTURES = {
    64: ("nl", "snl", "cgnl", "cc"),
    1024: tuple(block for block in LABELS if block != "cgnl"),
    4096: ("nl", "nl-dot", "nl-concatenation", "a2", "snl"),
}
"""By number of positions, the blocks that are run. With many positions, dense forms that multiply or invert N x N
matrices take seconds, and CGNL's matrix is (N·m) x (N·m)."""
PRODUCTS, PUBLIC = "column and row products", "the public code"
FORMS = {PRODUCTS: two_products, PUBLIC: stacked_powers}

Work = Callable[[], Any]


def contests() -> Iterator[Contest]:
    """Blocks with 64 channels, 32 inner, on few positions and on many; then an I3D with one block."""
    for positions, blocks in PICTURES.items():
        for block in blocks:
            usual = [PRODUCTS] if block == "cc" else []
            yield _on_pictures(block, _square(positions), "dense", *usual)
    yield _on_pictures("cc", (97, 97), PRODUCTS)
    yield from _on_clips()
    yield from _in_a_network()


def _on_pictures(block: str, grid: tuple[int, ...], *rivals: str) -> Contest:
    positions = math.prod(grid)
    return _contest(f"{block}-{positions}", f"{LABELS[block]}, N = {positions}", block, grid, *rivals)


def _contest(id: str, title: str, block: str, grid: tuple[int, ...], *rivals: str) -> Contest:
    return Contest(id, title, _work(block, grid, "ours"), {form: _work(block, grid, form) for form in rivals})


def _square(positions: int) -> tuple[int, int]:
    side = math.isqrt(positions)
    return positions // side, side


def work(block: str, positions: int, form: str) -> Work:
    """Forward and backward pass of a block on a picture, in the given form."""
    return _work(block, _square(positions), form)


def _work(block: str, grid: tuple[int, ...], form: str) -> Work:
    positions = math.prod(grid)
    tokens = torch.randn(1, positions, CHANNELS, generator=generator("bench", positions)).requires_grad_()
    torch.manual_seed(0)
    module = BLOCKS[block](CHANNELS, INNER)
    run: Callable[[], Tensor]
    if form == "ours":
        run = partial(module.operate, tokens, grid)
    else:
        run = partial(DENSE[block] if form == "dense" else FORMS[form], module, tokens, grid)
    return lambda: torch.autograd.backward(run().sum())


# Clips ----------------------------------------------------------------------------------------------------------------


def _on_clips() -> Iterator[Contest]:
    """Maps of 8 frames, and maps with so many positions that a dense form would need gigabytes."""
    small, long = (8, 14, 14), (16, 28, 28)
    yield _on_clip("nl", small, "dense")
    yield _on_clip("snl", small, "dense")
    yield _on_clip("cgnl", small, PUBLIC)
    yield _on_clip("nl", (8, 28, 28), "dense")
    yield replace(_on_clip("snl", long), rivals={"fused NL": _work("nl", long, "ours")})
    yield _on_clip("cgnl", long, PUBLIC)


def _on_clip(block: str, grid: tuple[int, ...], *rivals: str) -> Contest:
    frames, height, width = grid
    title = f"{LABELS[block]}, clip of {frames} x {height} x {width}"
    return _contest(f"{block}-clip-{frames}x{height}x{width}", title, block, grid, *rivals)


# A network ------------------------------------------------------------------------------------------------------------

CLIP = (1, 8, 3, 112, 112)
PLACES = ("layer3.4", "layer1.1")
"""Places of a block in an I3D: the published one, with 7 x 7 positions, and one with 4 x 28 x 28."""


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
    return ResNet3d(101, at=PLACES, insert=Seat)


def _in_a_network() -> Iterator[Contest]:
    """Forward and backward pass of an I3D on one clip."""
    for place in PLACES:
        rivals = {"no block": _step(place), "dense NL": _step(place, "nl", "dense")}
        yield Contest(f"i3d-{place}", f"I3D with SNL after {place}", _step(place, "snl"), rivals)


def _step(place: str, block: str = "", form: str = "ours") -> Work:
    """Builds the network on the first run: it is large, and most processes that list contests run others."""
    built: list[NonlocalBlock] = []

    def run() -> None:
        network = _network()
        seat = network.inserted[place]
        assert isinstance(seat, Seat)
        if block and not built:
            built.append(_block(block, seat.channels, form))
        clip = torch.randn(CLIP, generator=generator("bench", "clip"))
        seat.taken = built[0] if block else None
        try:
            torch.autograd.backward(network(clip).sum())
        finally:
            seat.taken = None

    return run


def _block(block: str, channels: int, form: str) -> NonlocalBlock:
    torch.manual_seed(0)
    module = BLOCKS[block](channels)
    if form == "dense":
        module.operate = partial(DENSE[block], module)  # type: ignore[method-assign]  # norm and residual stay
    return module
