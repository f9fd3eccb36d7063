"""What must hold to rounding: convolutions, the exchange of points and voxels, the supernet and its counts."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise, uniform
from vergence.core.seeding import generator
from vergence.nn.sparse import SparseConv3d, SparseTensor
from vergence.ops.sparse import (
    coarser,
    interpolation,
    sparse_convolution,
    strided_map,
    submanifold_map,
    voxels_of,
)
from vergence.points.architecture import STAGES, Architecture, Plan, Sizes, Space, macs
from vergence.points.evolution import Search, sample
from vergence.points.pointvoxel import Geometry
from vergence.points.spvnas.model import Network, Supernet, build
from vergence.points.spvnas.settings import ModelConfig
from vergence.points.sweeps import Scanner, street_sweep
from vergence.reference import sparse as plain

WIDTHS = (6, 6, 8, 12, 16, 16, 12, 10, 10)
SPACE = Space((4, 4, 8, 8, 8, 8, 4, 4), (8, 12, 16, 20, 20, 16, 12, 12), 0.25, 4)


def cloud(count: int = 300, clouds: int = 2, side: float = 8.0, seed: str = "points") -> tuple[Tensor, Tensor]:
    """Points (count, 4) on a wall, a ground and between, with intensity, and the cloud (count,) of each."""
    points = side * uniform(count, 4, seed=seed)
    which = torch.arange(count) % 3
    points[which == 0, 2] *= 0.1
    points[which == 1, 0] *= 0.2
    points[:, 3] /= side
    return points, torch.arange(count) % clouds


def network(points: bool = True, **changes: object) -> Network:
    """A small network in float64 with random weights and statistics; voxels are 1 wide."""
    kind = "spvcnn" if points else "minkunet"
    built = build(ModelConfig(kind, WIDTHS, voxel=1.0, **changes), 5)  # type: ignore[arg-type]
    assert isinstance(built, Network)
    return filled(built)


# Convolutions ---------------------------------------------------------------------------------------------------------


def convolutions_are_dense_ones(_: Evidence) -> float:
    """Against ``conv3d`` and ``conv_transpose3d`` of the grid filled with zeros, forward and backward: full and sparse
    grids, kernels 1 to 5, dilation, strides, and transposed."""
    worst = 0.0
    for share in (1.0, 0.3):
        grid = torch.ones(1, 6, 6, 6) if share == 1 else (uniform(2, 6, 6, 6, seed="grid") < share)
        places = grid.nonzero()
        features = noise(len(places), 3, seed="features").requires_grad_()
        x = SparseTensor.of(places, features)
        clouds, dense = len(grid), x.dense((6, 6, 6), len(grid))
        for kernel, dilation in ((1, 1), (3, 1), (5, 1), (3, 2)):
            layer = SparseConv3d(3, 4, kernel, dilation=dilation).double()
            theirs = F.conv3d(dense, _dense(layer), padding=kernel // 2 * dilation, dilation=dilation)
            worst = max(worst, _against(layer(x), theirs, [features, layer.weight]))
        down = SparseConv3d(3, 4, 2, 2).double()
        coarse = down(x)
        theirs = F.conv3d(dense, _dense(down), stride=2)
        worst = max(worst, _against(coarse, theirs, [features, down.weight]))
        up = SparseConv3d(4, 3, 2, 2, transposed=True).double()
        below = coarse.dense((3, 3, 3), clouds)
        kernel_ = up.weight.reshape(2, 2, 2, 4, 3).permute(3, 4, 0, 1, 2)
        back = F.conv_transpose3d(below, kernel_, stride=2)
        worst = max(worst, _against(up(coarse), back, [features, up.weight]))
    return worst


def _dense(layer: SparseConv3d) -> Tensor:
    side = layer.kernel
    return layer.weight.reshape(side, side, side, *layer.weight.shape[1:]).permute(4, 3, 0, 1, 2)


def _against(ours: SparseTensor, dense: Tensor, leaves: list[Tensor]) -> float:
    at, x, y, z = ours.voxels.coordinates.unbind(1)
    theirs = dense.permute(0, 2, 3, 4, 1)[at, x, y, z]
    return apart_with_gradients(ours.features, theirs, leaves, relative=True)


def convolutions_are_the_plain_ones(_: Evidence) -> float:
    """Against a dictionary of coordinates, forward and backward, at negative coordinates and with two clouds."""
    points, which = cloud(120)
    places = torch.cat([which.unsqueeze(1), (points[:, :3] - 4).floor().long()], 1)
    voxels = voxels_of(places)[0]
    coarse, parent = coarser(voxels)
    features = noise(len(voxels), 4, seed="features").requires_grad_()
    weight = noise(27, 4, 5, seed="weight").requires_grad_()
    halves = noise(8, 4, 5, seed="halves").requires_grad_()
    if not torch.equal(coarse.coordinates, plain.coarser(voxels.coordinates)):
        return torch.inf
    same = sparse_convolution(features, weight, submanifold_map(voxels))
    small = sparse_convolution(features, halves, strided_map(voxels, coarse, parent))
    theirs = [
        plain.convolution(voxels.coordinates, voxels.coordinates, features, weight, 3),
        plain.convolution(voxels.coordinates, coarse.coordinates, features, halves, 2, 2),
    ]
    return apart_with_gradients([same, small], theirs, [features, weight, halves])


def maps_have_each_pair_once(_: Evidence) -> float:
    """Pairs of the kernel map that are missing, invented or double, and pairs of the centre that are not a voxel with
    itself."""
    points, which = cloud(400)
    voxels = voxels_of(torch.cat([which.unsqueeze(1), (points[:, :3] - 4).floor().long()], 1))[0]
    wrong = 0
    for kernel, dilation in ((3, 1), (5, 1), (3, 2)):
        pairs = submanifold_map(voxels, kernel, dilation)
        numbers = torch.arange(kernel**3).repeat_interleave(torch.tensor(pairs.counts))
        ours = list(zip(numbers.tolist(), pairs.inputs.tolist(), pairs.outputs.tolist(), strict=True))
        theirs = plain.kernel_map(voxels.coordinates, voxels.coordinates, kernel, dilation=dilation)
        wrong += len(set(ours) ^ set(theirs)) + len(ours) - len(set(ours))
        wrong += sum(a != b for number, a, b in ours if number == kernel**3 // 2)
    return float(wrong)


def transposed_is_the_adjoint(_: Evidence) -> float:
    """``<down(x), y>`` and ``<x, up(y)>`` with the same weights; infinite if the voxels come back in another order."""
    points, which = cloud()
    x = Geometry.of(points, which, 1.0).tensor(noise(len(points), 3, seed="x"))
    down, up = SparseConv3d(3, 4, 2, 2).double(), SparseConv3d(4, 3, 2, 2, transposed=True).double()
    with torch.no_grad():
        up.weight.copy_(down.weight.mT)
        small = down(x)
        y = small.with_features(noise(*small.features.shape, seed="y"))
        back = up(y)
    if not torch.equal(back.voxels.coordinates, x.voxels.coordinates):
        return torch.inf
    return abs(float((small.features * y.features).sum() - (x.features * back.features).sum()))


# Points and voxels ----------------------------------------------------------------------------------------------------


def exchange_is_the_plain_one(_: Evidence) -> float:
    """Means and interpolations at strides 1, 2 and 4 against loops over points, forward and backward."""
    points, which = cloud(100)
    where = Geometry.of(points, which, 1.0)
    where.sizes()
    features = noise(100, 3, seed="features").requires_grad_()
    ours, theirs = [], []
    for stride in (1, 2, 4):
        x = where.tensor(features, stride)
        means = plain.point_to_voxel(where.places, features, x.voxels.coordinates, stride)
        ours += [x.features, where.points(x)]
        theirs += [means, plain.voxel_to_point(where.places, means, x.voxels.coordinates, stride)]
    return apart_with_gradients(ours, theirs, [features])


def means_keep_constants(_: Evidence) -> float:
    """Eq. 2: constants stay, the order of points does not matter, and every point is counted once."""
    points, which = cloud()
    where = Geometry.of(points, which, 1.0)
    features = noise(len(points), 3, seed="features")
    order = torch.randperm(len(points), generator=generator("claims", "order"))
    other = Geometry.of(points[order], which[order], 1.0)
    counted = where.owners[1].bincount(minlength=len(where.levels.voxels[1]))
    constant = apart(where.tensor(torch.ones_like(features)).features, torch.ones(len(counted), 3).double())
    moved = apart(where.tensor(features).features, other.tensor(features[order]).features)
    return max(constant, moved, float(abs(counted.sum() - len(points))), float((counted == 0).sum()))


def weights_are_trilinear(_: Evidence) -> float:
    """Interpolation: weights are at least 0 and sum to 1, reproduce affine functions where all corners exist, and are
    the own voxel's at its corner."""
    grid = torch.cartesian_prod(torch.arange(1), *[torch.arange(5)] * 3)
    voxels = voxels_of(grid)[0]
    places = torch.cat([torch.zeros(200, 1), 4 * uniform(200, 3, seed="places")], 1).double()
    around = interpolation(voxels, places)
    slope = noise(3, seed="slope")
    plane = voxels.coordinates[:, 1:].double() @ slope + 2
    values = (plane[around.corners] * around.weights).sum(1)
    own = interpolation(voxels, voxels.coordinates.double())
    identity = (plane[own.corners] * own.weights).sum(1)
    thin = voxels_of(grid[uniform(125, seed="thin") < 0.5])[0]
    some = interpolation(thin, places).weights
    sums = some.sum(1)[some.any(1)]
    return max(
        apart(values, places[:, 1:] @ slope + 2),
        apart(identity, plane),
        apart(sums, torch.ones_like(sums)),
        float(-min(some.min(), around.weights.min())),
    )


