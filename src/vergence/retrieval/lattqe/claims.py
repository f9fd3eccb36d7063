"""The paper's claims, as tests that can fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from vergence.contract.claims import Claim, Evidence, above, compared, faster, parameter_counts
from vergence.contract.evidence import ROUNDING, apart, apart_with_gradients, filled, noise
from vergence.core.seeding import generator
from vergence.ops.expansion import aggregate, alpha_weights, aqe_weights, aqewd_weights, svm_duals
from vergence.reference import expansion as plain
from vergence.retrieval.lattqe.model import LAttQE, contrastive
from vergence.retrieval.lattqe.settings import ModelConfig
from vergence.retrieval.metrics import Truth, average_precision

SMALL = ModelConfig(layers=2, heads=4, width=24, ranks=6, dropout=0.0)
DIMENSION = 16


def _units(name: str, *shape: int) -> Tensor:
    return nn.functional.normalize(noise(*shape, seed=name), dim=-1)


def _model(settings: ModelConfig = SMALL, tempered: bool = False) -> LAttQE:
    return filled(LAttQE(settings, DIMENSION, tempered))


def _case(k: int = 6) -> tuple[Tensor, Tensor]:
    """Three queries with their neighbours."""
    return _units("query", 3, DIMENSION), _units("neighbours", 3, k, DIMENSION)


def lattqe_is_its_definition(_: Evidence) -> float:
    """Against a plain transformer, one token and one head at a time; the expanded query and every gradient."""
    model, (query, neighbours) = _model(replace(SMALL, auxiliary=0.0)), _case(5)
    state = dict(model.named_parameters())
    ours = model(query, neighbours)
    theirs = torch.stack(
        [plain.lattqe(q, list(n), state, SMALL.layers, SMALL.heads) for q, n in zip(query, neighbours, strict=True)]
    )
    return apart_with_gradients(ours, theirs, list(state.values()))


def weights_are_bounded(_: Evidence) -> float:
    """The query's weight is 1, no other is larger, and the expansion has length 1."""
    model, (query, neighbours) = _model(), _case()
    expanded, weights = model.expand(query, neighbours)
    excess, ones = (weights.abs() - 1).clamp(min=0), torch.ones(3)
    return max(apart(weights[:, 0], ones), float(excess.detach().max()), apart(expanded.norm(dim=1), ones))


def nothing_found_is_the_query(_: Evidence) -> float:
    """No neighbours, and neighbours that are all padding."""
    model, (query, neighbours) = _model(), _case()
    none = model(query, neighbours[:, :0])
    padded = model(query, neighbours, torch.ones(3, 6, dtype=torch.bool))
    return max(apart(none, query), apart(padded, query))


def without_ranks_a_set(_: Evidence) -> float:
    """Without ranks, a permutation of the neighbours permutes the weights and leaves the expansion."""
    model, (query, neighbours) = _model(replace(SMALL, position="none")), _case()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    expanded, weights = model.expand(query, neighbours)
    again, permuted = model.expand(query, neighbours[:, order])
    return max(apart(expanded, again), apart(weights[:, 1:][:, order], permuted[:, 1:]))


def with_ranks_a_list(_: Evidence) -> float:
    """The smallest change of the expansion when the neighbours are permuted, with ranks."""
    model, (query, neighbours) = _model(), _case()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    return float((model(query, neighbours) - model(query, neighbours[:, order])).norm(dim=1).min().detach())


def padding_is_nothing(_: Evidence) -> float:
    """A short list, against a longer one whose rest is padding with arbitrary values."""
    model, (query, neighbours) = _model(), _case()
    padding = torch.arange(6).expand(3, 6) >= 4
    expanded, weights = model.expand(query, neighbours, padding)
    short, fewer = model.expand(query, neighbours[:, :4])
    database = model.database_weights(query, neighbours, padding)
    rest = max(float(weights[:, 5:].detach().abs().max()), float(database[:, 5:].detach().abs().max()))
    return max(apart(expanded, short), apart(weights[:, :5], fewer), rest)


def equal_outputs_are_aqe(_: Evidence) -> float:
    """Encoders that give the same output for all: every weight is 1."""
    model, (query, neighbours) = _model(), _case()
    with torch.no_grad():
        last = model.layers[-1]
        assert isinstance(last, nn.TransformerEncoderLayer)
        last.norm2.weight.zero_()
    expanded, weights = model.expand(query, neighbours)
    ones = torch.ones_like(weights)
    return max(apart(weights, ones), apart(expanded, aggregate(query, neighbours, ones)))


