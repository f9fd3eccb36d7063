"""The paper's claims, as tests that can fail: optimisation, limits, invariances and measurements."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vergence.contract.claims import Claim, Evidence, compared, parameter_counts
from vergence.contract.evidence import apart_with_gradients, filled, uniform
from vergence.core.seeding import generator
from vergence.ops.transport import barycentres, cosine_cost, gibbs, relaxation, scalings, sinkhorn, within
from vergence.points.flot.model import FLOT, as_published, build
from vergence.points.flot.settings import ModelConfig
from vergence.reference import scene_flow as plain

ROUNDING = 1e-9
"""Tolerance in float64; sums over all pairs lose one more digit than usual."""


def _clouds(n: int = 60, m: int = 50) -> tuple[Tensor, Tensor]:
    """Two clouds (1, N, 3) of a room 12 m wide, in which some pairs are out of reach."""
    return 12 * uniform(1, n, 3, seed="p"), 12 * uniform(1, m, 3, seed="q")


def _network(model: ModelConfig = ModelConfig(neighbours=8)) -> FLOT:
    """A network with random weights, and weights of entropy and mass that are small enough to matter."""
    network = filled(build(model))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.startswith("log_"):
                parameter.sub_(2)
    return network


# The optimisation ----------------------------------------------------------------------------------------------------


def algorithm_solves_the_problem(_: Evidence) -> float:
    """Residual of the optimality conditions of Eq. 2 after 2000 iterations of Alg. 1."""
    n, eps, mass = 40, 0.1, 0.3
    cost = 2 * uniform(n, n, seed="cost")
    plan = sinkhorn(cost, eps, mass, 2000)
    of_rows, of_columns = (n * plan.sum(1)).log().unsqueeze(1), (n * plan.sum(0)).log()
    return float((cost + eps * plan.log() + mass * of_rows + mass * of_columns).abs().max())


def fixed_mass_is_the_ideal_problem(_: Evidence) -> float:
    """Deviation of row and column sums from 1/n (the constraints of Eq. 1) with a mass weight of 1e9."""
    plan = sinkhorn(2 * uniform(40, 40, seed="cost"), 0.1, 1e9, 2000)
    return float(torch.cat([plan.sum(0), plan.sum(1)]).sub(1 / 40).abs().max())


def free_mass_is_flot0(_: Evidence) -> float:
    """Eq. 5: difference of the plan from ``exp(-C / eps)`` with a mass weight of 0, after any number of iterations."""
    cost = 2 * uniform(40, 30, seed="cost")
    return float((sinkhorn(cost, 0.1, 0.0, 5) - (-cost / 0.1).exp()).abs().max())


def flot0_is_attention(_: Evidence) -> float:
    """Eq. 8: the model's flow without iterations against masked softmax attention, forward and backward."""
    p, q = _clouds()
    x, y = (uniform(1, cloud.shape[1], 16, seed=name).requires_grad_() for name, cloud in (("x", p), ("y", q)))
    network = _network(ModelConfig(iterations=0, reach=6.0))
    ours = network.flow(network.kernel(x, y, p, q), p, q)
    scores = -cosine_cost(x, y) / network.eps
    near = (p.unsqueeze(2) - q.unsqueeze(1)).norm(dim=-1) < 6.0
    theirs = scores.masked_fill(~near, -math.inf).softmax(-1) @ q - p
    return apart_with_gradients(ours, theirs, [x, y, network.log_eps], relative=True)


def permutations_are_found(_: Evidence) -> float:
    """Eqs. 1 and 6 in the perfect world: error of the flow if matches cost 0 and other pairs more, for any mass."""
    p = 5 * uniform(30, 3, seed="p")
    order = torch.randperm(30, generator=generator("claims", "order"))
    truth = uniform(30, 3, seed="flow")
    q = torch.empty_like(p).index_copy(0, order, p + truth)
    cost = 1 + uniform(30, 30, seed="cost")
    cost[torch.arange(30), order] = 0
    kernel = gibbs(cost, 0.03)
    worst = 0.0
    for mass in (0.0, 0.01, 1.0, math.inf):
        b = scalings(kernel, relaxation(0.03, mass), 1)[1]
        worst = max(worst, float((barycentres(kernel, b, q)[0] - p - truth).abs().max()))
    return worst


# The network ---------------------------------------------------------------------------------------------------------


def network_is_the_published_one(_: Evidence) -> float:
    """The flow and every gradient, against the direct transcription with the same weights (K = 0, 1 and 3)."""
    p, q = _clouds()
    worst = 0.0
    for iterations in (0, 1, 3):
        network = _network(ModelConfig(iterations=iterations, neighbours=8, average="guarded"))
        theirs = plain.flot(p, q, as_published(network), iterations, k=8)
        # Without iterations the mass weight is not used.
        leaves = [w for name, w in network.named_parameters() if iterations or name != "log_mass"]
        worst = max(worst, apart_with_gradients(network(p, q)["flow"], theirs["flow"], leaves, relative=True))
    return worst


def order_does_not_matter(_: Evidence) -> float:
    """Permuting the first cloud permutes the flow; permuting the second changes nothing."""
    p, q = _clouds()
    network = _network()
    source = generator("claims", "order")
    of_p, of_q = torch.randperm(60, generator=source), torch.randperm(50, generator=source)
    with torch.no_grad():
        return float((network(p[:, of_p], q[:, of_q])["flow"] - network(p, q)["flow"][:, of_p]).abs().max())


