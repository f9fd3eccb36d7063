"""The functions behind the exact claims: consequences of the appendix's formulas, measured in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise
from vergence.nn import BLOCKS, ChebyshevNonlocal, NonlocalBlock
from vergence.ops import DenseAffinity, Graph, cayley, chebyshev, connect, laplacian_squared
from vergence.recognition.snl.model import build
from vergence.recognition.snl.settings import Block, ModelConfig
from vergence.reference import nonlocal_block as plain
from vergence.reference.blocks import FORMULAS

GRID = (4, 6)


def _case(name: str, inner: int | None = None) -> tuple[NonlocalBlock, Tensor]:
    """A block of 12 channels filled with noise, and tokens (2, 24, 12), in float64."""
    return filled(BLOCKS[name](12, inner), name), noise(2, 24, 12, seed="tokens")


def is_its_formula(*names: str) -> Callable[[Evidence], float]:
    """Difference of blocks, as graph and filter, from their papers' formulas, forward and backward."""

    def measure(_: Evidence) -> float:
        worst = 0.0
        for name in names:
            for inner in (4, 16):  # thin factors, and factors wider than the matrix
                block, x = _case(name, inner)
                leaves = [p for n, p in block.named_parameters() if not n.startswith("norm.")]
                ours, theirs = block.operate(x, GRID), FORMULAS[name](block, x, GRID)
                worst = max(worst, apart_with_gradients(ours, theirs, leaves))
        return worst

    return measure


def ns_is_nl_minus_one_product(_: Evidence) -> float:
    """``NS = NL - Z W`` for the same weights."""
    (nl, x), (ns, _x) = _case("nl"), _case("ns")
    ns.load_state_dict(nl.state_dict())
    return apart(ns.operate(x), nl.operate(x) - nl.g(x) @ nl.filter.get_parameter("w.weight").mT)


def a2_rows_sum_to_one(_: Evidence) -> float:
    block, x = _case("a2")
    ones = torch.ones(2, 24, 1, dtype=torch.float64)
    return apart(block.affinity(x) @ ones, ones)


def criss_cross_sees_its_cross(_: Evidence) -> float:
    """Rows without exactly H + W - 1 positive entries, and entries of A² that are zero."""
    block, x = _case("cc")
    matrix = block.affinity(x, GRID).rows(torch.arange(24)).detach()
    wrong = ((matrix > 0).sum(-1) != sum(GRID) - 1).sum() + (matrix @ matrix <= 0).sum()
    return float(wrong) + abs(float(matrix.sum(-1).mean()) - 1)


def eigenvalues_are_bounded(_: Evidence) -> float:
    """How far the spectrum of the block's affinity exceeds [-1, 1]."""
    block, x = _case("snl")
    return float(torch.linalg.eigvalsh(block.affinity(x).rows(torch.arange(24)).detach()).abs().max()) - 1


def snl_is_spectral(_: Evidence) -> float:
    """With scalar weights, ``Z θ₀ + A Z θ₁ = U (θ₀ + θ₁ Λ) Uᵀ Z`` for the eigenvectors of the dense matrix."""
    block, x, values, vectors = _spectrum()
    ours = chebyshev(block.affinity(x), x, _scalars(0.7, -1.3))
    return apart(ours, _response(0.7 - 1.3 * values, vectors, x))


def chebyshev_is_spectral(_: Evidence) -> float:
    """``Σ_k θ_k T_k(-λ)`` is the response of order 5, by cosines; and order 1 with ``-W₂`` is SNL."""
    block, x, values, vectors = _spectrum()
    weights = (0.4, -0.7, 1.1, 0.3, -0.5, 0.9)
    signed = _scalars(*((-1) ** k * w for k, w in enumerate(weights)))
    angle = (-values).clamp(-1, 1).acos()
    response = torch.stack([w * (k * angle).cos() for k, w in enumerate(weights)]).sum(0)
    far = apart(chebyshev(block.affinity(x), x, signed), _response(response, vectors, x))
    first, state = ChebyshevNonlocal(12, order=1).double(), block.state_dict()
    first.load_state_dict(state | {"filter.w.1.weight": -state["filter.w.1.weight"]})
    return max(far, apart(first.operate(x), block.operate(x)))


def gsnl_is_snl(_: Evidence) -> float:
    """gSNL equals SNL with ``W₁ - W₃`` and ``W₂ + 2 W₃``; and SNL equals gSNL with any ``W₃``, with ``W₁ + W₃`` and
    ``W₂ - 2 W₃`` beside it."""
    (gsnl, x), (snl, _x) = _case("gsnl"), _case("snl")
    w = [gsnl.state_dict()[f"filter.w.{k}.weight"].clone() for k in range(3)]
    state = {name: value for name, value in gsnl.state_dict().items() if name in snl.state_dict()}
    snl.load_state_dict(state | {"filter.w.0.weight": w[0] - w[2], "filter.w.1.weight": w[1] + 2 * w[2]})
    there = apart(FORMULAS["gsnl"](gsnl, x, GRID), snl.operate(x))
    snl.load_state_dict(state)
    gsnl.load_state_dict(state | {"filter.w.0.weight": w[0] + w[2], "filter.w.1.weight": w[1] - 2 * w[2],
                                  "filter.w.2.weight": w[2]})  # fmt: skip
    return max(there, apart(FORMULAS["gsnl"](gsnl, x, GRID), snl.operate(x)))


def the_printed_zoom_is_none(_: Evidence) -> float:
    """Eq. 22 is ``Z V₁ + L² Z V₂`` with ``V₁ = W₁ + 2 W₂`` and ``V₂ = 2 W_h W₂``; and any ``V₁``, ``V₂`` are obtained
    with ``W_h = I/2``, that is without a learnt zoom."""
    block, x = _case("cayleysnl-relu")
    matrix = block.affinity(x).dense()
    laplacian = torch.eye(24, dtype=torch.float64) - matrix
    z, state = block.g(x), block.state_dict()
    w1, w2, wh = (state[f"filter.{name}.weight"].mT.clone() for name in ("w1", "w2", "wh"))
    there = apart(block.operate(x), z @ (w1 + 2 * w2) + laplacian @ laplacian @ z @ (2 * wh @ w2))
    half = torch.eye(len(wh), dtype=torch.float64) / 2
    block.load_state_dict(state | {"filter.w1.weight": (w1 - 2 * w2).mT, "filter.wh.weight": half})
    return max(there, apart(block.operate(x), z @ w1 + laplacian @ laplacian @ z @ w2))


def cayley_is_spectral(_: Evidence) -> float:
    """The response of order 3 is ``θ₀ + 2 Σ_j θ_j cos(j φ)`` with ``e^{iφ} = (hλ - i) / (hλ + i)``."""
    block, x, values, vectors = _spectrum()
    zoom, weights = 1.7, (0.4, -0.7, 1.1, 0.3)
    turn = torch.complex(zoom * (1 - values), -torch.ones_like(values))
    angle = (turn / turn.conj()).angle()
    response = weights[0] + 2 * torch.stack([w * (j * angle).cos() for j, w in enumerate(weights[1:], 1)]).sum(0)
    ours = cayley(block.affinity(x), x, _scalars(*weights), zoom)
    return apart(ours, _response(response, vectors, x))


def only_the_true_cayley_is_bounded(_: Evidence) -> float:
    """How far ``2 Re C`` exceeds [-2, 2] for any zoom; infinite if Eq. 22, ``2 (h²L² + I)``, stayed within it too."""
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


def _response(response: Tensor, vectors: Tensor, x: Tensor) -> Tensor:
    """Tokens (B, N, C) with each frequency, an eigenvector of ``vectors`` (B, N, N), scaled by ``response`` (B, N)."""
    return vectors @ (response.unsqueeze(-1) * (vectors.mT @ x))


def _scalars(*values: float) -> list[Tensor]:
    return [torch.tensor(v, dtype=torch.float64) for v in values]


def parameters_match(_: Evidence) -> float:
    """Summed difference from the parameter counts of the public code's 1000-way PreResNet-56."""
    published: dict[Block, int] = {
        "none": 1_190_008,
        "nl": 1_198_328,
        "ns": 1_198_328,
        "a2": 1_198_328,
        "snl": 1_200_376,
    }
    missed = 0
    for block, count in published.items():
        with torch.device("meta"):
            network = build(ModelConfig(block=block), classes=1000)
        missed += abs(sum(p.numel() for p in network.parameters()) - count)
    return float(missed)