def classics_meet(_: Evidence) -> float:
    """αQE is AQE at α = 0 and no expansion as α grows; AQEwD goes from 1 to 0; AQE of copies is the query."""
    query, neighbours = _case()
    similarities = torch.einsum("bd,bkd->bk", query, neighbours).abs().clamp(max=0.9)
    ones = aqe_weights(similarities)
    alone = torch.cat([ones[:, :1], torch.zeros_like(similarities)], 1)
    decayed = aqewd_weights(similarities)
    copies = query[:, None].expand(-1, 6, -1)
    return max(
        apart(alpha_weights(similarities, 0.0), ones),
        apart(alpha_weights(similarities, 1e4), alone),
        apart(decayed[:, 0], torch.ones(3)),
        apart(decayed[:, -1], torch.zeros(3)),
        apart(decayed[0, 1:], torch.tensor([5, 4, 3, 2, 1, 0]).double() / 6),
        apart(aggregate(query, copies, ones), query),
    )


def database_weights_are_shares(_: Evidence) -> float:
    """They sum to 1, and none is larger than the item's own."""
    model, (query, neighbours) = _model(tempered=True), _case()
    weights = model.database_weights(query, neighbours)
    return max(apart(weights.sum(1), torch.ones(3)), float((weights - weights[:, :1]).detach().max().clamp(min=0)))


def temperature_goes_between(_: Evidence) -> float:
    """At infinite temperature it is AQE, at zero temperature the item itself."""
    model, (query, neighbours) = _model(tempered=True), _case()
    assert model.log_temperature is not None
    with torch.no_grad():
        model.log_temperature.fill_(30.0)
        hot = model.augment(query, neighbours)[0]
        model.log_temperature.fill_(-30.0)
        cold = model.augment(query, neighbours)[0]
    return max(apart(hot, aggregate(query, neighbours, torch.ones(3, 7).double())), apart(cold, query))


def only_the_temperature_learns(_: Evidence) -> float:
    """The number of parameters other than the temperature with a gradient in the second phase; it must have one."""
    model, (query, neighbours) = _model(), _case()
    model.temper()
    augmented = model.double().augment(query, neighbours)[0]
    contrastive(augmented, _units("positive", 3, DIMENSION), _units("negatives", 3, 2, DIMENSION), 0.1).backward()
    moved = [name for name, p in model.named_parameters() if p.grad is not None and bool((p.grad != 0).any())]
    return float(len(set(moved) ^ {"log_temperature"}))


def rotations_do_not_matter_to_classics(_: Evidence) -> float:
    """AQE, αQE and DQE of rotated descriptors are rotated."""
    query, neighbours = _case()
    turn = torch.linalg.qr(_units("turn", DIMENSION, DIMENSION)).Q
    worst = 0.0
    for method in (aqe_weights, alpha_weights, _dqe):
        sides = []
        for q, n in ((query, neighbours), (query @ turn, neighbours @ turn)):
            seen = torch.einsum("bd,bkd->bk", q, n) if method is not _dqe else torch.cat([q[:, None], n], 1)
            sides.append(aggregate(q, n, method(seen)))
        worst = max(worst, apart(sides[0] @ turn, sides[1]))
    return worst


def _dqe(vectors: Tensor) -> Tensor:
    """Weights of an SVM with the last two neighbours as negatives."""
    labels = torch.ones(vectors.shape[:2], dtype=torch.float64)
    labels[:, -2:] = -1
    return svm_duals(vectors, labels, 0.1, tolerance=1e-13)


def rotations_matter_to_lattqe(_: Evidence) -> float:
    """Distance between LAttQE of rotated descriptors and its rotated expansion."""
    model, (query, neighbours) = _model(), _case()
    turn = torch.linalg.qr(_units("turn", DIMENSION, DIMENSION)).Q
    difference = model(query, neighbours) @ turn - model(query @ turn, neighbours @ turn)
    return float(difference.norm(dim=1).min().detach())


