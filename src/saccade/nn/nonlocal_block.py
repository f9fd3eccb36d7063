"""Nonlocal blocks: every position looks at every other, and a graph filter says what it takes from there.

All of them are ``Y = X + BN(F(A, Z))`` with ``Z = X W_g``. They differ in the affinity ``A`` and the filter ``F``:

=========  ==================================  =====================
block      affinity                            filter
=========  ==================================  =====================
NL         ``softmax(θ φᵀ)``                   ``A Z W``
NS         ``softmax(θ φᵀ)``                   ``A Z W - Z W``
SNL        ``relu(θ) relu(φ)ᵀ``, symmetrised   ``Z W₁ + A Z W₂``
           and normalised by ``√(d_i d_j)``
=========  ==================================  =====================

A block takes (B, C, *spatial) of any number of spatial dimensions and returns the same shape. It starts as the
identity: the scale of its BatchNorm is zero. No ReLU follows that BatchNorm (the authors' classification code has
one): with a zero scale in front of it, no gradient would ever reach the block.
"""

from __future__ import annotations

from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.ops import Affinity, FactoredAffinity, SoftmaxAffinity, chebyshev


class NonlocalBlock(nn.Module):
    """What the blocks share: embeddings, residual, BatchNorm. Those below add the affinity and the filter."""

    def __init__(self, channels: int, inner: int | None = None) -> None:
        """``inner`` is the width of the embeddings, half the channels unless given."""
        super().__init__()
        inner = max(channels // 2, 1) if inner is None else inner
        if channels < 1 or inner < 1:
            raise SaccadeError(f"a nonlocal block needs channels, got channels={channels} and inner={inner}")
        self.channels, self.inner = channels, inner
        self.theta = nn.Linear(channels, inner, bias=False)
        self.phi = nn.Linear(channels, inner, bias=False)
        self.g = nn.Linear(channels, inner, bias=False)
        self.norm = nn.BatchNorm1d(channels)
        nn.init.zeros_(self.norm.weight)
        for layer in (self.theta, self.phi, self.g):
            _initialise(layer)

    def affinity(self, tokens: Tensor) -> Affinity:
        """A for tokens (B, N, C)."""
        raise NotImplementedError

    def filter(self, affinity: Affinity, z: Tensor) -> Tensor:
        """F(A, Z) for node features (B, N, inner): (B, N, C)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT  # (B, N, C)
        filtered = self.filter(self.affinity(tokens), self.g(tokens))
        return x + self.norm(filtered.mT).reshape(x.shape)

    def attention(self, x: Tensor, index: Tensor) -> Tensor:
        """What positions ``index`` (P,) of a map (B, C, *spatial) look at: (B, P, *spatial)."""
        rows = self.affinity(x.flatten(2).mT).rows(index)
        return rows.reshape(*rows.shape[:2], *x.shape[2:])


class Nonlocal(NonlocalBlock):
    """The nonlocal block of Wang et al. (2018) with the embedded Gaussian kernel."""

    def __init__(self, channels: int, inner: int | None = None) -> None:
        super().__init__(channels, inner)
        self.w = _initialise(nn.Linear(self.inner, channels, bias=False))

    def affinity(self, tokens: Tensor) -> Affinity:
        return SoftmaxAffinity(self.theta(tokens), self.phi(tokens))

    def filter(self, affinity: Affinity, z: Tensor) -> Tensor:
        return self.w(affinity @ z)


class NonlocalStage(Nonlocal):
    """The nonlocal stage of Tao et al. (2018): what the others have minus what is here, ``(A Z - Z) W``."""

    def filter(self, affinity: Affinity, z: Tensor) -> Tensor:
        return self.w(affinity @ z - z)


class SpectralNonlocal(NonlocalBlock):
    """The spectral nonlocal block: a first-order Chebyshev filter with both weights free, in time linear in N."""

    def __init__(self, channels: int, inner: int | None = None) -> None:
        super().__init__(channels, inner)
        self.w1 = _initialise(nn.Linear(self.inner, channels, bias=False))
        self.w2 = _initialise(nn.Linear(self.inner, channels, bias=False))

    def affinity(self, tokens: Tensor) -> Affinity:
        return FactoredAffinity.symmetric(self.theta(tokens).relu(), self.phi(tokens).relu())

    def filter(self, affinity: Affinity, z: Tensor) -> Tensor:
        return chebyshev(affinity, z, [self.w1.weight.mT, self.w2.weight.mT])


def _initialise(layer: nn.Linear) -> nn.Linear:
    """As the authors start their 1x1 convolutions."""
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer
