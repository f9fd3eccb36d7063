"""What the appendix says that can be found false, and what follows from its formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from saccade.claims import Claim, Evidence, above
from saccade.nn import BLOCKS, ChebyshevNonlocal, NonlocalBlock
from saccade.ops import cayley, chebyshev, laplacian_squared
from saccade.recognition.snl.model import Model, build
from saccade.reference import nonlocal_block as plain
from saccade.reference.blocks import FORMULAS
from saccade.seeding import generator

ROUNDING = 1e-10
"""What float64 may differ by when two ways to compute one thing agree."""
GRID = (4, 6)


def _case(name: str, inner: int | None = None) -> tuple[NonlocalBlock, Tensor]:
    """A block of 12 channels and tokens (2, 24, 12), in float64."""
    return _filled(BLOCKS[name](12, inner), name)


def _filled(block: NonlocalBlock, name: str) -> tuple[NonlocalBlock, Tensor]:
    source = generator("claims", name)
    block = block.double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return block, torch.randn(2, 24, 12, generator=source, dtype=torch.float64)


def _worst(ours: Tensor, theirs: Tensor, leaves: Sequence[Tensor]) -> float:
    """The largest difference of two results and of their gradients."""
    probe = torch.randn(ours.shape, generator=generator("claims", "probe"), dtype=ours.dtype)
    pairs = [(ours, theirs)]
    pairs += zip(torch.autograd.grad(ours, leaves, probe), torch.autograd.grad(theirs, leaves, probe), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


def is_its_formula(*names: str) -> Callable[[Evidence], float]:
    """How far blocks, as graph and filter, are from their papers' formulas, forward and backward."""

    def measure(_: Evidence) -> float:
        found = []
        for name in names:
            for inner in (4, 16):  # thin factors, and factors wider than the matrix
                block, x = _case(name, inner)
                leaves = [p for n, p in block.named_parameters() if not n.startswith("norm.")]
                found.append(_worst(block.operate(x, GRID), FORMULAS[name](block, x, GRID), leaves))
        return max(found)

    return measure


def ns_is_nl_minus_one_product(_: Evidence) -> float:
    """``NS = NL - Z W`` for the same weights."""
    (nl, x), (ns, _x) = _case("nl"), _case("ns")
    ns.load_state_dict(nl.state_dict())
    return _most(ns.operate(x) - (nl.operate(x) - nl.g(x) @ nl.filter.w.weight.mT))  # type: ignore[union-attr]


def a2_rows_sum_to_one(_: Evidence) -> float:
    block, x = _case("a2")
    return _most(block.affinity(x) @ torch.ones(2, 24, 1, dtype=torch.float64) - 1)


def criss_cross_sees_its_cross(_: Evidence) -> float:
    """Rows without exactly H + W - 1 positive entries, and entries of A² that are zero."""
    block, x = _case("cc")
    matrix = block.affinity(x, GRID).rows(torch.arange(24)).detach()
    wrong = ((matrix > 0).sum(-1) != sum(GRID) - 1).sum() + (matrix @ matrix <= 0).sum()
    return float(wrong) + abs(float(matrix.sum(-1).mean()) - 1)


def eigenvalues_are_bounded(_: Evidence) -> float:
    """How far the spectrum of the block's own affinity leaves [-1, 1]."""
    block, x = _case("snl")
    return float(torch.linalg.eigvalsh(block.affinity(x).rows(torch.arange(24)).detach()).abs().max()) - 1


def snl_is_spectral(_: Evidence) -> float:
    """With scalar weights, ``Z θ₀ + A Z θ₁ = U (θ₀ + θ₁ Λ) Uᵀ Z`` for the eigenvectors of the matrix written out."""
    block, x, values, vectors = _spectrum()
    ours = chebyshev(block.affinity(x), x, _scalars(0.7, -1.3))
    return _most(ours - vectors @ ((0.7 - 1.3 * values).unsqueeze(-1) * (vectors.mT @ x)))


def chebyshev_is_spectral(_: Evidence) -> float:
    """``Σ_k θ_k T_k(-λ)`` is the response of order 5, by cosines; and order 1 with ``-W₂`` is SNL."""
    block, x, values, vectors = _spectrum()
    weights = (0.4, -0.7, 1.1, 0.3, -0.5, 0.9)
    signed = _scalars(*((-1) ** k * w for k, w in enumerate(weights)))
    angle = (-values).clamp(-1, 1).acos()
    response = torch.stack([w * (k * angle).cos() for k, w in enumerate(weights)]).sum(0)
    far = _most(chebyshev(block.affinity(x), x, signed) - vectors @ (response.unsqueeze(-1) * (vectors.mT @ x)))
    (snl, x), (first, _x) = _case("snl"), _filled(ChebyshevNonlocal(12, order=1), "chebysnl")
    state = snl.state_dict()
    first.load_state_dict(state | {"filter.w.1.weight": -state["filter.w.1.weight"]})
    return max(far, _most(first.operate(x) - snl.operate(x)))


