"""FLOT as its equations and its authors' code have it: distances sorted in full, neighbours' features gathered beside
the edges and sent through 1x1 convolutions, every pair's cost and mass written out.

``weights`` are a state dictionary with the names of the public checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor


def knn_graph(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Neighbours (B, N, k) by a full sort of all distances, and the vectors to them (B, N, k, 3)."""
    squares = points.square().sum(-1, keepdim=True)
    distances = squares + squares.mT - 2 * points @ points.mT
    index = distances.argsort(-1)[..., :k]
    return index, _gathered(points, index) - points.unsqueeze(2)


def _gathered(values: Tensor, index: Tensor) -> Tensor:
    return torch.stack([cloud[near] for cloud, near in zip(values, index, strict=True)])


def set_conv(signal: Tensor, index: Tensor, edges: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    """Features (B, N, C) of the neighbours beside the edges, three convolutions, the greatest over neighbours."""
    x = torch.cat([_gathered(signal, index), edges], -1).permute(0, 3, 2, 1)  # (B, C + 3, k, N)
    for layer in "123":
        x = F.conv2d(x, weights[f"{name}.fc{layer}.weight"])
        x = F.instance_norm(x, weight=weights[f"{name}.bn{layer}.weight"], bias=weights[f"{name}.bn{layer}.bias"])
        x = F.leaky_relu(x, 0.1)
    return x.max(2).values.mT


def features(points: Tensor, k: int, weights: Mapping[str, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """g: features (B, N, 128) of a cloud, and its graph."""
    graph = knn_graph(points, k)
    x = points
    for name in ("feat_conv1", "feat_conv2", "feat_conv3"):
        x = set_conv(x, *graph, weights, name)
    return x, graph


def transport(x: Tensor, y: Tensor, p: Tensor, q: Tensor, eps: Tensor, mass: Tensor, iterations: int) -> Tensor:
    """Eqs. 3-4 and Alg. 1: the plan (B, N, M)."""
    distances = p.square().sum(-1, keepdim=True) + q.square().sum(-1, keepdim=True).mT - 2 * p @ q.mT
    x = x / (x.square().sum(-1, keepdim=True) + 1e-8).sqrt()
    y = y / (y.square().sum(-1, keepdim=True) + 1e-8).sqrt()
    kernel = (-(1 - x @ y.mT) / eps).exp() * (distances < 10**2)
    if iterations == 0:
        return kernel
    power = mass / (mass + eps)
    a = kernel.new_ones(*kernel.shape[:2], 1) / kernel.shape[1]
    mu, nu = a, kernel.new_ones(kernel.shape[0], kernel.shape[2], 1) / kernel.shape[2]
    for _ in range(iterations):
        b = (nu / (kernel.mT @ a + 1e-8)) ** power
        a = (mu / (kernel @ b + 1e-8)) ** power
    return a * kernel * b.mT


def flot(p: Tensor, q: Tensor, weights: Mapping[str, Tensor], iterations: int = 1, k: int = 32) -> dict[str, Tensor]:
    """The flow of clouds (B, N, 3) and (B, M, 3): after and before refinement, and the plan."""
    x, graph = features(p, k, weights)
    y, _ = features(q, k, weights)
    plan = transport(x, y, p, q, weights["epsilon"].exp() + 0.03, weights["gamma"].exp(), iterations)
    before = plan @ q / (plan.sum(-1, keepdim=True) + 1e-8) - p  # Eq. 6
    h = before
    for name in ("ref_conv1", "ref_conv2", "ref_conv3"):
        h = set_conv(h, *graph, weights, name)
    return {"flow": before + F.linear(h, weights["fc.weight"], weights["fc.bias"]), "before": before, "plan": plan}
