"""What the appendix says that can be found false, and what its card found."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from saccade.claims import Claim, Evidence, above
from saccade.nn import Nonlocal, NonlocalBlock, NonlocalStage, SpectralNonlocal
from saccade.recognition.snl.model import Model, build
from saccade.reference import nonlocal_block as plain
from saccade.seeding import generator

ROUNDING = 1e-10
"""What float64 may differ by when two ways to compute one thing agree."""


def _case(kind: type[NonlocalBlock], positions: int = 24, channels: int = 12) -> tuple[NonlocalBlock, Tensor]:
    """A block and tokens (2, N, C), in float64."""
    source = generator("claims", kind.__name__)
    block = kind(channels).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return block, torch.randn(2, positions, channels, generator=source, dtype=torch.float64)


def _worst(ours: Tensor, theirs: Tensor, leaves: list[Tensor]) -> float:
    """The largest difference of two results and of their gradients."""
    probe = torch.randn(ours.shape, generator=generator("claims", "probe"), dtype=ours.dtype)
    pairs = [(ours, theirs)]
    pairs += zip(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(theirs, leaves, probe), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def _weights(*layers: nn.Module) -> list[Tensor]:
    return [p for layer in layers for p in layer.parameters()]


def nl_is_a_filter(_: Evidence) -> float:
    """Eqs. 1-5."""
    block, x = _case(Nonlocal)
    assert isinstance(block, Nonlocal)
    weights = _weights(block.theta, block.phi, block.g, block.w)
    return _worst(block.filter(block.affinity(x), block.g(x)), plain.nl(x, *weights), weights)


def ns_is_a_filter(_: Evidence) -> float:
    """Eqs. 6-11."""
    block, x = _case(NonlocalStage)
    assert isinstance(block, NonlocalStage)
    weights = _weights(block.theta, block.phi, block.g, block.w)
    return _worst(block.filter(block.affinity(x), block.g(x)), plain.ns(x, *weights), weights)


def snl_is_its_definition(_: Evidence) -> float:
    """Eq. 23's constraint line with the first-order filter."""
    block, x = _case(SpectralNonlocal)
    assert isinstance(block, SpectralNonlocal)
    weights = _weights(block.theta, block.phi, block.g, block.w1, block.w2)
    return _worst(block.filter(block.affinity(x), block.g(x)), plain.snl(x, *weights), weights)


def _spectrum() -> tuple[Tensor, Tensor, Tensor]:
    block, x = _case(SpectralNonlocal)
    theta, phi = block.theta.weight.detach(), block.phi.weight.detach()
    a = plain.spectral_affinity(x, theta, phi)
    m = (x @ theta.mT).relu() @ (x @ phi.mT).relu().mT
    return a, ((m + m.mT) / 2).sum(-1), x


def eigenvalues_are_bounded(_: Evidence) -> float:
    """How far the spectrum of A leaves [-1, 1]."""
    a, _degree, _x = _spectrum()
    return float(torch.linalg.eigvalsh(a).abs().max()) - 1


def degrees_are_kept(_: Evidence) -> float:
    """``A √d = √d``: the constant signal of the graph passes unchanged."""
    a, degree, _x = _spectrum()
    root = degree.sqrt().unsqueeze(-1)
    return float((a @ root - root).abs().max())


def snl_is_spectral(_: Evidence) -> float:
    """With scalar weights, ``Z θ₀ + A Z θ₁ = U (θ₀ + θ₁ Λ) Uᵀ Z``."""
    from saccade.ops import FactoredAffinity, chebyshev

    block, x = _case(SpectralNonlocal)
    u, v = block.theta(x).relu().detach(), block.phi(x).relu().detach()
    eye = torch.eye(x.shape[-1], dtype=torch.float64)
    ours = chebyshev(FactoredAffinity.symmetric(u, v), x, [0.7 * eye, -1.3 * eye])
    values, vectors = torch.linalg.eigh(_spectrum()[0])
    theirs = vectors @ ((0.7 - 1.3 * values).unsqueeze(-1) * (vectors.mT @ x))
    return float((ours - theirs).abs().max())


