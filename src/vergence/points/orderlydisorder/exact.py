"""What Pattern-Net must satisfy exactly: its decomposition, distances, network, and the linear-mapping loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vergence.contract.claims import Evidence
from vergence.contract.evidence import apart, apart_with_gradients, filled, noise
from vergence.core.seeding import generator
from vergence.nn.edgeconv import EdgeMLP
from vergence.ops.edgeconv import feature_neighbours, on_sphere
from vergence.points.orderlydisorder.model import PatternNet, build, decompose, mapping_deviation
from vergence.points.orderlydisorder.settings import ModelConfig
from vergence.points.shapedata import normalised, random_turn
from vergence.points.shapes import ShapeFacts
from vergence.reference import pattern_net as plain

CPU = torch.device("cpu")
SMALL = ModelConfig(width=8, neighbours=6)


def _clouds(batch: int = 3, points: int = 64) -> Tensor:
    """Clouds (B, M, 3) on the unit sphere, in float64."""
    return torch.stack([normalised(cloud) for cloud in noise(batch, points, 3, seed="clouds")])


def _network(model: ModelConfig = SMALL) -> PatternNet:
    network = filled(build(model, ShapeFacts(5)))
    assert isinstance(network, PatternNet)
    return network


def _split(batch: int = 3, points: int = 64, clones: int = 4) -> Tensor:
    return decompose(batch, points, clones, generator("claims", "split"), CPU)


# Decomposition --------------------------------------------------------------------------------------------------------


def clones_are_a_partition(_: Evidence) -> float:
    """Points that are in no clone or in several (Eqs. 3 and 4), and clones of another size than M / L, over many
    draws."""
    wrong = 0
    for points, clones in ((64, 4), (60, 3), (40, 5), (16, 1)):
        split = decompose(50, points, clones, generator("claims", points), CPU)
        counts = torch.stack([cloud.flatten().bincount(minlength=points) for cloud in split])
        wrong += int((counts != 1).sum()) + (split.shape[2] != points // clones)
    return float(wrong)


def clones_are_exchangeable(_: Evidence) -> float:
    """The largest deviation of the share of draws in which a point is in a clone from 1 / L, in standard deviations."""
    draws, points, clones = 4000, 32, 4
    split = decompose(draws, points, clones, generator("claims", "shares"), CPU)
    share = torch.nn.functional.one_hot(split, points).sum((0, 2)) / draws  # (L, M)
    return float((share - 1 / clones).abs().max() / math.sqrt((1 / clones) * (1 - 1 / clones) / draws))


# Distances ------------------------------------------------------------------------------------------------------------


def hilbert_is_the_chord(_: Evidence) -> float:
    """Eq. 8 against Eq. 7 on unit vectors, its range from 0 to 4, and its change when a vector is scaled."""
    x, y = noise(40, 6, seed="x"), noise(30, 6, seed="y")
    ours = plain.euclidean(on_sphere(x), on_sphere(y))
    outside = torch.maximum(ours - 4, -ours).max().clamp(min=0)
    lengths = 0.1 + 10 * noise(40, 1, seed="lengths").abs()
    scaled = plain.euclidean(on_sphere(lengths * x), on_sphere(y))
    opposite = plain.euclidean(on_sphere(x), on_sphere(-x)).diagonal()
    same = plain.euclidean(on_sphere(x), on_sphere(3 * x)).diagonal()
    parts = (ours - plain.hilbert(x, y)), (scaled - ours), (opposite - 4), same, outside
    return max(float(part.abs().max()) for part in parts)


def neighbours_are_those_of_the_definition(_: Evidence) -> float:
    """Neighbours that Eqs. 7 and 8, sorted in full, do not have: float64 and float32, few and many points."""
    wrong = 0
    for points, channels, dtype in ((50, 16, torch.float64), (300, 3, torch.float64), (90, 24, torch.float32)):
        x = noise(2, points, channels, seed=f"{points}").to(dtype)
        for name, distance in (("euclidean", plain.euclidean), ("hilbert", plain.hilbert)):
            ours = feature_neighbours(x, 9, name).sort(2).values  # type: ignore[arg-type]
            for cloud, index in zip(x.double(), ours, strict=True):
                theirs = distance(cloud, cloud).argsort(1)[:, :9].sort(1).values
                wrong += int((index != theirs).sum())
    return float(wrong)


def first_neighbours_turn_with_the_cloud(_: Evidence) -> float:
    """First-layer neighbours by Eq. 8 that change when a centred cloud is turned and scaled."""
    cloud = _clouds(1, 200)
    turn = random_turn("any", generator("claims", "turn")).double()
    turned = 3.7 * cloud @ turn.mT
    before, after = (feature_neighbours(x, 8, "hilbert").sort(2).values for x in (cloud, turned))
    return float((before != after).sum())


def first_neighbours_move_with_the_origin(_: Evidence) -> float:
    """Share of first-layer neighbours by Eq. 8 that change when the cloud is shifted by half a radius."""
    cloud = _clouds(1, 200)
    before, after = (
        torch.zeros(200, 200).scatter_(1, feature_neighbours(x, 8, "hilbert")[0], 1.0) for x in (cloud, cloud + 0.5)
    )
    return float((before * (1 - after)).sum() / before.sum())


def radius_grows(_: Evidence) -> float:
    """Mean distance of 30 neighbours in a clone of 512 of 2,048 points on a sphere, relative to that in the whole
    cloud."""
    cloud = on_sphere(noise(1, 2048, 3, seed="sphere"))
    split = decompose(1, 2048, 4, generator("claims", "radius"), CPU)

    def radius(x: Tensor) -> float:
        near = feature_neighbours(x, 30)[0]
        return float((x[0][near] - x[0].unsqueeze(1)).norm(dim=2).mean())

    return radius(cloud[:, split[0, 0]]) / radius(cloud)


# The network ----------------------------------------------------------------------------------------------------------


def network_is_the_plain_one(_: Evidence) -> float:
    """Logits and the gradients of all weights against a loop over clouds and clones on all edges, with the same
    weights."""
    network, clouds, split = _network(), _clouds(), _split()
    weights = dict(network.state_dict(keep_vars=True))
    theirs = plain.pattern_net(clouds, split.tolist(), weights, SMALL.neighbours)
    return apart_with_gradients(network(clouds, split)["logits"], theirs, list(network.parameters()), relative=True)


def one_clone_is_dgcnn(_: Evidence) -> float:
    """L = 1 with Euclidean neighbours against the twin in the form of DGCNN's public code, with gradients."""
    network = _network(ModelConfig(width=8, neighbours=6, clones=1, distance="euclidean"))
    clouds, split = _clouds(), _split(clones=1)
    theirs = plain.dgcnn_twin(clouds, dict(network.state_dict(keep_vars=True)), 6)
    return apart_with_gradients(network(clouds, split)["logits"], theirs, list(network.parameters()), relative=True)


