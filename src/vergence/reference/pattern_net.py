"""Plain forms of Pattern-Net: edge convolution as DGCNN's public code computes it (vectorised, all edges at once), the
two distances by their definitions, and the network by a loop over clones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Eq. 7: squared distances (N, M) between rows (N, D) and (M, D)."""
    return x.square().sum(1)[:, None] + y.square().sum(1)[None] - 2 * x @ y.mT


def hilbert(x: Tensor, y: Tensor) -> Tensor:
    """Eq. 8: ``2 (1 - <x / |x|, y / |y|>)``, (N, M)."""
    return 2 * (1 - (x / x.norm(dim=1, keepdim=True)) @ (y / y.norm(dim=1, keepdim=True)).mT)


def knn(x: Tensor, k: int) -> Tensor:
    """Neighbours (B, N, k) of channels-first features (B, C, N), as DGCNN's public code finds them."""
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    return (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]


def edge_features(x: Tensor, index: Tensor) -> Tensor:
    """``[x_j - x_i, x_i]`` for all edges, (B, 2 C, N, k), of features (B, C, N), as in DGCNN's public code."""
    batch, channels, count = x.shape
    k = index.shape[2]
    flat = (index + torch.arange(batch, device=x.device).view(-1, 1, 1) * count).view(-1)
    rows = x.transpose(2, 1).contiguous()
    near = rows.view(batch * count, -1)[flat].view(batch, count, k, channels)
    centre = rows.view(batch, count, 1, channels).repeat(1, 1, k, 1)
    return torch.cat((near - centre, centre), dim=3).permute(0, 3, 1, 2).contiguous()


def edge_mlp(
    x: Tensor, index: Tensor, weights: Mapping[str, Tensor], training: bool = False, slope: float = 0.2
) -> Tensor:
    """A 1x1 convolution, batch norm and leaky ReLU on all edges, and the maximum: (B, C, N) to (B, D, N). ``weights``
    are those of :class:`vergence.nn.edgeconv.EdgeMLP`, whose centre comes first."""
    of_centre, of_edge = weights["linear.weight"].chunk(2, 1)
    kernel = torch.cat([of_edge, of_centre], 1)[:, :, None, None]
    y = F.conv2d(edge_features(x, index), kernel, weights.get("linear.bias"))
    return F.leaky_relu(_norm(y, weights, training), slope).max(dim=-1)[0]


def point_mlp(x: Tensor, weights: Mapping[str, Tensor], training: bool = False, slope: float = 0.2) -> Tensor:
    """(B, C, N) to (B, D, N)."""
    y = F.conv1d(x, weights["linear.weight"][:, :, None], weights.get("linear.bias"))
    return F.leaky_relu(_norm(y, weights, training), slope)


def _norm(y: Tensor, weights: Mapping[str, Tensor], training: bool) -> Tensor:
    mean, variance = (None, None) if training else (weights["norm.running_mean"], weights["norm.running_var"])
    return F.batch_norm(y, mean, variance, weights["norm.weight"], weights["norm.bias"], training)


def part(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The weights of a child module, by the names they have in it."""
    return {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}


def dgcnn_twin(points: Tensor, weights: Mapping[str, Tensor], k: int) -> Tensor:
    """Logits (B, C) of the twin: four edge convolutions on the whole cloud (B, M, 3) with Euclidean neighbours, in the
    manner of DGCNN's public code."""
    x, features = points.transpose(2, 1), []
    for layer in range(4):
        x = edge_mlp(x, knn(x, k), part(weights, f"edges.{layer}"))
        features.append(x)
    wide = torch.cat(features, 1)
    pooled = [point_mlp(wide, part(weights, name)).max(2)[0] for name in ("clone", "linkage")]
    return head(torch.cat(pooled, 1), weights)


def pattern_net(
    points: Tensor, split: Sequence[Sequence[Sequence[int]]], weights: Mapping[str, Tensor], k: int
) -> Tensor:
    """Logits (B, C) of Pattern-Net with Eq. 8, one cloud and one clone after the other; ``split`` has the points of
    every clone of every cloud."""
    described = []
    for cloud, clones in zip(points, split, strict=True):
        of_clones, of_points = [], []
        for members in clones:
            x, features = cloud[list(members)].mT, []
            for layer in range(4):
                index = hilbert(x.mT, x.mT).argsort(1)[:, :k]
                x = edge_mlp(x[None], index[None], part(weights, f"edges.{layer}"))[0]
                features.append(x)
            wide = torch.cat(features)[None]
            of_clones.append(point_mlp(wide, part(weights, "clone")).amax((0, 2)))
            of_points.append(point_mlp(wide, part(weights, "linkage")).amax((0, 2)))
        described.append(torch.cat([torch.stack(of_clones).amax(0), torch.stack(of_points).amax(0)]))
    return head(torch.stack(described), weights)


def head(x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
    """The three layers of the classifier in evaluation mode."""
    x = x[..., None]
    for layer in range(2):
        x = point_mlp(x, part(weights, f"head.layers.{layer}"))
    return F.linear(x[..., 0], weights["head.last.weight"], weights["head.last.bias"])


def mapping_coefficients(clones: Tensor, linkage: Tensor) -> Tensor:
    """ω = Ψ⁺ φ (L,) by the singular value decomposition, for Ψ (D, L) and φ (D,): Eq. 9 as the paper suggests it."""
    return torch.linalg.pinv(clones) @ linkage
