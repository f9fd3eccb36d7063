"""A residual network that knows where the person is (Sec. 3.2), and the distance of two pictures (Sec. 3.3).

The last feature map gives the saliency by two 1 x 1 convolutions, and saliency pools the map. Each location of a query
then searches a gallery picture for its nearest; what the saliency leaves out does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.metrics.ranking import distances
from vergence.nn import ResNet
from vergence.nn.saliency import Saliency, SaliencyHead, fused, saliency_pool
from vergence.ops.local_matching import matching_distances, reconstruction_distances
from vergence.reid.gasm.settings import Local, Matching, ModelConfig

_BACKBONES: Mapping[str, Mapping[str, Any]] = {
    "resnet-tiny": {"depths": (1, 1, 1), "block": "basic", "widths": (24, 48, 96)},
    "resnet50": {"depths": (3, 4, 6, 3), "block": "bottleneck"},
}


FARTHEST = 2.0
"""The greatest distance of two vectors of length one."""


class Described(NamedTuple):
    """What is kept of N pictures to compare them."""

    pooled: Tensor
    """(N, D): features pooled by saliency, of length one."""
    local: Tensor
    """(N, L, D): the feature of each location, of length one."""
    saliency: Tensor
    """(N, L): how much a location counts; the sum is one."""


class Answers(NamedTuple):
    """Training outputs."""

    pooled: Tensor
    """(B, D): pooled features, for triplets."""
    logits: Tensor
    """(B, classes)."""
    maps: Saliency | None
    """Predicted maps of mask and joints; None without saliency."""


class SaliencyNetwork(nn.Module):
    """Pictures to what is compared, or to logits and maps for training."""

    def __init__(self, model: ModelConfig, classes: int) -> None:
        super().__init__()
        self.fusion = model.saliency
        self.backbone = ResNet(0, last_stride=model.last_stride, **_BACKBONES[model.backbone])
        outputs = self.backbone.outputs
        self.saliency = SaliencyHead(outputs) if model.saliency != "none" else None
        # The bag of tricks: a normalisation without bias between triplets and cross-entropy.
        self.neck = nn.BatchNorm1d(outputs)
        self.neck.bias.requires_grad_(False)
        self.classify = nn.Linear(outputs, classes, bias=False)
        nn.init.normal_(self.classify.weight, std=0.001)

    def maps(self, images: Tensor) -> tuple[Tensor, Saliency | None, Tensor]:
        """The last map (B, C, H, W), predicted masks and joints, and the saliency (B, H, W) with sum one."""
        x = self.backbone.run_stages(self.backbone.stem(images))
        if self.saliency is None or self.fusion == "none":
            return x, None, x.new_full((len(x), *x.shape[-2:]), 1 / (x.shape[-2] * x.shape[-1]))
        found = self.saliency(x)
        return x, found, fused(found, self.fusion)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images (B, 3, H, W) to the fields of :class:`Described`."""
        x, _, saliency = self.maps(images)
        pooled = F.normalize(saliency_pool(x, saliency), dim=1)
        return pooled, F.normalize(x.flatten(2).mT, dim=2), saliency.flatten(1)

    def answers(self, images: Tensor) -> Answers:
        """Outputs for training on images (B, 3, H, W)."""
        x, found, saliency = self.maps(images)
        pooled = saliency_pool(x, saliency)
        return Answers(pooled, self.classify(self.neck(pooled)), found)


def build(model: ModelConfig, classes: int) -> SaliencyNetwork:
    """The network for ``classes`` identities, in the channels-last layout that is fastest on CPUs and GPUs."""
    network = SaliencyNetwork(model, classes)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def described(network: SaliencyNetwork, images: Tensor) -> Described:
    """What is compared of pictures (B, 3, H, W), in float32."""
    return Described(*(tensor.float() for tensor in network(images)))


# Distances ------------------------------------------------------------------------------------------------------------


def local_distances(local: Local, queries: Described, gallery: Described) -> Tensor:
    """Distances (Q, G) between the locations of pictures; weighted by the saliency of the queries, unless they are
    not to be weighted."""
    if local == "dsr":
        return reconstruction_distances(queries.local, gallery.local, queries.saliency)
    return matching_distances(queries.local, gallery.local, queries.saliency if local == "matching" else None)


def pair_distances(matching: Matching, queries: Described, gallery: Described, close: Tensor | None = None) -> Tensor:
    """Distances (Q, G): the average of the global and of the local distance. Both are Euclidean distances of vectors of
    length one, so that they have the same scale.

    With ``close`` (Q, G), only those pairs are compared locally; all others come after them, by their global distance.
    """
    whole = distances(queries.pooled, gallery.pooled)
    if matching.local == "none" or not matching.share:
        return whole
    if close is None:
        return (1 - matching.share) * whole + matching.share * local_distances(matching.local, queries, gallery)
    far = whole + FARTHEST
    if len(close) <= close.shape[1]:  # a call for each query, or for each gallery picture: whatever is less
        for row, others in enumerate(close):
            far[row, others] = pair_distances(matching, _of(queries, [row]), _of(gallery, others))[0]
    else:
        for place, rows in enumerate(close.mT):
            far[rows, place] = pair_distances(matching, _of(queries, rows), _of(gallery, [place]))[:, 0]
    return far


def _of(pictures: Described, places: Tensor | list[int]) -> Described:
    return Described(*(x[places] for x in pictures))