def layer_is_the_direct_one(_: Evidence) -> float:
    """An edge convolution in training (batch statistics over all edges, scales of both signs) against the direct form:
    values, gradients of input and weights, and running statistics."""
    layer = filled(EdgeMLP(5, 7)).train()
    with torch.no_grad():
        layer.norm.weight.copy_(noise(7, seed="scales"))
    x = (noise(3, 40, 5, seed="x") + 2).requires_grad_()
    index = feature_neighbours(x, 6)
    weights = dict(layer.state_dict(keep_vars=True))
    before = [weights[f"norm.running_{name}"].clone() for name in ("mean", "var")]
    theirs = plain.edge_mlp(x.mT, index, weights, training=True).mT
    ours = layer(x, index)
    worst = apart_with_gradients(ours, theirs, [x, *layer.parameters()], relative=True)
    kernel = torch.cat(layer.linear.weight.chunk(2, 1)[::-1], 1)
    edges = plain.edge_features(x.mT, index).permute(0, 2, 3, 1) @ kernel.mT + layer.linear.bias
    flat = edges.flatten(0, 2)
    expected = [0.9 * old + 0.1 * new for old, new in zip(before, (flat.mean(0), flat.var(0)), strict=True)]
    kept = (weights["norm.running_mean"], weights["norm.running_var"])
    return max(worst, *(apart(a, b) for a, b in zip(kept, expected, strict=True)))


