"""Exact properties of cost volumes, densities, losses and cues; and what sampling keeps, without any training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.claims import Claim, Evidence, parameter_counts
from vergence.contract.evidence import ROUNDING, apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.matching.pyramidflow.model import Level, PyramidFlow, build, flow_loss
from vergence.matching.pyramidflow.settings import SETTINGS, ModelConfig
from vergence.matching.squares import Moved, found_flow, missed, moved_squares, picked
from vergence.ops import cost_volume as volumes
from vergence.ops.cost_volume import Cost, sampled_cost_volume, warped_cost_volume
from vergence.ops.density import density2vector, loss_max_pooling, vector2density
from vergence.ops.flow import disagreement, flow_cues, reversed_flow, uniqueness, warp
from vergence.reference import cost_volume as plain

COSTS: tuple[Cost, ...] = ("corr", "sad")


def _features(channels: int = 5, height: int = 7, width: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Features of two frames and a flow that leaves the picture here and there, all leaves."""
    first, second = (noise(2, channels, height, width, seed=name).requires_grad_() for name in ("first", "second"))
    return first, second, (3 * noise(2, 2, height, width, seed="flow")).requires_grad_()


# Cost volumes ---------------------------------------------------------------------------------------------------------


def sampled_is_its_definition(_: Evidence) -> float:
    """Eqs. 2 and 3 and their gradients against a loop over displacements."""
    leaves = _features()
    worst = 0.0
    for metric in COSTS:
        for reach in (0, 1, 4):
            ours, theirs = (f(*leaves, reach, metric) for f in (sampled_cost_volume, plain.sampled))
            worst = max(worst, apart_with_gradients(ours, theirs, leaves))
    return worst


def without_compiled_kernels(_: Evidence) -> float:
    """The same for the form in PyTorch alone."""
    first, second, flow = leaves = _features()
    one, two, way = (leaf.detach() for leaf in leaves)
    worst = 0.0
    for metric in COSTS:
        for reach in (0, 2):
            costs = plain.sampled(first, second, flow, reach, metric)
            probe = noise(*costs.shape, seed="probe")
            grads = torch.autograd.grad(costs, leaves, probe)
            absolute = metric == "sad"
            ours = volumes.backward_in_torch(probe, one, two, way, reach, absolute)
            found = [volumes.sampled_in_torch(one, two, way, reach, absolute), *ours]
            found.append(volumes.shifted_in_torch(one, two, reach, absolute))
            still = plain.sampled(one, two, torch.zeros_like(way), reach, metric)
            worst = max(worst, *(apart(a, b) for a, b in zip(found, (costs, *grads, still), strict=True)))
    return worst


def warped_is_its_definition(_: Evidence) -> float:
    """Eq. 1 and its gradients against warping and shifting."""
    leaves = _features()
    worst = 0.0
    for metric in COSTS:
        ours, theirs = (f(*leaves, 4, metric) for f in (warped_cost_volume, plain.warped))
        worst = max(worst, apart_with_gradients(ours, theirs, leaves))
    return worst


def both_agree_without_displacement(_: Evidence) -> float:
    """Eqs. 1 and 2 at δ = 0 for any flow; infinite if they agree elsewhere, too."""
    one, two, way = (leaf.detach() for leaf in _features())
    worst = 0.0
    for metric in COSTS:
        sampled, warped = (f(one, two, way, 4, metric) for f in (sampled_cost_volume, warped_cost_volume))
        worst = max(worst, apart(sampled[:, 40], warped[:, 40]))
        if apart(sampled[:, 41], warped[:, 41]) < 1e-3:
            return math.inf
    return worst


def both_agree_for_one_motion(_: Evidence) -> float:
    """Eqs. 1 and 2 for all δ where the flow is the same everywhere, for displaced pixels inside of the picture."""
    first, second, _flow = (leaf.detach() for leaf in _features(5, 15, 17))
    worst = 0.0
    for motion in ((2.0, -1.0), (0.3, 1.7)):
        flow = torch.tensor(motion, dtype=torch.float64).view(1, 2, 1, 1).expand(2, 2, 15, 17)
        for metric in COSTS:
            sampled, warped = (f(first, second, flow, 3, metric) for f in (sampled_cost_volume, warped_cost_volume))
            worst = max(worst, apart(sampled[..., 3:-3, 3:-3], warped[..., 3:-3, 3:-3]))
    return worst


def zero_flow_is_plain_correlation(_: Evidence) -> float:
    """Both volumes with zero flow, and without flow, against shifted products."""
    first, second, flow = (leaf.detach() for leaf in _features())
    still = torch.zeros_like(flow)
    around = F.pad(second, (1, 1, 1, 1))
    shifted = [(first * around[..., y : y + 7, x : x + 9]).mean(1) for y in range(3) for x in range(3)]
    theirs = torch.stack(shifted, 1)
    ours = [f(first, second, f0, 1) for f in (sampled_cost_volume, warped_cost_volume) for f0 in (still, None)]
    return max(apart(costs, theirs) for costs in ours)


def _start(scene: Moved) -> Tensor:
    """Whole flow that is wrong by up to 3 pixels, pixel by pixel."""
    source = generator("squares", "start")
    return scene.truth + torch.randint(-3, 4, scene.truth.shape, generator=source)


def sampling_finds_every_match(_: Evidence) -> float:
    """Pixels that are seen in both frames whose true match is not the least of Eq. 3, or not zero there."""
    wrong = 0.0
    for seed in range(3):
        scene = moved_squares(seed)
        start = _start(scene)
        costs = sampled_cost_volume(scene.first, scene.second, start, 4, "sad")
        off = (start + picked(costs, "sad", 4) - scene.truth).abs().amax(1)[0] > 0
        wrong += float((off | (costs.amin(1)[0] > 0) | (costs < 0).any(1)[0])[scene.seen].sum())
    return wrong


def warping_misses_matches(_: Evidence) -> float:
    """Share of the same pixels that warping does not find."""
    shares = []
    for seed in range(3):
        scene = moved_squares(seed)
        off = (found_flow(scene, warped_cost_volume, _start(scene), "sad") - scene.truth).abs().amax(1)[0] > 0
        shares.append(float(off[scene.seen].double().mean()))
    return sum(shares) / len(shares)


SETUPS = [(whole, smooth) for whole in (True, False) for smooth in (False, True)]


def sampling_keeps_small_things(_: Evidence) -> float:
    """The least lead of sampling over warping, in all eight settings."""
    return min(
        missed(warped_cost_volume, metric, *setup) - missed(sampled_cost_volume, metric, *setup)
        for setup in SETUPS
        for metric in COSTS
    )


def differences_keep_more(_: Evidence) -> float:
    """The least lead of absolute differences over correlation when sampling, in four settings."""
    return min(
        missed(sampled_cost_volume, "corr", *setup) - missed(sampled_cost_volume, "sad", *setup) for setup in SETUPS
    )


# Gradients ------------------------------------------------------------------------------------------------------------


def _network(**switches: object) -> PyramidFlow:
    model = ModelConfig(
        "vgg",
        (4, 5, 6),
        convs=1,
        levels=3,
        reach=2,
        width=6,
        carried=4,
        context=False,
        corners=False,
        **switches,  # type: ignore[arg-type]
    )
    network = filled(build(model))
    with torch.no_grad():  # so that the densities have clear peaks
        for decoder in network.decoders:
            decoder.head[-1].weight.mul_(20)  # type: ignore[union-attr, index]
    return network


def _pair() -> tuple[Tensor, Tensor]:
    return noise(2, 3, 16, 24, seed="one"), noise(2, 3, 16, 24, seed="two")


def _level_loss(network: PyramidFlow, number: int) -> tuple[Tensor, list[Level]]:
    """The loss of one level alone, and all levels."""
    found = network.levels(*_pair())
    truth = 2 * noise(4, 2, 16, 24, seed="truth")
    valid = torch.ones(4, 16, 24, dtype=torch.bool)
    return flow_loss(found[number : number + 1], truth, valid, network.settings), found