def gsnl_is_snl(_: Evidence) -> float:
    """gSNL equals SNL with ``W₁ - W₃`` and ``W₂ + 2 W₃``."""
    (gsnl, x), (snl, _x) = _case("gsnl"), _case("snl")
    w = [gsnl.state_dict()[f"filter.w.{k}.weight"] for k in range(3)]
    state = {name: value for name, value in gsnl.state_dict().items() if name in snl.state_dict()}
    snl.load_state_dict(state | {"filter.w.0.weight": w[0] - w[2], "filter.w.1.weight": w[1] + 2 * w[2]})
    return _most(FORMULAS["gsnl"](gsnl, x, GRID) - snl.operate(x))


def cayley_is_spectral(_: Evidence) -> float:
    """The response of order 3 is ``θ₀ + 2 Σ_j θ_j cos(j φ)`` with ``e^{iφ} = (hλ - i) / (hλ + i)``."""
    block, x, values, vectors = _spectrum()
    zoom, weights = 1.7, (0.4, -0.7, 1.1, 0.3)
    turn = torch.complex(zoom * (1 - values), -torch.ones_like(values))
    angle = (turn / turn.conj()).angle()
    response = weights[0] + 2 * torch.stack([w * (j * angle).cos() for j, w in enumerate(weights[1:], 1)]).sum(0)
    ours = cayley(block.affinity(x), x, _scalars(*weights), zoom)
    return _most(ours - vectors @ (response.unsqueeze(-1) * (vectors.mT @ x)))


def only_the_true_cayley_is_bounded(_: Evidence) -> float:
    """How far ``2 Re C`` leaves [-2, 2] for any zoom; infinite if Eq. 22, ``2 (h²L² + I)``, stayed within it too."""
    block, x = _case("snl")
    affinity, eye = block.affinity(x), torch.eye(24, dtype=torch.float64).expand(2, 24, 24)
    beyond = -2.0
    for zoom in (0.1, 1.0, 10.0, 100.0):
        matrix = cayley(affinity, eye, _scalars(0.0, 1.0), zoom).detach()
        beyond = max(beyond, float(torch.linalg.eigvalsh((matrix + matrix.mT) / 2).abs().max()) - 2)
        printed = laplacian_squared(affinity, eye, (2 * _scalars(1.0)[0], 2 * zoom**2 * _scalars(1.0)[0])).detach()
    widest = float(torch.linalg.eigvalsh((printed + printed.mT) / 2).abs().max())
    return beyond if widest > 1000 else float("inf")


def _spectrum() -> tuple[NonlocalBlock, Tensor, Tensor, Tensor]:
    block, x = _case("snl")
    assert block.theta is not None
    assert block.phi is not None
    values, vectors = torch.linalg.eigh(plain.spectral_affinity(x, block.theta.weight, block.phi.weight))
    return block, x, values, vectors


def _scalars(*values: float) -> list[Tensor]:
    return [torch.tensor(v, dtype=torch.float64) for v in values]


def _most(difference: Tensor) -> float:
    return float(difference.detach().abs().max())


def parameters_match(_: Evidence) -> float:
    """How far the counts of the public code's 1000-way PreResNet-56 are missed, added up."""
    published = {"none": 1_190_008, "nl": 1_198_328, "ns": 1_198_328, "a2": 1_198_328, "snl": 1_200_376}
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
        misfits = {name: _misfit(name, alpha, beta) for name in ("nl", "ns", "snl")}
        if min(misfits["nl"], misfits["ns"]) < 1e-3:
            return float("inf")
        worst = max(worst, misfits["snl"])
    return worst


def _misfit(name: str, alpha: float, beta: float) -> float:
    block, x = _case(name, inner=12)
    affinity = block.affinity(x)
    wanted = (alpha - 1) * x + beta * (affinity @ x)  # the block adds to x
    inputs = torch.eye(12, dtype=torch.float64)
    with torch.no_grad():
        outputs = [parameter for parameter in block.filter.parameters()]
        responses = []
        for weight in outputs:  # what each output weight alone lets through, as columns
            for other in outputs:
                other.copy_(inputs if other is weight else torch.zeros_like(inputs))
            responses.append(block.filter(affinity, x, x))
        basis = torch.cat(responses, -1).flatten(0, 1)
        best = torch.linalg.lstsq(basis, wanted.flatten(0, 1)).solution
        for weight, found in zip(outputs, best.split(12), strict=True):
            weight.copy_(found.mT)
        return _most(block.filter(affinity, x, x) - wanted)


