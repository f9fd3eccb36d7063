"""Pattern-Net and its edge convolution against DGCNN's public form: neighbours, one layer, and the whole network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.nn.edgeconv import EdgeMLP
from vergence.ops.edgeconv import feature_neighbours
from vergence.points.objects import make_object
from vergence.points.orderlydisorder.model import PatternNet, build, decompose
from vergence.points.orderlydisorder.settings import ModelConfig
from vergence.points.shapes import ShapeFacts
from vergence.reference import pattern_net as plain

CLASSES = ("aeroplane", "car", "chair", "lamp")
K = 30


def contests() -> Iterator[Contest]:
    """At published sizes: 2,048 points as 4 clones of 512, and as one cloud."""
    yield from _layer("4 x 512", 4, 512)
    yield from _layer("2048", 1, 2048)
    yield _inference()
    yield _twin()


def _features(groups: int, points: int) -> Tensor:
    return torch.randn(groups, points, 64, generator=generator("bench", groups, points))


def _layer(title: str, groups: int, points: int) -> Iterator[Contest]:
    x = _features(groups, points)
    first = x.mT.contiguous()
    name = f"{groups}x{points}"
    yield Contest(
        f"neighbours-{name}",
        f"{K} neighbours in feature space, {title} points",
        partial(feature_neighbours, x, K),
        {"public": partial(plain.knn, first, K)},
    )
    layer = EdgeMLP(64, 64)
    weights = dict(layer.state_dict(keep_vars=True))
    index = feature_neighbours(x, K)
    leaf, other = x.clone().requires_grad_(), first.clone().requires_grad_()

    def ours() -> None:
        layer(leaf, index).sum().backward()

    def public() -> None:
        plain.edge_mlp(other, index, weights, training=True).sum().backward()

    yield Contest(
        f"layer-{name}", f"an edge convolution, forward and backward, {title} points", ours, {"public": public}
    )


def _clouds(batch: int, points: int) -> Tensor:
    made = [make_object(CLASSES[n % 4], points, True, generator("bench", n))[0] for n in range(batch)]
    return torch.stack(made)


def _network(clones: int, hilbert: bool) -> tuple[PatternNet, dict[str, Tensor]]:
    model = ModelConfig(clones=clones, distance="hilbert" if hilbert else "euclidean")
    network = build(model, ShapeFacts(40)).eval().requires_grad_(False)
    assert isinstance(network, PatternNet)
    return network, dict(network.state_dict())


def _inference() -> Contest:
    network, weights = _network(4, True)
    clouds = _clouds(4, 2048)
    split = decompose(4, 2048, 4, generator("bench"), clouds.device)
    listed = split.tolist()
    return Contest(
        "inference",
        "Pattern-Net, inference, 4 clouds of 2,048 points",
        partial(network, clouds, split),
        {"plain": partial(plain.pattern_net, clouds, listed, weights, K)},
    )


def _twin() -> Contest:
    """The same work for both: one clone with Euclidean neighbours is DGCNN's graph."""
    network, weights = _network(1, False)
    clouds = _clouds(4, 1024)
    split = torch.arange(1024).expand(4, 1, -1)
    return Contest(
        "twin",
        "DGCNN's twin, inference, 4 clouds of 1,024 points",
        partial(network, clouds, split),
        {"public": partial(plain.dgcnn_twin, clouds, weights, K)},
    )
