"""Self-attention over the positions of a map, whole and compressed to a grid of landmarks (CSALR, IJCAI 2020).

All of them are ``O = I + α · fuse(A V)`` with queries, keys and values by 1x1 convolutions, and start as the identity
(α is 0). They differ in the attention map ``A``; primes are means over the patches of a grid, and ``S`` is 1 where a
position lies in a patch:

======================  ===================================================================  =========
layer                   attention                                                            cost
======================  ===================================================================  =========
SA                      ``softmax(Q Kᵀ)``                                                    n² C
CSA                     ``softmax(Q K'ᵀ) · softmax(Q' Kᵀ)``                                  n m C
CSALR (Eqs. 15-16)      ``(softmax(Q K'ᵀ) + S) (softmax(Q' K'ᵀ) + 1)⁻¹ softmax(Q' Kᵀ)``      n m C
without the indicator   the same without ``S`` and ``1`` (Eqs. 11-12)                        n m C
nearest landmark        ``S · softmax(Q' Kᵀ)``                                               n m C
======================  ===================================================================  =========

With several groups, each has a share of the channels and its own attention map; a 1x1 convolution fuses them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops import Affinity, SoftmaxAffinity
from vergence.ops.affinity import ThinSoftmaxAffinity
from vergence.ops.lowrank import InPatch, LowRank, SoftmaxInPatch, landmark_block, plain_block
from vergence.ops.patches import Patches


class SelfAttention2d(nn.Module):
    """Every position attends to every other (Eqs. 1-2), by fused attention."""

    def __init__(self, channels: int, inner: int | None = None, groups: int = 1, temperature: float = 1.0) -> None:
        """``inner`` is the width of queries and keys in each group, by default an eighth of its channels and at least
        16. Logits are divided by ``temperature``; the paper uses 1."""
        super().__init__()
        if groups < 1 or channels < 1 or channels % groups:
            raise VergenceError(f"attention needs channels divisible by its groups, got {channels} and {groups} groups")
        self.channels, self.groups = channels, groups
        self.inner = max(channels // groups // 8, 16) if inner is None else inner
        if self.inner < 1:
            raise VergenceError(f"attention needs inner channels, got inner={inner}")
        if not temperature > 0:
            raise VergenceError(f"attention needs a temperature above 0, got {temperature}")
        self.temperature = temperature
        self.query = nn.Conv2d(channels, groups * self.inner, 1, groups=groups)
        self.key = nn.Conv2d(channels, groups * self.inner, 1, groups=groups)
        self.value = nn.Conv2d(channels, channels, 1, groups=groups)
        self.fuse = nn.Conv2d(channels, channels, 1) if groups > 1 else None
        self.alpha = nn.Parameter(torch.zeros(()))

    def affinity(self, query: Tensor, key: Tensor, height: int, width: int) -> Affinity:
        """The attention map, or its approximation, for queries and keys (groups, B, N, inner)."""
        return SoftmaxAffinity(query, key)

    def maps(self, x: Tensor) -> Affinity:
        """The attention maps of a feature map (B, C, H, W), one per group."""
        return self.affinity(*self.queries_and_keys(x), x.shape[-2], x.shape[-1])

    def queries_and_keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys of a map (B, C, H, W): (groups, B, N, inner) each."""
        query, key = self._project(x, self.query, self.key)
        return query / self.temperature, key

    def mix(self, x: Tensor) -> Tensor:
        """The output of attention before the gate and the residual: (B, C, H, W) to the same shape."""
        query, key, value = self._project(x, self.query, self.key, self.value)
        maps = self.affinity(query / self.temperature, key, x.shape[-2], x.shape[-1])
        mixed = maps @ value  # (groups, B, N, C / groups)
        tokens = mixed.movedim(0, 2).flatten(2)  # (B, N, C)
        if self.fuse is not None:
            tokens = F.linear(tokens, self.fuse.weight.flatten(1), self.fuse.bias)
        return tokens.mT.unflatten(-1, x.shape[-2:])

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(x, self.alpha.to(x.dtype), self.mix(x).to(x.dtype))

    def attention(self, x: Tensor, index: Tensor) -> Tensor:
        """The attention of positions ``index`` (P,) of a map (B, C, H, W), averaged over groups: (B, P, H, W)."""
        return self.maps(x).rows(index).mean(0).unflatten(-1, x.shape[-2:])

    def _project(self, x: Tensor, *layers: nn.Conv2d) -> tuple[Tensor, ...]:
        """1x1 convolutions of a map, each as (groups, B, N, channels), by one batched product over groups."""
        tokens = x.flatten(2).mT.flatten(0, 1)  # (B N, C): a view, if the map is channels-last in memory
        weights = [layer.weight.unflatten(0, (self.groups, -1)).flatten(2) for layer in layers]  # (groups, out, in)
        biases = [layer.bias.unflatten(0, (self.groups, 1, -1)) for layer in layers if layer.bias is not None]
        grouped = tokens.unflatten(1, (self.groups, -1)).movedim(1, 0)
        projected = torch.baddbmm(torch.cat(biases, -1), grouped, torch.cat(weights, 1).mT)
        return projected.unflatten(1, (x.shape[0], -1)).split([w.shape[1] for w in weights], -1)