def place_does_not_matter(_: Evidence) -> float:
    """Change of the flow if both clouds move by 100 m, and of the features if one cloud moves."""
    p, q = _clouds()
    network = _network()
    far = torch.tensor([100.0, -50.0, 80.0], dtype=torch.float64)
    with torch.no_grad():
        moved = (network(p + far, q + far)["flow"] - network(p, q)["flow"]).abs().max()
        graph = network.graph(q)
        alone = (network.features(q + far, q + far, graph) - network.features(q, q, graph)).abs().max()
    return float(torch.maximum(moved, alone))


def targets_are_between_candidates(_: Evidence) -> float:
    """The largest distance of a matched point outside the convex hull of the points within reach, measured along many
    directions. Infinite if a point without candidates moves."""
    p, q = _clouds()
    p = torch.cat([p, p.new_full((1, 1, 3), 100.0)], 1)  # far from everything
    network = _network(ModelConfig(reach=4.0, neighbours=8))
    with torch.no_grad():
        flow = network(p, q)["before"][0]
    near = within(p[0], q[0], 4.0)
    directions = torch.nn.functional.normalize(uniform(500, 3, seed="directions") - 0.5, dim=1)
    farthest = (q[0] @ directions.mT).expand(len(near), -1, -1).masked_fill(~near.unsqueeze(-1), -math.inf).amax(1)
    beyond = (p[0] + flow) @ directions.mT - farthest
    alone = ~near.any(1)
    if not alone.any() or flow[alone].abs().max() > 0:
        return math.inf
    return float(beyond[~alone].max())


def entropy_has_a_floor(_: Evidence) -> float:
    """The smallest weight of the entropy for values of the learnt parameter from -1000 to 10."""
    network = _network()
    values = []
    for value in (-1000.0, -24.1, -1.0, 0.0, 10.0):
        with torch.no_grad():
            network.log_eps.fill_(value)
        values.append(network.eps.item())
    return min(values)


PERFECT = "tiny-perfect"
SEEDS = 3
CLAIMS = (
    Claim("optimum", "Algorithm 1 converges to the optimum of the relaxed transport problem.", "Eq. 2, Alg. 1", "exact",
          algorithm_solves_the_problem, 1e-7),
    Claim("fixed-mass", "With mass worth without limit, the plan meets the ideal constraints.", "Eqs. 1 and 2", "exact",
          fixed_mass_is_the_ideal_problem, 1e-7),
    Claim("free-mass", "With mass worth nothing, the plan is the kernel of the cost: FLOT₀.", "Eq. 5", "exact",
          free_mass_is_flot0, ROUNDING),
    Claim("attention", "FLOT₀'s flow is softmax attention over the points within reach.", "Eq. 8", "exact",
          flot0_is_attention, ROUNDING),
    Claim("perfect-world", "Where partners cost nothing, the transport gives the true flow, whatever mass is worth.",
          "Eqs. 1 and 6", "exact", permutations_are_found, ROUNDING, unit="m"),
    Claim("published-form", "The fast network is the published one, forward and backward (K = 0, 1, 3).",
          "Fig. 1, Eqs. 3-7", "check", network_is_the_published_one, 1e-7),
    Claim("order", "The flow follows its points when they are reordered; the order of the second cloud is nothing.",
          "Sec. 3.2", "check", order_does_not_matter, ROUNDING, unit="m"),
    Claim("place", "Moving both clouds together leaves the flow alone; so do features of one cloud that moves.",
          "public code", "check", place_does_not_matter, ROUNDING, unit="m"),
    Claim("hull", "A matched point lies between the points within reach; one without any stays where it is.", "Eq. 6",
          "check", targets_are_between_candidates, ROUNDING, unit="m"),
    Claim("entropy-floor", "The weight of the entropy never falls below 0.03.", "Sec. 3.3", "check",
          entropy_has_a_floor, 0.03, "at least", paper="0.03"),
    parameter_counts("parameters", "Trainable parameters.", "Table 2", {"paper": 111_109}, "0.11 M (111,109)"),
    compared("transport-helps", "In the perfect world, an iteration of transport beats none (EPE before refinement).",
             "Table 1", {"one": ("flot", PERFECT), "none": ("flot0", PERFECT)},
             lambda of: of["none"]["epe_before"] - of["one"]["epe_before"], seeds=SEEDS, unit="m of EPE",
             paper="+0.0016"),
    compared("refinement-helps", "In the resampled world, refinement makes the flow better (EPE before and after).",
             "Table 1", {"run": "flot"}, lambda of: of["run"]["epe_before"] - of["run"]["epe"], seeds=SEEDS,
             unit="m of EPE", paper="+0.0936"),
    compared("mass-follows-world", "Mass is held tighter in the perfect world than in the resampled one (K = 1).",
             "Table 1", {"perfect": ("flot", PERFECT), "resampled": "flot"},
             lambda of: of["perfect"]["power"] - of["resampled"]["power"], seeds=SEEDS, unit="of λ/(λ+eps)",
             paper="+0.06"),
    compared("cost-must-be-learnt", "With distance as the cost, flow is worse than with learnt features.", "Sec. 3.2",
             {"learnt": "flot", "distance": "euclidean"}, lambda of: of["distance"]["epe"] - of["learnt"]["epe"],
             seeds=SEEDS, unit="m of EPE"),
    compared("above-nearest", "FLOT's flow is better than that of nearest neighbours.", "our floor",
             {"flot": "flot", "floor": "nearest"}, lambda of: of["floor"]["epe"] - of["flot"]["epe"], seeds=SEEDS,
             unit="m of EPE"),
    compared("above-zero", "FLOT's flow is better than none.", "our floor", {"flot": "flot", "floor": "zero"},
             lambda of: of["floor"]["epe"] - of["flot"]["epe"], seeds=SEEDS, unit="m of EPE"),
)  # fmt: skip