def stopped_gradients(_: Evidence) -> float:
    """With the stop, the gradient of a level's loss at the heads of all coarser levels is zero, for both heads and
    volumes; infinite if it is zero without the stop, or if the encoder gets none."""
    worst = 0.0
    heads: tuple[Mapping[str, object], ...] = ({}, {"head": "regression", "volume": "warped"})
    for switches in heads:
        for stop in (True, False):
            network = _network(cues=False, stop=stop, **switches)
            for level in (1, 2):
                loss, _levels = _level_loss(network, level)
                coarser = [p for d in list(network.decoders)[:level] for p in d.head[-1].parameters()]  # type: ignore[union-attr, index]
                encoder = next(network.encoder.parameters())
                *grads, features = torch.autograd.grad(loss, [*coarser, encoder], allow_unused=True)
                size = max((float(g.abs().max()) for g in grads if g is not None), default=0.0)
                if features is None or not features.abs().max() > 0 or (not stop and size < 1e-9):
                    return math.inf
                worst = max(worst, size if stop else 0.0)
    return worst


def stopping_changes_no_value(_: Evidence) -> float:
    """Flow and scores of every level with and without the stop."""
    with torch.no_grad():
        one, other = (_network(stop=stop).levels(*_pair()) for stop in (True, False))
    return max(max(apart(a.flow, b.flow), apart(a.scores, b.scores)) for a, b in zip(one, other, strict=True))


def gradient_jumps_at_whole_places(_: Evidence) -> float:
    """Eq. 6: the derivative of interpolation at x is ``f(⌊x⌋ + 1) - f(⌊x⌋)``, so that it jumps by the second difference
    where x passes a whole number: the least jump over the deviation from that."""
    row = noise(1, 1, 1, 9, seed="row")
    slopes = []
    for place in (4 - 1e-6, 4 + 1e-6):
        flow = torch.zeros(1, 2, 1, 9, dtype=torch.float64)
        flow[0, 0, 0, 0] = place
        flow.requires_grad_()
        (slope,) = torch.autograd.grad(warp(row, flow)[0, 0, 0, 0], flow)
        slopes.append(float(slope[0, 0, 0, 0]))
    values = row.flatten().tolist()
    before, after = values[4] - values[3], values[5] - values[4]
    if abs(slopes[0] - before) > 1e-8 or abs(slopes[1] - after) > 1e-8:
        return 0.0
    return abs(slopes[1] - slopes[0])


# Densities and losses -------------------------------------------------------------------------------------------------


def densities_keep_vectors(_: Evidence) -> float:
    """``density2vector(log vector2density(v)) = v`` within the reach, borders included, and mass one."""
    worst = 0.0
    for reach in (2, 4, 8):
        vector = reach * (2 * uniform(1, 2, 20, 20, seed="vector") - 1)
        vector[0, :, 0, :5] = torch.tensor([[-reach, reach, 0, 1, -reach], [reach, reach, 0, -1, 0.5]])
        density = vector2density(vector, reach)
        worst = max(worst, apart(density2vector(density.clamp_min(1e-300).log()), vector))
        worst = max(worst, float((density.sum(1) - 1).abs().max()))
    return worst


def hardest_pixels_by_linear_programming(_: Evidence) -> float:
    """Eq. 4 against its definition as a linear program, solved by SciPy; and its ends, the mean and the maximum."""
    from scipy.optimize import linprog

    losses = uniform(1, 17, seed="losses")
    worst = 0.0
    for share in (0.1, 0.33, 0.5, 0.9):
        solved = linprog(-losses[0].numpy(), A_ub=[[1.0] * 17], b_ub=[1.0], bounds=(0, 1 / (share * 17)))
        worst = max(worst, abs(float(loss_max_pooling(losses, share)) + float(solved.fun)))
    worst = max(worst, abs(float(loss_max_pooling(losses, 1.0) - losses.mean())))
    return max(worst, abs(float(loss_max_pooling(losses, 1 / 17) - losses.max())))


