"""Nonlocal blocks: every position attends to others, and a graph filter aggregates their features.

A block is a graph (:class:`vergence.ops.Graph`: kernel, symmetry, normalisation, support) and a filter
(:mod:`vergence.nn.graphfilter`), wired as ``Y = X + BN(F(A, Z))`` with ``Z = X W_g``. :mod:`vergence.nn.nonlocals` has
the published pairs by name; any other pair works too.

A block takes (B, C, *spatial) of any number of spatial dimensions and returns the same shape. It starts as the
identity: the scale of its BatchNorm is zero. No ReLU follows that BatchNorm unless asked for (the authors'
classification code has one): with a zero scale in front of it, no gradient would ever reach the block, so a
``rectified`` block starts with a scale of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.graphfilter import linear
from vergence.ops import Affinity, Graph, connect

MakeFilter = Callable[[int, int], nn.Module]
"""Builds a filter for the given numbers of inner and outer channels."""
Wiring = Literal["plain", "rectified"]


class NonlocalBlock(nn.Module):
    """A graph, a filter, and what all blocks share: embeddings, BatchNorm, residual."""

    theta: nn.Linear | None
    phi: nn.Linear | None
    compare: nn.Parameter | None

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        *,
        graph: Graph,
        filter: MakeFilter,
        embedded: bool = True,
        subsample: bool = False,
        bias: bool = False,
        wiring: Wiring = "plain",
    ) -> None:
        """``inner`` is the width of the embeddings, half the channels unless given.

        Without ``embedded`` the kernel compares the features themselves. ``subsample`` max-pools keys and values by two
        in every spatial direction (not in time). ``bias`` adds biases to the embeddings and to ``Z = X W_g``.
        """
        super().__init__()
        inner = max(channels // 2, 1) if inner is None else inner
        if channels < 1 or inner < 1:
            raise VergenceError(f"a nonlocal block needs channels, got channels={channels} and inner={inner}")
        square = graph.symmetrise or graph.normalise == "symmetric" or graph.support != "everywhere"
        if subsample and square:
            raise VergenceError("a graph that compares positions with themselves cannot sub-sample keys and values")
        self.channels, self.inner, self.graph = channels, inner, graph
        self.subsample, self.wiring = subsample, wiring
        self.theta = linear(channels, inner, bias) if embedded else None
        self.phi = linear(channels, inner, bias) if embedded else None
        if graph.kernel == "concatenation":  # w·[θ; φ], a scalar for each half
            width = inner if embedded else channels
            self.compare = nn.Parameter(torch.randn(2, width) / width**0.5)
        else:
            self.compare = None
        self.g = linear(channels, inner, bias)
        self.filter = filter(inner, channels)
        self.norm = self.make_norm()

    def make_norm(self) -> nn.Module:
        """The norm before the residual; its scale starts at zero."""
        norm = nn.BatchNorm1d(self.channels)
        if self.wiring == "plain":
            nn.init.zeros_(norm.weight)
        return norm

    def forward(self, x: Tensor) -> Tensor:
        self.check(x)
        return self._added(x, self.operate(x.flatten(2).mT, x.shape[2:]))

    def operate(self, tokens: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
        """F(A, Z) for tokens (B, N, C) on a grid of ``shape``, before the norm and the residual: (B, N, C)."""
        # One product for all three reads the tokens once, forward and backward.
        weights, biases = zip(*self._embeddings(), (self.g.weight, self.g.bias), strict=True)
        projected = F.linear(tokens, torch.cat(weights), None if self.g.bias is None else torch.cat(biases))
        *embedded, z = torch.split_with_sizes(projected, [w.shape[0] for w in weights], -1)
        query, key = embedded or (tokens, tokens)
        return self.filter(self.connect(query, key, shape), z, self._seen(z, shape))

    def affinity(self, tokens: Tensor, shape: tuple[int, ...] | None = None) -> Affinity:
        """A for tokens (B, N, C), on a grid of ``shape``."""
        query, key = [F.linear(tokens, *pair) for pair in self._embeddings()] or (tokens, tokens)
        return self.connect(query, key, shape)

    def connect(self, query: Tensor, key: Tensor, shape: tuple[int, ...] | None) -> Affinity:
        """A for embeddings (B, N, r)."""
        return connect(query, self._seen(key, shape), self.graph, None if shape is None else tuple(shape))

    def add(self, x: Tensor, affinity: Affinity) -> Tensor:
        """Filter a map (B, C, *spatial) on a given graph, and add the result to it."""
        z = self.g(x.flatten(2).mT)
        return self._added(x, self.filter(affinity, z, self._seen(z, x.shape[2:])))

    def _added(self, x: Tensor, filtered: Tensor) -> Tensor:
        normalised = self.norm(filtered.mT).reshape(x.shape)
        return x + (normalised.relu() if self.wiring == "rectified" else normalised).to(x.dtype)

    def attention(self, x: Tensor, index: Tensor) -> Tensor:
        """The attention of positions ``index`` (P,) of a map (B, C, *spatial): (B, P, *spatial)."""
        rows = self.affinity(x.flatten(2).mT, x.shape[2:]).rows(index)
        if not self.subsample:
            return rows.reshape(*rows.shape[:2], *x.shape[2:])
        coarse = rows.reshape(*rows.shape[:2], *_pooled(x.shape[2:]))
        return F.interpolate(coarse, tuple(x.shape[2:]), mode="nearest")

    def check(self, x: Tensor) -> None:
        """Raise an error if the input does not fit."""
        if x.ndim < 3 or x.shape[1] != self.channels:
            raise VergenceError(
                f"{type(self).__name__} takes (batch, {self.channels}, positions...), got {tuple(x.shape)}"
            )
        if self.training and isinstance(self.norm, nn.BatchNorm1d) and x.numel() == x.shape[1]:
            raise VergenceError(
                f"{type(self).__name__} cannot learn from one position of one sample: its BatchNorm needs more values"
            )

    def share(self) -> NonlocalBlock:
        """Drop the block's own embeddings, for a stage that shares one affinity among several blocks."""
        self.theta = self.phi = self.compare = None
        return self

    def _embeddings(self) -> tuple[tuple[Tensor, Tensor | None], ...]:
        """Weights and biases that project tokens to queries and keys; empty where the tokens themselves are
        compared."""
        halves: tuple[Tensor, ...] = () if self.compare is None else self.compare.unsqueeze(1).unbind()
        if self.theta is None or self.phi is None:
            return tuple((half, None) for half in halves)
        layers = (self.theta, self.phi)
        if not halves:
            return tuple((layer.weight, layer.bias) for layer in layers)
        # w·(θ x + b) = (w θ)·x + w·b, one scalar per position
        return tuple(
            (half @ layer.weight, None if layer.bias is None else half @ layer.bias)
            for half, layer in zip(halves, layers, strict=True)
        )

    def _seen(self, tokens: Tensor, shape: tuple[int, ...] | None) -> Tensor:
        """The attended tokens: all of them (B, N, c), or max-pooled over cells (B, M, c)."""
        if not self.subsample:
            return tokens
        if shape is None or not 1 <= len(shape) <= 3:
            raise VergenceError(f"sub-sampling works on a grid of one to three dimensions, got {shape}")
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(shape) - 1]
        cells = pool(
            tokens.mT.unflatten(-1, tuple(shape)), _cell(shape), ceil_mode=True
        )  # keeps the last of an odd number
        return cells.flatten(2).mT


class SharedAffinity(nn.Module):
    """Several blocks in a row on one graph, that of the first one's input (a nonlocal stage of the public code)."""

    def __init__(self, channels: int, block: Callable[[int], NonlocalBlock], units: int) -> None:
        """``block`` builds a unit for the given number of channels."""
        super().__init__()
        if units < 1:
            raise VergenceError(f"a stage has at least one unit, got {units}")
        first, *others = [block(channels) for _ in range(units)]
        self.units = nn.ModuleList([first, *(unit.share() for unit in others)])

    def forward(self, x: Tensor) -> Tensor:
        first = self.units[0]
        assert isinstance(first, NonlocalBlock)
        first.check(x)
        affinity = first.affinity(x.flatten(2).mT, x.shape[2:])
        for unit in self.units:
            x = unit.add(x, affinity)  # type: ignore[operator]
        return x

    def attention(self, x: Tensor, index: Tensor) -> Tensor:
        """The attention of positions ``index`` (P,) of a map (B, C, *spatial): (B, P, *spatial)."""
        return self.units[0].attention(x, index)  # type: ignore[operator]


def _cell(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The pooling cell of one key or value."""
    return (1, 2, 2) if len(shape) == 3 else (2,) * len(shape)


def _pooled(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-(-length // cell) for length, cell in zip(shape, _cell(shape), strict=True))