def positions_are_interchangeable(_: Evidence) -> float:
    """Permuting the positions permutes the output of every block."""
    worst = 0.0
    for kind in (Nonlocal, NonlocalStage, SpectralNonlocal):
        block, x = _case(kind)
        block.eval()
        order = torch.randperm(x.shape[1], generator=generator("claims", "order"))
        maps = x.mT  # (B, C, N)
        worst = max(worst, float((block(maps)[..., order] - block(maps[..., order])).detach().abs().max()))
    return worst


def parameters_match(_: Evidence) -> float:
    """How far the three counts of the public code's 1000-way PreResNet-56 are missed, added up."""
    published = {"none": 1_190_008, "nl": 1_198_328, "ns": 1_198_328, "snl": 1_200_376}
    missed = 0
    for block, count in published.items():
        with torch.device("meta"):
            network = build(Model(block=block), classes=1000)  # type: ignore[arg-type]
        missed += abs(sum(p.numel() for p in network.parameters()) - count)
    return float(missed)


def only_snl_represents_every_filter(_: Evidence) -> float:
    """Least squares on ``y = αx + βAx`` with A fixed, residual included: how far SNL is from any (α, β).

    NL can only add ``w A x`` and NS ``w (A x - x)`` to ``x``; were either of them exact for a target with α ≠ 1 and
    α + β ≠ 1, the claim would say too much, and this returns infinity.
    """
    a, _degree, x = _spectrum()
    x, ax = x[0], (a @ x)[0]

    def misfit(directions: list[Tensor], target: Tensor) -> float:
        basis = torch.stack([d.flatten() for d in directions], 1)
        found = torch.linalg.lstsq(basis, (target - x).flatten().unsqueeze(1)).solution
        return float((basis @ found - (target - x).flatten().unsqueeze(1)).abs().max())

    worst = 0.0
    for alpha, beta in ((0.3, 0.4), (2.0, -1.5), (-0.5, 0.9)):
        target = alpha * x + beta * ax
        if min(misfit([ax], target), misfit([ax - x], target)) < 1e-3:
            return float("inf")
        worst = max(worst, misfit([x, ax], target))
    return worst


CLAIMS = (
    Claim("nl-filter", "NL is one term of a graph filter on the row-normalised affinity.", "Eqs. 1-5", "exact",
          nl_is_a_filter, ROUNDING),
    Claim("ns-filter", "NS is the first-order graph filter with both weights tied.", "Eqs. 6-11", "exact",
          ns_is_a_filter, ROUNDING),
    Claim("snl-filter", "SNL is the first-order filter on the symmetric, normalised affinity.", "Eq. 23", "exact",
          snl_is_its_definition, ROUNDING),
    Claim("snl-bounded", "The eigenvalues of SNL's affinity lie in [-1, 1].", "Sec. 2", "exact",
          eigenvalues_are_bounded, ROUNDING),
    Claim("snl-degrees", "SNL's affinity keeps the square roots of the degrees.", "Sec. 2", "exact",
          degrees_are_kept, ROUNDING),
    Claim("snl-spectral", "SNL scales each frequency of the graph by a first-order response.", "Theorem 1", "exact",
          snl_is_spectral, ROUNDING),
    Claim("snl-represents", "With the affinity fixed, SNL can represent every first-order filter; NL and NS cannot.",
          "Eqs. 4, 9 and 23", "exact", only_snl_represents_every_filter, ROUNDING),
    Claim("permutation", "Permuting the positions permutes the output of NL, NS and SNL.", "Eqs. 1, 6 and 23", "exact",
          positions_are_interchangeable, ROUNDING),
    Claim("parameters", "Parameters of PreResNet-56 without a block, with NL or NS, and with SNL.", "public code",
          "exact", parameters_match, 0, paper="1,190,008 / 1,198,328 / 1,200,376"),
    above("snl-above-none", "SNL classifies better than no block.", "Table 1", better="snl", worse="none",
          metric="top1", unit="points of Top-1", paper="+1.08"),
    above("snl-above-nl", "SNL classifies better than NL.", "Table 1", better="snl", worse="nl", metric="top1",
          unit="points of Top-1", paper="+1.12"),
    above("snl-above-ns", "SNL classifies better than NS.", "Table 1", better="snl", worse="ns", metric="top1",
          unit="points of Top-1", paper="+1.02"),
)  # fmt: skip