def coarse_exchange_smooths(_: Evidence) -> float:
    """The change of features at stride 16 that go to points and back: SPVCNN is not MinkUNet plus points."""
    points, which = cloud(400, side=64.0)
    where = Geometry.of(points, which, 1.0)
    where.sizes()
    x = where.tensor(noise(400, 3, seed="features"), 16)
    return apart(where.tensor(where.points(x), 16).features, x.features)


# Networks -------------------------------------------------------------------------------------------------------------


def without_points_it_is_minkunet(_: Evidence) -> float:
    """SPVCNN with points at the corners of voxels, no exchange and silent transforms, against MinkUNet's U-Net with the
    same weights."""
    ours, theirs = network(sight="voxel"), network(points=False, sight="voxel")
    assert ours.transforms is not None
    theirs.load_state_dict({k: v for k, v in ours.state_dict().items() if not k.startswith("transforms")})
    points, which = cloud()
    where = ours.geometry(points, which)
    with torch.no_grad():
        for transform in ours.transforms:
            for parameter in transform.parameters():
                parameter.zero_()
        features = points[where.kept]
        return apart(ours.by_point(features, where, exchange=False), theirs.by_voxel(features, where))


def points_in_a_voxel_differ(_: Evidence) -> float:
    """The largest difference of logits within a voxel: of SPVCNN; infinite negative if MinkUNet's differ at all."""
    points, which = cloud()
    logits = {}
    for kind in (True, False):
        with torch.no_grad():
            logits[kind] = network(points=kind)(points, which)
    owner = Geometry.of(points, which, 1.0).owners[1]
    order = owner.argsort(stable=True)
    pairs = [(a, b) for a, b in pairwise(order) if owner[a] == owner[b]]
    first, second = (torch.stack(side) for side in zip(*pairs, strict=True))
    if apart(logits[False][first], logits[False][second]) > 0:
        return -torch.inf
    return apart(logits[True][first], logits[True][second])


def shifts(step: int) -> float:
    """The change of logits if all places move by a number of voxels and features stay."""
    ours = network()
    points, which = cloud()
    moved = points + torch.tensor([step, -step, 2 * step, 0.0]).double()
    with torch.no_grad():
        return apart(
            ours(points, which, ours.geometry(points, which)), ours(points, which, ours.geometry(moved, which))
        )


def whole_shifts_change_nothing(_: Evidence) -> float:
    """A shift by 16 voxels, the stride of the coarsest level, and by 32."""
    return max(shifts(16), shifts(-32))


def small_shifts_do(_: Evidence) -> float:
    """A shift by one voxel: coarse voxels hold others then."""
    return shifts(1)


# The supernet ---------------------------------------------------------------------------------------------------------


def supernet() -> Supernet:
    return filled(Supernet(SPACE, 8, 5, voxel=1.0))


def extraction_is_the_path(_: Evidence) -> float:
    """Logits and gradients of the supernet's path against the extracted network, for random architectures; gradients
    of the supernet's weights outside the path must be zero."""
    ours = supernet()
    points, which = cloud(100)
    worst = 0.0
    for number in range(3):
        arch = sample(SPACE, 8, generator("claims", "arch", number))
        alone = ours.extract(arch)
        path = ours(points, which, arch=arch)
        theirs = alone(points, which)
        probe = noise(*path.shape, seed="probe")
        got = torch.autograd.grad(path, list(ours.full.parameters()), probe, allow_unused=True)
        names = [name for name, __ in alone.named_parameters()]
        wanted = dict(zip(names, torch.autograd.grad(theirs, list(alone.parameters()), probe), strict=True))
        worst = max(worst, apart(path, theirs))
        for (name, __), gradient in zip(ours.full.named_parameters(), got, strict=True):
            sums = 0.0 if gradient is None else float(gradient.abs().sum())
            theirs_sum = float(wanted[name].abs().sum()) if name in wanted else 0.0
            worst = max(worst, abs(sums - theirs_sum) / (1 + theirs_sum))
    return worst


