"""The published nonlocal blocks, each a graph and a filter.

==============================  ===============================================  ===============================
block                           affinity                                         filter
==============================  ===============================================  ===============================
:class:`Nonlocal` (NL)          one of four kernels, by row or by size           ``A Z W``
:class:`NonlocalStage` (NS)     the same                                         ``A Z W - Z W``
:class:`DoubleAttention` (A2)   ``softmax(θ) softmax(φ)ᵀ``                       ``A Z W``
:class:`CompactGeneralised`     ``vec(θ) vec(φ)ᵀ`` on N·m nodes, dot or RBF      ``A vec(Z)``, then W
(CGNL)
:class:`CrissCross` (CC)        ``softmax(θ φᵀ)`` on the same row and column     ``A Z``
:class:`SpectralNonlocal`       ``relu(θ) relu(φ)ᵀ``, symmetrised and            ``Z W₁ + A Z W₂``
(SNL)                           normalised by ``√(d_i d_j)``
:class:`StableNonlocal` (gSNL)  as SNL                                           ``Z W₁ + A Z W₂ + (2A - I) Z W₃``
:class:`ChebyshevNonlocal`      as SNL                                           ``Σ_k T_k(-A) Z W_k``
:class:`PrintedCayleyNonlocal`  ``sigmoid(θ φᵀ)`` or as SNL, normalised as SNL   ``Z W₁ + 2 (L² Z W_h + Z) W₂``
(CayleySNL)
:class:`CayleyNonlocal`         as CayleySNL                                     Eq. 20: ``Z W_0 + 2 Re Σ_j C^j Z W_j``
(CayleyExact)
==============================  ===============================================  ===============================

Where the appendix and the public code differ, ``reading`` chooses; the default is the appendix, which makes the claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.graphfilter import Cayley, Chebyshev, Differences, Neighbours, PrintedCayley, Stable, linear
from vergence.nn.nonlocal_block import NonlocalBlock, Wiring
from vergence.ops import Affinity, FactoredAffinity, Graph, compact
from vergence.ops.compact import SeriesAffinity, devectorise, vectorise
from vergence.ops.graph import Kernel
from vergence.ops.precision import wide

NonlocalKernel = Literal["embedded-gaussian", "gaussian", "dot", "concatenation"]


def _graph(kernel: NonlocalKernel) -> Graph:
    if kernel in ("dot", "concatenation"):  # these may be negative or zero: Wang et al. divide by the size
        return Graph(kernel, normalise="size")
    return Graph("gaussian")


def _spectral(kernel: Kernel) -> Graph:
    return Graph(kernel, symmetrise=True, normalise="symmetric")


class Nonlocal(NonlocalBlock):
    """The nonlocal block of Wang et al. (2018). The ``gaussian`` kernel has no embeddings."""

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        kernel: NonlocalKernel = "embedded-gaussian",
        subsample: bool = False,
        wiring: Wiring = "plain",
    ) -> None:
        super().__init__(
            channels,
            inner,
            graph=_graph(kernel),
            filter=Neighbours,
            embedded=kernel != "gaussian",
            subsample=subsample,
            wiring=wiring,
        )


class NonlocalStage(NonlocalBlock):
    """The nonlocal stage of Tao et al. (2018): the difference between other positions and this one, ``(A Z - Z) W``.

    The public code (``reading="code"``) has the opposite sign, which W can undo.
    """

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        kernel: NonlocalKernel = "embedded-gaussian",
        subsample: bool = False,
        reading: Literal["paper", "code"] = "paper",
        wiring: Wiring = "plain",
    ) -> None:
        super().__init__(
            channels,
            inner,
            graph=_graph(kernel),
            filter=partial(Differences, reading=reading),
            embedded=kernel != "gaussian",
            subsample=subsample,
            wiring=wiring,
        )


class DoubleAttention(NonlocalBlock):
    """The double attention of Chen et al. (2018): gather features into a few descriptors, then distribute these.

    Rows of its affinity sum to one. The public code (``reading="code"``) has ``relu(θ) relu(φ)ᵀ``, not normalised.
    """

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        subsample: bool = False,
        reading: Literal["paper", "code"] = "paper",
        wiring: Wiring = "plain",
    ) -> None:
        graph = Graph("softmaxes" if reading == "paper" else "relu", normalise="none")
        super().__init__(channels, inner, graph=graph, filter=Neighbours, subsample=subsample, wiring=wiring)


class SpectralNonlocal(NonlocalBlock):
    """The spectral nonlocal block: a first-order Chebyshev filter with both weights free, in time linear in N.

    The authors' earlier code (``affinity="softmax"``) uses the affinity of NL, which is not symmetric.
    """

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        affinity: Literal["symmetric", "softmax"] = "symmetric",
        wiring: Wiring = "plain",
    ) -> None:
        graph = _spectral("relu") if affinity == "symmetric" else Graph("gaussian")
        super().__init__(channels, inner, graph=graph, filter=Chebyshev, wiring=wiring)


class StableNonlocal(NonlocalBlock):
    """gSNL: the generalised spectral nonlocal block. It represents the same functions as SNL.

    It comes from the authors' earlier code, which uses the affinity of NL (``affinity="softmax"``).
    """

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        affinity: Literal["symmetric", "softmax"] = "symmetric",
        wiring: Wiring = "plain",
    ) -> None:
        graph = _spectral("relu") if affinity == "symmetric" else Graph("gaussian")
        super().__init__(channels, inner, graph=graph, filter=Stable, wiring=wiring)


class ChebyshevNonlocal(NonlocalBlock):
    """ChebySNL: SNL with a Chebyshev filter of any order, of the scaled Laplacian ``-A``."""

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        order: int = 2,
        weights: Literal["free", "tied"] = "free",
        wiring: Wiring = "plain",
    ) -> None:
        filter = partial(Chebyshev, order=order, of="laplacian", weights=weights)
        super().__init__(channels, inner, graph=_spectral("relu"), filter=filter, wiring=wiring)


class PrintedCayleyNonlocal(NonlocalBlock):
    """CayleySNL, with Eq. 22 as printed. With the ``relu`` kernel of the public code it is linear in N."""

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        kernel: Literal["sigmoid", "relu"] = "sigmoid",
        reading: Literal["paper", "code"] = "paper",
        wiring: Wiring = "plain",
    ) -> None:
        filter = partial(PrintedCayley, reading=reading)
        super().__init__(channels, inner, graph=_spectral(kernel), filter=filter, wiring=wiring)


class CayleyNonlocal(NonlocalBlock):
    """CayleyExact: the filter of Eq. 20 itself. With the ``relu`` kernel it is linear in N.

    The exact solver cannot be exported to ONNX, which has no operator for it; ``jacobi`` can.
    """

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        kernel: Literal["sigmoid", "relu"] = "relu",
        order: int = 1,
        solver: Literal["exact", "jacobi"] = "exact",
        iterations: int = 20,
        wiring: Wiring = "plain",
    ) -> None:
        filter = partial(Cayley, order=order, solver=solver, iterations=iterations)
        super().__init__(channels, inner, graph=_spectral(kernel), filter=filter, wiring=wiring)


class CrissCross(NonlocalBlock):
    """The criss-cross attention of Huang et al. (2019): row and column, ``recurrence`` times with shared weights.

    Embeddings have an eighth of the channels, values have all, and a scalar γ that starts at zero replaces BatchNorm.
    Two passes reach every position of an image. The public code of CCNet has biases (``bias=True``), and its weights
    load with :meth:`load_public`; that of the keys adds the same to all scores of a position and cancels.
    """

    def __init__(self, channels: int, inner: int | None = None, recurrence: int = 1, bias: bool = False) -> None:
        if recurrence < 1:
            raise VergenceError(f"criss-cross attention needs a recurrence of at least 1, got {recurrence}")
        inner = max(channels // 8, 1) if inner is None else inner
        graph = Graph("gaussian", support="criss-cross")
        super().__init__(channels, inner, graph=graph, filter=lambda *_: _Look(), bias=bias)
        self.g = linear(channels, channels, bias)
        self.recurrence = recurrence

    def make_norm(self) -> nn.Module:
        return _Scale()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.recurrence):
            x = super().forward(x)
        return x

    def load_public(self, state: Mapping[str, Tensor]) -> None:
        """Load a criss-cross module of the public CCNet code, from its own state dict or from that of a whole network
        (there it is ``head.cca``). The block must have been built with ``bias=True``."""
        self.load_state_dict(public_criss_cross(state, self.state_dict()))


_CCNET = {"query_conv": "theta", "key_conv": "phi", "value_conv": "g"}
"""Layers of the public criss-cross module, and ours."""


def public_criss_cross(state: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The only criss-cross module in a state dict of the public code, with the names and shapes of ``like``."""
    modules = [name.removesuffix("query_conv.weight") for name in state if name.endswith("query_conv.weight")]
    if len(modules) != 1:
        raise VergenceError(f"expected one criss-cross module with a query_conv.weight, found {len(modules)}")
    names = {"gamma": "norm.gamma"} | {
        f"{layer}.{kind}": f"{ours}.{kind}" for layer, ours in _CCNET.items() for kind in ("weight", "bias")
    }
    loaded = {}
    for name, ours in names.items():
        name = modules[0] + name
        if ours not in like:
            raise VergenceError(f"the block has no {ours}, where {name} belongs: build it with bias=True")
        shape = tuple(like[ours].shape)
        theirs = (*shape, 1, 1) if ours.endswith("weight") else shape or (1,)  # 1x1 convolutions; γ is a vector
        found = tuple(state[name].shape) if name in state else "missing"
        if found != theirs:
            raise VergenceError(f"{name} of the public code is {theirs} for this block, got {found}")
        loaded[ours] = state[name].reshape(shape)
    return loaded