def only_snl_represents_every_filter(_: Evidence) -> float:
    """Error of the blocks, with their best output weights, for the target ``y = αx + βAx`` (including the residual).

    The affinity is fixed and the node features are the input (``g`` is the identity), so the best weights are a least
    squares problem. NL adds ``A x W`` and NS ``(A x - x) W`` to ``x``: if either of them were exact for a target
    with α ≠ 1 and α + β ≠ 1, the claim would be wrong, and this is infinite.
    """
    worst = 0.0
    for alpha, beta in ((0.3, 0.4), (2.0, -1.5), (-0.5, 0.9)):
        misfits = {name: _misfit(name, alpha, beta) for name in ("nl", "ns", "snl")}
        if min(misfits["nl"], misfits["ns"]) < 1e-3:
            return float("inf")
        worst = max(worst, misfits["snl"])
    return worst


TARGETS = {"low-pass": (0.0, 1.0), "high-pass": (1.0, -1.0), "all-pass": (1.0, 0.0)}
"""``y = αx + βAx``: the average of the others, the difference from it, and the input."""
REACHED = {
    "nl": {"high-pass", "all-pass"},
    "ns": {"low-pass", "all-pass"},
    "snl": set(TARGETS),
    "gsnl": set(TARGETS),
    "chebysnl": set(TARGETS),
    "cayleysnl-relu": {"all-pass"},
    "cayleyexact": {"all-pass"},
}


def each_block_reaches_its_targets(_: Evidence) -> float:
    """Error of blocks with their best weights for the targets they are said to reach, including the residual; infinite
    if one came within 0.001 of another target. (The zooms of the Cayley filters are 1.)"""
    worst = 0.0
    for name, reached in REACHED.items():
        for target, weights in TARGETS.items():
            misfit = _misfit(name, *weights)
            if target in reached:
                worst = max(worst, misfit)
            elif misfit < 1e-3:
                return float("inf")
    return worst


def _misfit(name: str, alpha: float, beta: float) -> float:
    """Error of a block with its best output weights for ``αx + βAx`` on its own affinity, with g the identity."""
    block, x = _case(name, inner=12)
    affinity = block.affinity(x)
    wanted = (alpha - 1) * x + beta * (affinity @ x)  # the block adds to x
    inputs = torch.eye(12, dtype=torch.float64)
    with torch.no_grad():
        named = dict(block.filter.named_parameters())
        for fixed in ("wh.weight", "zoom"):  # fixed, so that the output weights are a linear problem
            if fixed in named:
                named.pop(fixed).copy_(inputs if fixed == "wh.weight" else torch.tensor(1.0))
        outputs = list(named.values())
        responses = []
        for weight in outputs:  # the response of each output weight alone, as columns
            for other in outputs:
                other.copy_(inputs if other is weight else torch.zeros_like(inputs))
            responses.append(block.filter(affinity, x, x))
        basis = torch.cat(responses, -1).flatten(0, 1)
        best = torch.linalg.lstsq(basis, wanted.flatten(0, 1), driver="gelsd").solution
        for weight, fitted in zip(outputs, best.split(12), strict=True):
            weight.copy_(fitted.mT)
        return apart(block.filter(affinity, x, x), wanted)


def large_objects_lie_low(_: Evidence) -> float:
    """For an object of n equal positions on a background of mutually different ones: error of the closed form of the
    mean frequency of its signal on SNL's graph; infinite if a larger object does not lie lower.

    Its signal is ``√d`` on the object and zero elsewhere (``√d`` everywhere is the frequency 0). With an affinity of ε
    between different positions, the mean of ``L`` over it is the share of the object's weight that leaves it:
    ``ε(N-n)/(n + ε(N-n))``.
    """
    count, epsilon, worst, before = 196, 0.02, 0.0, 1.0
    graph = Graph("relu", symmetrise=True, normalise="symmetric")
    for size in (2, 4, 9, 16, 36, 64, 100):
        alike = torch.eye(count, dtype=torch.float64)
        alike[:size] = alike[0]
        features = torch.cat([(1 - epsilon) ** 0.5 * alike, alike.new_full((count, 1), epsilon**0.5)], 1)[None]
        matrix = connect(features, features, graph).dense()[0]
        signal = (torch.arange(count) < size).double()  # all of the object has one degree, so √d is constant there
        measured = 1 - float(signal @ matrix @ signal / (signal @ signal))
        leaves = epsilon * (count - size)
        worst = max(worst, abs(measured - leaves / (size + leaves)))
        if measured >= before:
            return float("inf")
        before = measured
    return worst