def dqe_is_the_svm(_: Evidence) -> float:
    """Duality gap of each SVM: zero at the optimum."""
    vectors = _units("svm", 4, 9, DIMENSION)
    labels = torch.tensor([1.0, 1, 1, 1, 1, 1, -1, -1, -1], dtype=torch.float64).expand(4, 9)
    worst = 0.0
    for c in (0.1, 1.0, 10.0):
        signed = svm_duals(vectors, labels, c, tolerance=1e-13)
        normal, bias = torch.einsum("bn,bnd->bd", signed, vectors), signed.sum(1)
        margins = labels * (torch.einsum("bnd,bd->bn", vectors, normal) + bias[:, None])
        size = normal.square().sum(1) + bias.square()
        primal, dual = size / 2 + c * (1 - margins).clamp(min=0).sum(1), (signed * labels).sum(1) - size / 2
        worst = max(worst, float((primal - dual).abs().max()))
    return worst


def precision_is_the_benchmarks(_: Evidence) -> float:
    """Against one list at a time in plain Python, over random lists with junk, and two closed forms."""
    source = generator("claims", "precision")
    far = torch.rand(20, 40, generator=source, dtype=torch.float64)
    marks = torch.randint(0, 4, (20, 40), generator=source)  # 0 positive, 1 junk, others wrong
    truth = Truth([(m == 0).nonzero()[:, 0] for m in marks], [(m == 1).nonzero()[:, 0] for m in marks])
    ours = average_precision(far, truth, range(20))
    theirs = [
        plain.average_precision(row.argsort().tolist(), set(p.tolist()), set(j.tolist()))
        for row, p, j in zip(far, truth.positives, truth.junk, strict=True)
    ]
    line = torch.arange(10.0)[None]
    nothing = torch.tensor([], dtype=torch.int64)
    single = [
        float(average_precision(line, Truth([torch.tensor([r])], [nothing]), [0])) - (0.5 / (r + 1) if r else 1.0)
        for r in range(10)
    ]
    return max(apart(ours, torch.tensor(theirs, dtype=torch.float64)), max(map(abs, single)))


def junk_never_hurts(_: Evidence) -> float:
    """The smallest gain in average precision when wrong items of random lists are declared junk."""
    source = generator("claims", "junk")
    far = torch.rand(50, 30, generator=source, dtype=torch.float64)
    marks = torch.randint(0, 3, (50, 30), generator=source)
    positives, nothing = [(m == 0).nonzero()[:, 0] for m in marks], [torch.tensor([], dtype=torch.int64)] * 50
    junk = [(m == 1).nonzero()[:, 0] for m in marks]
    gained = average_precision(far, Truth(positives, junk), range(50)) - average_precision(
        far, Truth(positives, nothing), range(50)
    )
    return float(gained.min())


_POINTS = "points of mAP"
_PART = "Table 2 (mean of four)"


def _over_the_best(k: int) -> Claim:
    """LAttQE against the best of four baselines, all with ``k`` neighbours."""
    metric, rivals = f"map_{k}", ("none", "aqe", "alpha", "dqe")

    def lead(of: Mapping[str, Mapping[str, float]]) -> float:
        return of["lattqe"][metric] - max(of[rival][metric] for rival in rivals)

    least = {2: -1.0, 4: -1.0, 16: 2.0, 64: 5.0}[k]
    amount = f"above by more than {least:g} points" if least > 0 else f"not below by more than {-least:g} point"
    statement = f"With {k} neighbours LAttQE is {amount}, against the best of no expansion, AQE, αQE and DQE."
    runs = {variant: variant for variant in ("lattqe", *rivals)}
    return compared(f"k-{k}", statement, "Fig. 3", runs, lead, threshold=least, unit=_POINTS)


