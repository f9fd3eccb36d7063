"""What the appendix says that can be found false, and what its card found."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from saccade.claims import Claim, Evidence, above
from saccade.nn import Nonlocal, NonlocalBlock, NonlocalStage, SpectralNonlocal
from saccade.ops import chebyshev
from saccade.recognition.snl.model import Model, build
from saccade.reference import nonlocal_block as plain
from saccade.seeding import generator

ROUNDING = 1e-10
"""What float64 may differ by when two ways to compute one thing agree."""


def _case(kind: type[NonlocalBlock], inner: int | None = None) -> tuple[NonlocalBlock, Tensor]:
    """A block of 12 channels and tokens (2, 24, 12), in float64."""
    source = generator("claims", kind.__name__)
    block = kind(12, inner).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return block, torch.randn(2, 24, 12, generator=source, dtype=torch.float64)


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


def eigenvalues_are_bounded(_: Evidence) -> float:
    """How far the spectrum of the block's own affinity leaves [-1, 1]."""
    return float(torch.linalg.eigvalsh(_affinity()[0]).abs().max()) - 1


def snl_is_spectral(_: Evidence) -> float:
    """With scalar weights, ``Z θ₀ + A Z θ₁ = U (θ₀ + θ₁ Λ) Uᵀ Z`` for the eigenvectors of the matrix written out."""
    block, x = _case(SpectralNonlocal)
    values, vectors = torch.linalg.eigh(plain.spectral_affinity(x, block.theta.weight, block.phi.weight))
    eye = torch.eye(x.shape[-1], dtype=torch.float64)
    ours = chebyshev(block.affinity(x), x, [0.7 * eye, -1.3 * eye])
    theirs = vectors @ ((0.7 - 1.3 * values).unsqueeze(-1) * (vectors.mT @ x))
    return float((ours - theirs).detach().abs().max())


def _affinity() -> tuple[Tensor, Tensor]:
    """The N x N matrix of an SNL block, a row a position, and the tokens it belongs to."""
    block, x = _case(SpectralNonlocal)
    return block.affinity(x).rows(torch.arange(x.shape[1])).detach(), x


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
    """How far the blocks, with their best output weights, stay from ``y = αx + βAx`` (the residual included).

    The affinity is fixed and the node features are the input (``g`` is the identity), so the best weights are a least
    squares problem. NL adds ``A x W`` and NS ``(A x - x) W`` to ``x``: were either of them exact for a target with
    α ≠ 1 and α + β ≠ 1, the claim would say too much, and this is infinite.
    """
    worst = 0.0
    for alpha, beta in ((0.3, 0.4), (2.0, -1.5), (-0.5, 0.9)):
        misfits = {kind: _misfit(kind, alpha, beta) for kind in (Nonlocal, NonlocalStage, SpectralNonlocal)}
        if min(misfits[Nonlocal], misfits[NonlocalStage]) < 1e-3:
            return float("inf")
        worst = max(worst, misfits[SpectralNonlocal])
    return worst


def _misfit(kind: type[NonlocalBlock], alpha: float, beta: float) -> float:
    block, x = _case(kind, inner=12)
    affinity = block.affinity(x)
    wanted = (alpha - 1) * x + beta * (affinity @ x)  # the block adds to x
    inputs = torch.eye(12, dtype=torch.float64)
    with torch.no_grad():
        block.g.weight.copy_(inputs)
        outputs = [layer for name, layer in block.named_children() if name.startswith("w")]
        responses = []
        for layer in outputs:  # what each output weight alone lets through, as columns
            for other in outputs:
                other.weight.copy_(inputs if other is layer else torch.zeros_like(inputs))  # type: ignore[operator]
            responses.append(block.filter(affinity, x))
        basis = torch.cat(responses, -1).flatten(0, 1)
        best = torch.linalg.lstsq(basis, wanted.flatten(0, 1)).solution
        for layer, weight in zip(outputs, best.split(12), strict=True):
            layer.weight.copy_(weight.mT)  # type: ignore[operator]
        return float((block.filter(affinity, x) - wanted).abs().max())


CLAIMS = (
    Claim("nl-filter", "NL is one term of a graph filter on the row-normalised affinity.", "Eqs. 1-5", "exact",
          nl_is_a_filter, ROUNDING),
    Claim("ns-filter", "NS is the first-order graph filter with both weights tied.", "Eqs. 6-11", "exact",
          ns_is_a_filter, ROUNDING),
    Claim("snl-filter", "SNL is the first-order filter on the symmetric, normalised affinity.", "Eq. 23", "exact",
          snl_is_its_definition, ROUNDING),
    Claim("snl-bounded", "The eigenvalues of SNL's affinity lie in [-1, 1], as a Chebyshev filter needs.", "Sec. 2",
          "exact", eigenvalues_are_bounded, ROUNDING),
    Claim("snl-spectral", "SNL scales each frequency of the graph by a first-order response.", "Theorem 1", "exact",
          snl_is_spectral, ROUNDING),
    Claim("snl-represents", "With the affinity fixed, SNL represents every first-order filter; NL and NS do not.",
          "Eqs. 4, 9 and 23", "exact", only_snl_represents_every_filter, ROUNDING),
    Claim("parameters", "Parameters of PreResNet-56 without a block, with NL or NS, and with SNL.", "public code",
          "exact", parameters_match, 0, paper="1,190,008 / 1,198,328 / 1,200,376"),
    above("snl-above-none", "SNL classifies better than no block.", "Table 1", better="snl", worse="none",
          metric="top1", unit="points of Top-1", paper="+1.08"),
    above("snl-above-nl", "SNL classifies better than NL.", "Table 1", better="snl", worse="nl", metric="top1",
          unit="points of Top-1", paper="+1.12"),
    above("snl-above-ns", "SNL classifies better than NS.", "Table 1", better="snl", worse="ns", metric="top1",
          unit="points of Top-1", paper="+1.02"),
)  # fmt: skip