CLAIMS = (
    Claim("nl-filter", "NL is one term of a graph filter on the row-normalised affinity.", "Eqs. 1-5", "exact",
          is_its_formula("nl", "nl-gaussian"), ROUNDING),
    Claim("nl-kernels", "So it is with the dot product and the concatenation, normalised by size.", "Eqs. 1-5",
          "exact", is_its_formula("nl-dot", "nl-concatenation"), ROUNDING),
    Claim("ns-filter", "NS is the first-order graph filter with both weights tied.", "Eqs. 6-11", "exact",
          is_its_formula("ns"), ROUNDING),
    Claim("ns-nl", "NS is NL minus one product.", "Eq. 10", "exact", ns_is_nl_minus_one_product, ROUNDING),
    Claim("a2-filter", "Double attention is one term of a graph filter on a product of two softmaxes.", "Eqs. 12-13",
          "exact", is_its_formula("a2"), ROUNDING),
    Claim("a2-stochastic", "Rows of double attention's affinity sum to one.", "Eq. 13", "exact", a2_rows_sum_to_one,
          ROUNDING),
    Claim("cgnl-filter", "CGNL with one group is one term of a graph filter on a graph of N·C nodes.", "Eqs. 14-17",
          "exact", is_its_formula("cgnl", "cgnl-dot"), ROUNDING),
    Claim("cc-filter", "Criss-cross attention is one term of a graph filter on the masked affinity.", "Eqs. 18-19",
          "exact", is_its_formula("cc"), ROUNDING),
    Claim("cc-cross", "Criss-cross attention sees H + W - 1 positions at once, and all of them in two steps.",
          "Eqs. 18-19", "exact", criss_cross_sees_its_cross, ROUNDING),
    Claim("snl-filter", "SNL is the first-order filter on the symmetric, normalised affinity.", "Eq. 23", "exact",
          is_its_formula("snl"), ROUNDING),
    Claim("snl-bounded", "The eigenvalues of SNL's affinity lie in [-1, 1], as a Chebyshev filter needs.", "Sec. 2",
          "exact", eigenvalues_are_bounded, ROUNDING),
    Claim("snl-spectral", "SNL scales each frequency of the graph by a first-order response.", "Theorem 1", "exact",
          snl_is_spectral, ROUNDING),
    Claim("snl-represents", "With the affinity fixed, SNL represents every first-order filter; NL and NS do not.",
          "Eqs. 4, 9 and 23", "exact", only_snl_represents_every_filter, ROUNDING),
    Claim("gsnl-filter", "gSNL is a graph filter under the assumption A² = A.", "earlier paper", "exact",
          is_its_formula("gsnl"), ROUNDING),
    Claim("gsnl-snl", "gSNL can represent what SNL can, and nothing more.", "earlier paper", "exact", gsnl_is_snl,
          ROUNDING),
    Claim("chebysnl-filter", "ChebySNL of order 2 is its polynomial, written out in matrices.", "Theorem 1", "exact",
          is_its_formula("chebysnl"), ROUNDING),
    Claim("chebysnl-spectral", "ChebySNL of any order scales each frequency by its polynomial; of order 1 it is SNL.",
          "Theorem 1", "exact", chebyshev_is_spectral, ROUNDING),
    Claim("cayleysnl-filter", "CayleySNL is Eq. 22, with either affinity.", "Eqs. 22-23", "exact",
          is_its_formula("cayleysnl", "cayleysnl-relu"), ROUNDING),
    Claim("cayleyexact-filter", "CayleyExact is Eq. 20, computed without complex numbers.", "Eq. 20", "exact",
          is_its_formula("cayleyexact"), ROUNDING),
    Claim("cayley-spectral", "The Cayley filter of any order scales each frequency by cosines of its turn.", "Eq. 20",
          "exact", cayley_is_spectral, ROUNDING),
    Claim("cayley-bounded", "Terms of the Cayley filter are bounded for every zoom; those of the printed one are not.",
          "Eqs. 20 and 22", "exact", only_the_true_cayley_is_bounded, ROUNDING),
    Claim("parameters", "Parameters of PreResNet-56 without a block, with NL, NS or A2, and with SNL.", "public code",
          "exact", parameters_match, 0, paper="1,190,008 / 1,198,328 / 1,200,376"),
    above("snl-above-none", "SNL classifies better than no block.", "Table 1", better="snl", worse="none",
          metric="top1", unit="points of Top-1", paper="+1.08"),
    above("snl-above-nl", "SNL classifies better than NL.", "Table 1", better="snl", worse="nl", metric="top1",
          unit="points of Top-1", paper="+1.12"),
    above("snl-above-ns", "SNL classifies better than NS.", "Table 1", better="snl", worse="ns", metric="top1",
          unit="points of Top-1", paper="+1.02"),
)  # fmt: skip