def hardest_pixels_get_the_gradient(_: Evidence) -> float:
    """Pixels with gradient, less ⌈α n⌉, over shares; infinite if the loss grows with α or a pixel that is not valid
    gets gradient."""
    losses = uniform(1, 50, seed="losses").requires_grad_()
    off, last = 0.0, math.inf
    for share in (0.02, 0.1, 0.33, 0.5, 0.77, 1.0):
        loss = loss_max_pooling(losses, share)
        (grad,) = torch.autograd.grad(loss, losses)
        off = max(off, abs(int((grad != 0).sum()) - math.ceil(share * 50 - 1e-9)))
        if float(loss.detach()) > last + 1e-12:
            return math.inf
        last = float(loss.detach())
    valid = torch.arange(50).view(1, -1) % 2 == 0
    loss = loss_max_pooling(losses, 0.5, valid)
    (grad,) = torch.autograd.grad(loss, losses)
    expected = losses.detach()[valid].sort(descending=True).values[:13]
    value = float((expected[:12].sum() + 0.5 * expected[12]) / 12.5)
    return math.inf if bool((grad != 0)[~valid].any()) or abs(float(loss.detach()) - value) > 1e-12 else float(off)


def out_of_reach_is_left_alone(_: Evidence) -> float:
    """Gradient at the scores of pixels whose residual is beyond the reach; infinite if the others get none, or if these
    get none without that rule."""
    scores = noise(1, 25, 4, 4, seed="scores").requires_grad_()
    still = torch.zeros(1, 2, 4, 4, dtype=torch.float64)
    level = Level(1, still, still, scores)
    truth = still.clone()
    truth[..., :2] = 5.0
    valid, model = torch.ones(1, 4, 4, dtype=torch.bool), ModelConfig(reach=2, corners=False)
    with_rule, without = (
        torch.autograd.grad(flow_loss([level], truth, valid, model, 1.0, rule), scores)[0].abs().sum(1)[0]
        for rule in (True, False)
    )
    if with_rule[:, 2:].min() == 0 or without[:, :2].min() == 0:
        return math.inf
    return float(with_rule[:, :2].max())


# Cues and directions --------------------------------------------------------------------------------------------------


def uniqueness_counts_pixels(_: Evidence) -> float:
    """Of zero flow it is 1 everywhere; where two pixels land on one, 2."""
    still = torch.zeros(1, 2, 6, 8, dtype=torch.float64)
    folded = still.clone()
    folded[0, 0, 2, 3] = 1.0  # (3, 2) goes to (4, 2)
    count = uniqueness(folded)[0, 0]
    expected = torch.ones(6, 8, dtype=torch.float64)
    expected[2, 3:5] = 2.0
    return max(apart(uniqueness(still), torch.ones(1, 1, 6, 8, dtype=torch.float64)), apart(count, expected))


def cues_of_one_motion(_: Evidence) -> float:
    """Of opposite constant flows: both estimates are the flow, the disagreement is 0, inside of the picture; and what
    leaves it is marked."""
    flow = torch.tensor([2.0, -1.0], dtype=torch.float64).view(1, 2, 1, 1).expand(1, 2, 9, 12)
    cues = flow_cues(flow, -flow)[..., 2:-2, 2:-3]
    back, gap, implied, hit, alone = cues[:, :2], cues[:, 2], cues[:, 3:5], cues[:, 5], cues[:, 6]
    inner = flow[..., 2:-2, 2:-3]
    gone = flow_cues(flow, -flow)[0, 7]
    edges = torch.zeros(9, 12, dtype=torch.float64)
    edges[0], edges[:, -2:] = 1.0, 1.0
    implied_back, _landed = reversed_flow(flow)
    parts = [
        apart(back, inner), float(gap.abs().max()), apart(implied, inner), float((hit - 1).abs().max()),
        float((alone - 1).abs().max()), apart(gone, edges), float((implied_back + flow)[..., 2:-2, 2:-2].abs().max()),
        float(disagreement(flow, -flow).max()),
    ]  # fmt: skip
    return max(parts)


def directions_are_alike(_: Evidence) -> float:
    """Exchanging the frames exchanges forward and backward flow, with all cues on."""
    first, second = _pair()
    network = _network()
    with torch.no_grad():
        there, back = network(first, second), network(second, first)
    return max(apart(there["flow"], back["backward"]), apart(there["backward"], back["flow"]))