def skips_keep_their_place(_: Evidence) -> float:
    """Weights of skip connections that a narrow network shares with the supernet's: wrong entries of the first
    convolution after a concatenation, for a weight whose entries are their own row."""
    ours = supernet()
    arch = SPACE.uniform(8, 0.5)
    wrong = 0
    for stage in range(STAGES // 2, STAGES):
        weight = ours.full.get_parameter(f"stages.{stage}.blocks.0.first.conv.weight")
        with torch.no_grad():
            weight.copy_(torch.arange(weight.shape[1]).view(1, -1, 1).expand_as(weight))
        widest = ours.full.arch.transitions[stage]
        expected = [*range(arch.transitions[stage]), *(widest + n for n in range(arch.skip(stage)))]
        got = ours.extract(arch).get_parameter(f"stages.{stage}.blocks.0.first.conv.weight")[0, :, 0]
        wrong += sum(a != b for a, b in zip(got.tolist(), expected, strict=True))
    return float(wrong)


def counts_are_the_products(_: Evidence) -> float:
    """Multiply-adds by the formula against those that PyTorch's counter sees: both networks and random ones."""
    points, which = cloud(80, side=5.0)
    nets = [network(), network(points=False), supernet().extract(sample(SPACE, 8, generator("claims", "count")))]
    worst = 0.0
    for net in nets:
        where = net.geometry(points, which)
        sizes = where.sizes()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            net(points, which, where)
        parts = macs(net.arch, net.projected, sizes, net.classes, net.transforms is not None)
        # MinkUNet's classifier runs on voxels, which the count says.
        worst = max(worst, abs(counter.get_total_flops() / 2 - sum(parts.values())))
    return worst


def candidates_stay_within(_: Evidence) -> float:
    """The largest share of the limit that a candidate of four generations uses, for three limits."""
    points, which = cloud()
    sizes = Geometry.of(points, which, 1.0).sizes()

    def cost(arch: Architecture) -> float:
        return sum(macs(arch, (True,) * STAGES, sizes, 5, True).values())

    worst = 0.0
    for budget in (0.2, 0.4, 0.8):
        plan = Plan(budget=budget, population=12, generations=4)
        search = Search(plan, SPACE, 8, cost, lambda arch: -abs(sum(arch.genes()) - 250), ("claims",))
        search.run()
        worst = max(worst, *(c.macs / search.limit for generation in search.generations for c in generation))
    return worst


def depths_are_uniform(_: Evidence) -> float:
    """Eq. 3: the mean total depth of random networks off its expectation of 12 (of 16), in standard errors; infinite
    if a network of the first phase is not deep throughout."""
    source = generator("claims", "depth")
    totals = torch.tensor([float(sum(sample(SPACE, 8, source).depths)) for _ in range(2000)])
    if any(sum(sample(SPACE, 8, source, deep=True).depths) != 2 * STAGES for _ in range(20)):
        return torch.inf
    expected = STAGES * (2 + 1) / 2
    return float((totals.mean() - expected).abs() / (totals.std() / len(totals) ** 0.5))


# Costs on a sweep -----------------------------------------------------------------------------------------------------


@cache
def _sizes() -> Sizes:
    """Of a rendered sweep as dense as SemanticKITTI's, at 5 cm."""
    sweep = street_sweep(generator("claims", "sweep"), Scanner(64, 2048))
    return Geometry.of(sweep.points, torch.zeros(len(sweep.points), dtype=torch.long), 0.05).sizes()


def _sweep_parts(kind: Literal["minkunet", "spvcnn"]) -> dict[str, float]:
    with torch.device("meta"):
        built = build(ModelConfig(kind), 19)
    assert isinstance(built, Network)
    return macs(built.arch, built.projected, _sizes(), 19, kind == "spvcnn")


def points_cost_little(_: Evidence) -> float:
    """The share of SPVCNN's multiply-adds in its point branch, at cr 1, on a rendered sweep at 5 cm."""
    parts = _sweep_parts("spvcnn")
    return 100 * parts["points"] / sum(parts.values())


def going_up_costs_most(_: Evidence) -> float:
    """The share of MinkUNet's multiply-adds on the way up, at cr 1, on a rendered sweep at 5 cm."""
    parts = _sweep_parts("minkunet")
    return 100 * sum(value for name, value in parts.items() if name.startswith("up")) / sum(parts.values())