CLAIMS = (
    Claim("lattqe-definition", "LAttQE averages untouched descriptors by the cosines of what encoders make of them, "
          "forward and backward.", "Eqs. 1-3", "check", lattqe_is_its_definition, ROUNDING),
    Claim("weights-bounded", "The query's weight is 1, no other is larger, and the expanded query has length 1.",
          "Eq. 3", "check", weights_are_bounded, ROUNDING),
    Claim("nothing-found", "Without neighbours the query stays as it is.", "Eq. 1", "check", nothing_found_is_the_query,
          ROUNDING),
    Claim("set-without-ranks", "Without positional encoding the neighbours are a set.", "Sec. 3.3", "exact",
          without_ranks_a_set, ROUNDING),
    Claim("list-with-ranks", "With positional encoding the order of the neighbours matters.", "Sec. 3.3", "check",
          with_ranks_a_list, 1e-3, "above"),
    Claim("padding", "Padding has no effect on weights or expansion.", "Sec. 4.1", "check", padding_is_nothing,
          ROUNDING),
    Claim("contains-aqe", "Where the encoders make the same of everyone, LAttQE is AQE.", "Eq. 3, Table 1", "check",
          equal_outputs_are_aqe, ROUNDING),
    Claim("classics", "AQE, AQEwD and αQE are as defined at their ends.", "Table 1", "check", classics_meet, ROUNDING),
    Claim("dqe-svm", "DQE's weights solve the dual of a linear SVM.", "Table 1", "check", dqe_is_the_svm, ROUNDING),
    Claim("database-shares", "Weights for a database are shares, the item's own the largest.", "Eq. 4", "check",
          database_weights_are_shares, ROUNDING),
    Claim("temperature", "A hot softmax gives AQE, a cold one leaves the database as it is.", "Eq. 4", "check",
          temperature_goes_between, ROUNDING),
    Claim("only-temperature", "The second part of the curriculum moves the temperature and nothing else.", "Sec. 3.4",
          "check", only_the_temperature_learns, 0),
    Claim("classics-rotate", "Rotating all descriptors rotates the expansions of AQE, αQE and DQE.", "Table 1", "check",
          rotations_do_not_matter_to_classics, 1e-9),
    Claim("lattqe-does-not-rotate", "LAttQE depends on the axes of the descriptors it was trained on.", "Eq. 2",
          "check", rotations_matter_to_lattqe, 1e-3, "above"),
    Claim("precision", "Average precision is that of the revisited benchmarks: junk removed, trapezoids.", "Sec. 4.2",
          "check", precision_is_the_benchmarks, ROUNDING),
    Claim("junk", "Declaring wrong items junk never lowers average precision.", "Sec. 4.2", "check", junk_never_hurts,
          0, "at least"),
    parameter_counts("parameters", "Three encoders of 2048 numbers, 64 ranks, the query's and a classifier have "
                     "75,694,081 parameters.", "Sec. 4.1", {"paper": 75_694_081}),
    faster("cheap", "Describing a query at one of its three scales takes at least 10 times as long as expanding it.",
           "Sec. 4.3, inference time", "one-query", "describing", threshold=10, paper="about 62 (three scales)"),
    *(_over_the_best(k) for k in (2, 4, 16, 64)),
    compared("aqe-falls", "AQE is worse with 64 neighbours than with 2.", "Fig. 3 (i)", {"run": "aqe"},
             lambda of: of["run"]["map_2"] - of["run"]["map_64"], unit=_POINTS),
    compared("lattqe-rises", "LAttQE still improves from 16 neighbours to 64.", "Fig. 3 (iii)", {"run": "lattqe"},
             lambda of: of["run"]["map_64"] - of["run"]["map_16"], unit=_POINTS),
    compared("database", "LAttQE in a database augmented by LAttDBA is better than LAttQE alone.", "Table 3",
             {"run": "lattqe"}, lambda of: of["run"]["dba"] - of["run"]["map"], unit=_POINTS, paper="+3.3"),
    above("database-above-alpha", "LAttDBA with LAttQE is better than αDBA with αQE.", "Table 3", better="lattqe",
          worse="alpha", metric="dba", unit=_POINTS, paper="+1.8"),
    above("attention", "LAttQE with self-attention is better than without.", _PART, better="lattqe",
          worse="no-attention", metric="map", unit=_POINTS, paper="+4.0"),
    above("ranks", "LAttQE with positional encoding is better than without.", _PART, better="lattqe",
          worse="no-position", metric="map", unit=_POINTS, paper="+6.8"),
    above("content", "LAttQE with descriptors is better than with ranks alone.", _PART, better="lattqe",
          worse="no-content", metric="map", unit=_POINTS, paper="+4.9"),
    above("auxiliary", "LAttQE with the auxiliary loss is better than without.", _PART, better="lattqe",
          worse="no-auxiliary", metric="map", unit=_POINTS, paper="+1.5"),
)  # fmt: skip