def order_does_not_matter(_: Evidence) -> float:
    """Change of the logits when the points of a cloud, those within clones and the clones are reordered, given the same
    partition."""
    network, clouds, split = _network(), _clouds(), _split()
    source = generator("claims", "order")
    order = torch.randperm(64, generator=source)
    inverse = order.argsort()
    moved = inverse[split][:, torch.randperm(4, generator=source)][..., torch.randperm(16, generator=source)]
    with torch.no_grad():
        return apart(network(clouds[:, order], moved)["logits"], network(clouds, split)["logits"])


def fixed_split_depends_on_order(_: Evidence) -> float:
    """The same for clones taken by position (P[l::L]) without shuffling."""
    network, clouds = _network(), _clouds()
    split = torch.arange(64).view(16, 4).mT.expand(3, -1, -1)
    order = torch.randperm(64, generator=generator("claims", "order"))
    with torch.no_grad():
        return apart(network(clouds[:, order], split)["logits"], network(clouds, split)["logits"])


def rotation_changes_logits(_: Evidence) -> float:
    """The largest change of the logits when clouds are turned about a random axis, relative to their deviation."""
    network, clouds, split = _network(), _clouds(8), _split(8)
    turn = random_turn("any", generator("claims", "turn")).double()
    with torch.no_grad():
        before, after = (network(x, split)["logits"] for x in (clouds, clouds @ turn.mT))
    return float((after - before).abs().max() / before.std())


def parameters_follow_neither_points_nor_clones(evidence: Evidence) -> float:
    """The spread of the number of parameters over 1k, 2k and 4k points, and over 1 and 4 clones."""
    pairs = [("paper", None), ("paper-2k", None), ("paper-4k", None), ("paper", "twin"), ("paper", "hilbert1")]
    counts = [evidence.parameters(*pair) for pair in pairs]
    return float(max(counts) - min(counts))


# The linear-mapping loss ----------------------------------------------------------------------------------------------


def mapping_vanishes(_: Evidence) -> float:
    """The loss for one clone, for equal clones (both with the ridge), and for a global descriptor that is a multiple of
    the clones' sum (with a vanishing one)."""
    psi = noise(2, 32, 4, seed="psi")
    phi = noise(2, 32, seed="phi")
    one = mapping_deviation(psi[:, :, :1], phi)
    same = mapping_deviation(psi[:, :, :1].expand(-1, -1, 4), phi)
    mixed = mapping_deviation(psi, 2.5 * psi.sum(2), ridge=1e-12)
    return float(torch.cat([one, same, mixed]).abs().max())


def mapping_is_the_pseudo_inverse(_: Evidence) -> float:
    """With a vanishing ridge: the loss and its gradients against ω by the singular value decomposition; and its
    change when clones change places."""
    psi, phi = noise(3, 32, 4, seed="psi").requires_grad_(), noise(3, 32, seed="phi").requires_grad_()
    ours = mapping_deviation(psi, phi, ridge=1e-13)
    theirs = torch.stack([plain.mapping_coefficients(a, b).std(correction=0) for a, b in zip(psi, phi, strict=True)])
    other = mapping_deviation(psi[:, :, [2, 0, 3, 1]], phi, ridge=1e-13)
    return max(apart_with_gradients(ours, theirs, [psi, phi]), apart(ours, other))


def mapping_of_equal_clones_has_a_gradient(_: Evidence) -> float:
    """The largest gradient where two clones coincide; infinite if any is not finite, or if the normal equations
    without a ridge would have been solved there as well."""
    psi = noise(1, 32, 4, seed="psi")
    psi[..., 1] = psi[..., 0]
    psi.requires_grad_()
    (gradient,) = torch.autograd.grad(mapping_deviation(psi, noise(1, 32, seed="phi")).sum(), psi)
    rank = int(torch.linalg.matrix_rank(psi.detach()[0].mT @ psi.detach()[0]))
    finite = bool(gradient.isfinite().all()) and rank < 4
    return float(gradient.abs().max()) if finite else math.inf