def channels_of_volumes(_: Evidence) -> float:
    """Channels of the published volumes, less 81 and 289."""
    first, second, flow = (leaf.detach() for leaf in _features())
    counts = {4: 81, 8: 289}
    return float(max(abs(sampled_cost_volume(first, second, flow, r).shape[1] - n) for r, n in counts.items()))


def _check(id: str, statement: str, source: str, measure: Callable[[Evidence], float], most: float = ROUNDING) -> Claim:
    return Claim(id, statement, source, "check", measure, most)


CHECKS = (
    _check("sampled", "The sampled cost volume is its definition, forward and backward.", "Eqs. 2, 3",
           sampled_is_its_definition),
    _check("sampled-torch", "So is its form without compiled kernels.", "Eqs. 2, 3", without_compiled_kernels),
    _check("warped", "The warped cost volume is its definition, forward and backward.", "Eq. 1",
           warped_is_its_definition),
    _check("centre", "Sampling and warping agree at δ = 0.", "Eqs. 1, 2", both_agree_without_displacement),
    _check("one-motion", "They agree everywhere if everything moves alike.", "Eqs. 1, 2", both_agree_for_one_motion),
    _check("zero-flow", "Without flow both are plain correlation.", "Eqs. 1, 2", zero_flow_is_plain_correlation),
    _check("finds", "With whole flow, the least absolute difference is the true match of every pixel in reach.",
           "Eq. 3", sampling_finds_every_match, 0),
    _check("stop", "With gradient stopping, a coarser head gets no gradient from finer losses.", "Sec. 3.3",
           stopped_gradients, 0),
    _check("stop-values", "Gradient stopping changes no value.", "Sec. 3.3", stopping_changes_no_value, 0),
    _check("densities", "A vector survives its density.", "Sec. 3.1", densities_keep_vectors, 1e-9),
    _check("lmp", "Loss max-pooling is its linear program.", "Eq. 4", hardest_pixels_by_linear_programming, 1e-9),
    _check("lmp-pixels", "Exactly ⌈α n⌉ pixels get gradient.", "Eq. 4", hardest_pixels_get_the_gradient, 0),
    _check("lmp-reach", "Pixels out of reach get none.", "Sec. 3.2", out_of_reach_is_left_alone, 0),
    _check("uniqueness", "Map uniqueness counts the pixels that land together.", "Sec. 3.4", uniqueness_counts_pixels),
    _check("cues", "Flow cues of one motion are that motion.", "Sec. 3.4", cues_of_one_motion),
    _check("directions", "Exchanging the frames exchanges the directions.", "Sec. 3", directions_are_alike),
    _check("channels", "81 and 289 displacements.", "Sec. 4", channels_of_volumes, 0),
    parameter_counts("parameters", "Parameters of the published networks, counted by hand.", "Sec. 4",
                     {"paper": SETTINGS.published["paper"].parameters, "paper/hd3": 39_942_647,
                      "paper-cvr8": SETTINGS.published["paper-cvr8"].parameters,
                      "paper-vgg": SETTINGS.published["paper-vgg"].parameters}, paper="HD³: 39.9 M"),
)  # fmt: skip
EXACT = (
    Claim("ghosting", "Warping misses true matches that sampling finds, where neighbours move differently.",
          "Sec. 3.2, Fig. 3", "exact", warping_misses_matches, 0.1, "above", "of the pixels"),
    Claim("small-things", "Sampling keeps more of small moving things than warping, without any training, for both "
          "costs, whole and fractional flow, sharp and smooth features.", "Sec. 3.2", "exact",
          sampling_keeps_small_things, 0.0, "above", "of their pixels, least lead"),
    Claim("differences", "Sampled absolute differences keep more of them than sampled correlation.", "Sec. 3.2",
          "exact", differences_keep_more, 0.0, "above", "of their pixels, least lead"),
    Claim("noisy-gradient", "The gradient of interpolation jumps where a pixel's flow passes a whole number.",
          "Eqs. 5, 6", "exact", gradient_jumps_at_whole_places, 0.1, "above", "of the features' deviation"),
)  # fmt: skip