class CompactGeneralised(NonlocalBlock):
    """The compact generalised nonlocal block of Yue et al. (2018): every channel of every position is a node.

    Channels attend to each other within ``groups``. As in the public code, W acts per group, GroupNorm follows, and the
    default kernel is the RBF with a Taylor series to order 2. The affinity is not normalised (Eq. 16); the sentence
    above that equation divides by the degree, which is ``normalise="row"``.
    """

    def __init__(
        self,
        channels: int,
        inner: int | None = None,
        groups: int = 1,
        kernel: Literal["dot", "rbf"] = "rbf",
        order: int = 2,
        gamma: float = 1e-4,
        normalise: Literal["none", "row", "size"] = "none",
        wiring: Wiring = "plain",
    ) -> None:
        inner = max(channels // 2, 1) if inner is None else inner
        if groups < 1 or channels % groups or inner % groups:
            raise VergenceError(
                f"CompactGeneralised needs channels and inner divisible by groups, "
                f"got channels={channels}, inner={inner} and groups={groups}"
            )
        if order < 1 or not gamma > 0:
            raise VergenceError(f"the Taylor series has an order of at least 1 and gamma > 0, got {order} and {gamma}")
        self.groups = groups
        self.compare_by = partial(compact, groups=groups, kernel=kernel, order=order, gamma=gamma, normalise=normalise)
        filter = partial(_Grouped, groups=groups)
        super().__init__(channels, inner, graph=Graph("dot", normalise=normalise), filter=filter, wiring=wiring)

    def make_norm(self) -> nn.Module:
        norm = _WideGroupNorm(self.groups, self.channels)
        if self.wiring == "plain":
            nn.init.zeros_(norm.weight)
        return norm

    def connect(self, query: Tensor, key: Tensor, shape: tuple[int, ...] | None) -> Affinity:
        return self.compare_by(wide(query), wide(key))

    def attention(self, x: Tensor, index: Tensor) -> Tensor:
        """The attention of positions, summed over groups and channels."""
        nodes = self.affinity(x.flatten(2).mT)
        nodes = nodes.factored() if isinstance(nodes, SeriesAffinity) else nodes
        assert isinstance(nodes, FactoredAffinity)
        positions = x.shape[2:].numel()
        left, right = (t.unflatten(-2, (positions, -1)).sum(-2) for t in (nodes.left, nodes.right))  # (B, groups, N, r)
        rows = (left[..., index, :] @ right.mT).sum(1)
        return rows.reshape(*rows.shape[:2], *x.shape[2:])


class _Look(nn.Module):
    """``A Z``."""

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        return affinity @ seen


class _Scale(nn.Module):
    """``γ x`` with a learned γ that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gamma * x


class _WideGroupNorm(nn.GroupNorm):
    """GroupNorm in float32 at least: its inputs are sums over all nodes."""

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(wide(x), self.num_groups, wide(self.weight), wide(self.bias), self.eps)


class _Grouped(nn.Module):
    """``A vec(Z)``, then W per group. Sums over all nodes are taken in float32 at least."""

    def __init__(self, inner: int, channels: int, groups: int) -> None:
        super().__init__()
        self.groups = groups
        self.w = linear(inner // groups, channels)  # in the shape of a grouped convolution: (channels, inner / groups)

    def forward(self, affinity: Affinity, z: Tensor, seen: Tensor) -> Tensor:
        mixed = devectorise(affinity @ vectorise(wide(seen), self.groups), z.shape[-2])
        weight = self.w.weight.to(mixed.dtype)
        if self.groups == 1:
            return F.linear(mixed, weight)
        weight = weight.unflatten(0, (self.groups, -1))
        return torch.einsum("bngc,gdc->bngd", mixed.unflatten(-1, (self.groups, -1)), weight).flatten(-2)


BLOCKS: Mapping[str, Callable[..., NonlocalBlock]] = {
    "nl": Nonlocal,
    "nl-gaussian": partial(Nonlocal, kernel="gaussian"),
    "nl-dot": partial(Nonlocal, kernel="dot"),
    "nl-concatenation": partial(Nonlocal, kernel="concatenation"),
    "ns": NonlocalStage,
    "a2": DoubleAttention,
    "cgnl": CompactGeneralised,
    "cgnl-dot": partial(CompactGeneralised, kernel="dot"),
    "cc": CrissCross,
    "cc-twice": partial(CrissCross, recurrence=2),
    "snl": SpectralNonlocal,
    "snl-softmax": partial(SpectralNonlocal, affinity="softmax"),
    "gsnl": StableNonlocal,
    "chebysnl": ChebyshevNonlocal,
    "cayleysnl": PrintedCayleyNonlocal,
    "cayleysnl-relu": partial(PrintedCayleyNonlocal, kernel="relu"),
    "cayleyexact": CayleyNonlocal,
}
"""The published blocks by name. Each is built for a number of channels, with ``inner`` and the options of its class."""