class CompressedSelfAttention2d(SelfAttention2d):
    """CSA: landmarks attend to every position, and each position takes a weighted mean of their results."""

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        grid: tuple[int, int] = (24, 4),
        groups: int = 2,
        temperature: float = 1.0,
    ) -> None:
        """``grid`` is the number of landmarks down and across; sizes that do not divide give uneven patches."""
        super().__init__(channels, inner, groups, temperature)
        if min(grid) < 1:
            raise VergenceError(f"a landmark grid has at least one row and one column, got {grid[0]} x {grid[1]}")
        self.grid = grid

    def affinity(self, query: Tensor, key: Tensor, height: int, width: int) -> Affinity:
        (rows, columns), fits = self.grid, self.grid[0] <= height and self.grid[1] <= width
        if not fits:
            raise VergenceError(f"a landmark grid of {rows} x {columns} does not fit a map of {height} x {width}")
        patches = Patches(height, width, rows, columns)
        return self.compressed(query, key, patches.mean(query), patches.mean(key), patches)

    @staticmethod
    def compressed(query: Tensor, key: Tensor, query_: Tensor, key_: Tensor, patches: Patches) -> LowRank:
        """The compressed map, given queries and keys (groups, B, N, r) and those of landmarks (groups, B, m, r)."""
        return LowRank(ThinSoftmaxAffinity(query, key_), ThinSoftmaxAffinity(query_, key))


class CompressedSelfAttentionLowRank2d(CompressedSelfAttention2d):
    """CSALR: the low-rank approximation of the attention map, with the patch indicator (Eqs. 14-17)."""

    @staticmethod
    def compressed(query: Tensor, key: Tensor, query_: Tensor, key_: Tensor, patches: Patches) -> LowRank:
        left = SoftmaxInPatch(ThinSoftmaxAffinity(query, key_), patches)
        return LowRank(left, ThinSoftmaxAffinity(query_, key), landmark_block(query_, key_))


class PlainLowRank2d(CompressedSelfAttention2d):
    """CSALR without the patch indicator (Eqs. 11-12). Smooth maps make the block nearly singular, so it uses a
    pseudo-inverse that drops singular values below a twentieth of the largest."""

    @staticmethod
    def compressed(query: Tensor, key: Tensor, query_: Tensor, key_: Tensor, patches: Patches) -> LowRank:
        inverse = torch.linalg.pinv(plain_block(query_, key_), rtol=0.05).to(query.dtype)
        return LowRank(ThinSoftmaxAffinity(query, key_), LowRank(inverse, ThinSoftmaxAffinity(query_, key)))


class NearestLandmark2d(CompressedSelfAttention2d):
    """The baseline: each position takes the result of its own patch's landmark, without any inverse."""

    @staticmethod
    def compressed(query: Tensor, key: Tensor, query_: Tensor, key_: Tensor, patches: Patches) -> LowRank:
        return LowRank(InPatch(patches, query), ThinSoftmaxAffinity(query_, key))