def a_small_band_takes_a_true_zoom(_: Evidence) -> float:
    """How much a response within [-1, 1] can differ between frequency 0 and δ: difference of the operators
    from ``δ`` (first order), ``δ²/2`` (Eq. 22) and ``2 (1 + 1/(4h²)) h²δ² / (1 + h²δ²)`` (Eq. 20, zoom h); infinite
    unless Eq. 20 with the zoom 1/δ separates a narrow band best and Eq. 22 worst.

    Each response is a number and a number times one monotone function b of the frequency, so the best one goes from -1
    to 1 over [0, 2], and differs by ``2 (b(δ) - b(0)) / (b(2) - b(0))``.
    """
    worst = 0.0
    for width in (0.5, 0.1, 0.01):
        frequencies = torch.tensor([0.0, width, 2.0], dtype=torch.float64)
        graphs = DenseAffinity((1 - frequencies)[:, None, None])  # graphs of one node, whose eigenvalue is the matrix
        one = torch.ones(3, 1, 1, dtype=torch.float64)
        zoom = 1 / width
        responses = {
            "first": chebyshev(graphs, one, _scalars(0.0, 1.0)),
            "printed": laplacian_squared(graphs, one, (_scalars(0.0)[0], 2 * zoom**2 * _scalars(1.0)[0])),
            "cayley": cayley(graphs, one, _scalars(0.0, 1.0), zoom),
        }
        reached = {}
        for name, response in responses.items():
            zero, near, far = response.flatten().tolist()
            reached[name] = 2 * (near - zero) / (far - zero)
        wanted = {"first": width, "printed": width**2 / 2, "cayley": 1 + width**2 / 4}
        worst = max(worst, *(abs(reached[name] - value) for name, value in wanted.items()))
        if not reached["cayley"] > reached["first"] > reached["printed"]:
            return float("inf")
    return worst


def tokens_have_their_limits(_: Evidence) -> float:
    """Error of closed forms of the least squared error that each filter, with its residual, can reach on noisy tokens,
    where the affinity averages the n tokens of each prototype; infinite unless SNL alone is best in both tasks.

    The filter scales the means of prototypes by one gain and deviations from them by another. NL's residual fixes the
    second at 1, NS fixes the first at 1, SNL leaves both free.
    """
    groups, n, variance = 4, 16, 0.49
    identity = torch.eye(groups * n, dtype=torch.float64)
    mean = torch.block_diag(*[torch.full((n, n), 1 / n, dtype=torch.float64)] * groups)
    shrunk = variance / (n + variance)
    wanted = {
        "none": (variance / (1 + variance), variance / (1 + variance)),
        "nl": (variance * (1 - 1 / n) + shrunk, shrunk),
        "ns": (variance / n, 1.0),
        "snl": (shrunk, shrunk),
    }
    clean, disturbed = n * mean, n * mean + variance * identity  # covariances of tokens without and with noise
    reached = {}
    for name in wanted:
        terms = [identity] if name == "none" else _terms(name, mean)
        reached[name] = tuple(_least_error(terms, disturbed, part) for part in (clean, disturbed - clean))
    best = min(max(errors) for name, errors in reached.items() if name != "snl")
    off = max(abs(a - b) for name, errors in wanted.items() for a, b in zip(reached[name], errors, strict=True))
    return off if max(reached["snl"]) < best else float("inf")


def _terms(name: str, matrix: Tensor) -> list[Tensor]:
    """What each weight of a block's filter multiplies, as N x N matrices, on a given affinity."""
    count = len(matrix)
    block = BLOCKS[name](1, 1).double()
    weights = [weight for name, weight in block.filter.named_parameters() if name.startswith("w")]
    affinity, units = DenseAffinity(matrix.expand(count, -1, -1)), torch.eye(count, dtype=torch.float64)[:, :, None]
    terms = []
    with torch.no_grad():
        for weight in weights:
            for other in weights:
                other.fill_(float(other is weight))
            terms.append(block.filter(affinity, units, units)[:, :, 0].mT)
    return terms


def _least_error(terms: list[Tensor], covariance: Tensor, part: Tensor) -> float:
    """The least mean squared error of ``x + Σ w_k T_k x`` as an estimate of the independent part of ``x`` that has the
    covariance ``part``, over scalars w: a quadratic function of them."""
    gram = torch.stack([torch.stack([(a @ covariance * b).sum() for b in terms]) for a in terms])
    slope = torch.stack([(a * (part - covariance)).sum() for a in terms])
    w = torch.linalg.solve(gram, slope)
    return float((covariance - part).trace() - w @ slope) / len(covariance)
