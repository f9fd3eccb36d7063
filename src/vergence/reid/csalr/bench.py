"""Cost of attention: the module alone on a first-stage feature map, and the whole network as in Table 5."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.metrics import Taken, rank
from vergence.nn import CompressedSelfAttention2d, CompressedSelfAttentionLowRank2d, SelfAttention2d
from vergence.ops.affinity import SoftmaxAffinity
from vergence.reference import self_attention as plain
from vergence.reference.ranking import cmc_and_precision
from vergence.reid.csalr.model import PartNetwork, build
from vergence.reid.csalr.settings import Attention, ModelConfig

CHANNELS, INNER, GRID = 256, 64, (24, 4)
DENSE, DENSE_NETWORK, PCB, LARGER = "SA, dense", "PCB + SA, dense", "PCB", "4 times the positions"
"""Rivals named by the claims about cost."""
PAPER = {1: (1.90, 0.87), 2: (1.73, 0.79)}
"""Table 5, by number of groups: throughput of PCB + CSALR relative to PCB + SA and to PCB."""
PAPER_MEMORY = {1: (1.82, 0.83), 2: (1.56, 0.72)}
"""Table 5, by number of groups: memory of PCB + SA and of PCB, relative to PCB + CSALR."""


class DenseSelfAttention2d(SelfAttention2d):
    """Self-attention that materialises its n x n matrix, as in public code."""

    def affinity(self, query: Tensor, key: Tensor, height: int, width: int) -> Any:
        return _Dense(query, key)


class _Dense(SoftmaxAffinity):
    def __matmul__(self, z: Tensor) -> Tensor:
        return plain.sa(self.query, self.key, z)


def contests() -> Iterator[Contest]:
    """Modules forward and backward on one picture; whole networks on pictures of 384 x 128, forward as for a
    descriptor, then in training; and the metrics."""
    ours, title = module("csalr", 96, 32), "CSALR, 96 x 32 positions"
    rivals = {DENSE: module("dense", 96, 32), "SA, fused": module("sa", 96, 32), "CSA": module("csa", 96, 32)}
    yield Contest("module", title, ours, rivals)
    yield Contest("growth", f"{title}, against 4 times as many", ours, {LARGER: module("csalr", 192, 64)})
    yield _ranking(50, 1000)
    for groups, (over_sa, over_none) in PAPER.items():
        title = f"PCB + CSALR, {_groups(groups)} (paper: {over_sa} and {over_none} times as fast)"
        rivals = {DENSE_NETWORK: _network("dense"), PCB: _network("none")}
        yield Contest(f"network-{_groups(groups, '-')}", title, _network("csalr", groups), rivals)
    # A training step takes seconds: against one rival each, the one that a claim names.
    for groups, rival in ((1, PCB), (2, DENSE_NETWORK)):
        paper = dict(zip((DENSE_NETWORK, PCB), PAPER_MEMORY[groups], strict=True))[rival]
        title = f"PCB + CSALR in training, {_groups(groups)} (paper: {paper} times as light)"
        theirs = _training("dense" if rival == DENSE_NETWORK else "none")
        yield Contest(f"training-{_groups(groups, '-')}", title, _training("csalr", groups), {rival: theirs})


def _groups(count: int, space: str = " ") -> str:
    return f"{count}{space}group{'s' if count > 1 else ''}"


def _ranking(queries: int, pictures: int) -> Contest:
    """CMC and mAP of random distances, against plain Python, one list at a time."""
    source = generator("bench", "ranking")

    def taken(count: int) -> Taken:
        return Taken(*(torch.randint(1, most, (count,), generator=source) for most in (50, 7)))

    asked, ranked, far = taken(queries), taken(pictures), torch.rand(queries, pictures, generator=source)
    who, whom = asked.identities.numpy(), ranked.identities.numpy()
    by, by_whom = asked.cameras.numpy(), ranked.cameras.numpy()
    return Contest(
        "ranking",
        f"CMC and mAP, {queries} x {pictures}",
        lambda: rank(far, asked, ranked),
        {"plain": lambda: cmc_and_precision(far.numpy(), who, whom, by, by_whom, trapezoid=False)},
    )


def module(kind: str, height: int, width: int) -> Callable[[], Any]:
    """An attention module forward and backward."""
    kinds: dict[str, Callable[[], SelfAttention2d]] = {
        "sa": lambda: SelfAttention2d(CHANNELS, INNER),
        "dense": lambda: DenseSelfAttention2d(CHANNELS, INNER),
        "csa": lambda: CompressedSelfAttention2d(CHANNELS, INNER, GRID, groups=1),
        "csalr": lambda: CompressedSelfAttentionLowRank2d(CHANNELS, INNER, GRID, groups=1),
    }
    attention = kinds[kind]()
    nn.init.ones_(attention.alpha)
    source = generator("bench", height, width)
    x = torch.randn(1, CHANNELS, height, width, generator=source).to(memory_format=torch.channels_last)
    x.requires_grad_()
    return lambda: torch.autograd.backward(attention(x).sum())


@cache
def _built(kind: Attention | Literal["dense"], groups: int) -> PartNetwork:
    """Built on first use, since a caller who lists the contests usually runs only one."""
    network = build(ModelConfig(attention="sa" if kind == "dense" else kind, groups=groups), 751, refined=False)
    if kind == "dense":
        for attention in network.attention.values():
            attention.__class__ = DenseSelfAttention2d
    return network


def _pictures(count: int) -> Tensor:
    return torch.randn(count, 3, 384, 128, generator=generator("bench", "pictures"))


def _network(kind: Attention | Literal["dense"], groups: int = 1) -> Callable[[], Any]:
    """A descriptor of one picture."""

    def run() -> Tensor:
        with torch.no_grad():
            return _built(kind, groups).eval()(_pictures(1))

    return run


def _training(kind: Attention | Literal["dense"], groups: int = 1) -> Callable[[], Any]:
    """Forward and backward on two pictures (a batch statistic needs two), parts and branches."""

    def run() -> None:
        network = _built(kind, groups).train()
        network.zero_grad()
        answers = network.answers(_pictures(2))
        torch.autograd.backward(sum(x.sum() for x in (*answers.parts, *answers.branches)))  # type: ignore[arg-type]

    return run
