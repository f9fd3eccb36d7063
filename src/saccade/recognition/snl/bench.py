"""The blocks against direct transcriptions of their definitions, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from saccade.benchmark import Contest
from saccade.nn import Nonlocal, NonlocalBlock, SpectralNonlocal
from saccade.reference import nonlocal_block as plain
from saccade.seeding import generator


def contests() -> Iterator[Contest]:
    """SNL and NL with 32 inner channels on 64 channels, from few positions to many."""
    for positions in (64, 1024, 4096):
        tokens = torch.randn(1, positions, 64, generator=generator("bench", positions)).requires_grad_()
        snl, nl = SpectralNonlocal(64, 32), Nonlocal(64, 32)
        yield Contest(f"SNL, N = {positions}", _ours(snl, tokens), {"dense": _dense_snl(snl, tokens)})
        yield Contest(f"NL, N = {positions}", _ours(nl, tokens), {"dense": _dense_nl(nl, tokens)})


def _ours(block: NonlocalBlock, x: Tensor) -> Callable[[], Any]:
    return _both_ways(lambda: block.filter(block.affinity(x), block.g(x)))


def _dense_snl(block: SpectralNonlocal, x: Tensor) -> Callable[[], Any]:
    layers = (block.theta, block.phi, block.g, block.w1, block.w2)
    return _both_ways(lambda: plain.snl(x, *(layer.weight for layer in layers)))


def _dense_nl(block: Nonlocal, x: Tensor) -> Callable[[], Any]:
    def dense() -> Tensor:
        affinity = plain.softmax_affinity(x, block.theta.weight, block.phi.weight)
        return affinity @ (x @ block.g.weight.mT) @ block.w.weight.mT

    return _both_ways(dense)


def _both_ways(run: Callable[[], Tensor]) -> Callable[[], Any]:
    return lambda: torch.autograd.backward(run().sum())
