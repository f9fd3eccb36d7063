"""Cost of labels against public code and scikit-learn, and of attention and loss in a training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.nn.voxel_attention import CBAM, VoxelAttention
from vergence.ops.kmeans import lloyd
from vergence.ops.triplet import batch_hard
from vergence.reference import clusters as plain
from vergence.reid.adtc.model import ReidNetwork, build
from vergence.reid.adtc.settings import ModelConfig
from vergence.reid.pseudo import claimed_by_neighbourhoods

SOME, MANY = 3000, 12_936
"""Pictures: what a dense form can hold, and the training set of Market-1501."""
TOP, K, CHANNELS = 20, 20, 2048
PUBLIC, SCIKIT = "public re-ranking's steps", "scikit-learn"
"""Rivals named by the claims about cost."""


def contests() -> Iterator[Contest]:
    """Claims of centres, k-means; then one step's attention, loss and network."""
    few = _clustered(SOME, SOME * 1000 // MANY)
    ours = _claims(*few)
    points, centres = (part.numpy() for part in few)
    yield Contest("claims", f"claims of {len(few[1])} centres among {SOME} x {CHANNELS} descriptors", ours,
                  {PUBLIC: lambda: plain.public_claims(points, centres, TOP, K)})  # fmt: skip
    yield _kmeans()
    yield from _step()


@cache
def _clustered(pictures: int, centres: int) -> tuple[Tensor, Tensor]:
    """Descriptors around centres."""
    source = generator("bench", pictures)
    middle = torch.randn(centres, CHANNELS, generator=source)
    own = torch.randint(centres, (pictures,), generator=source)
    return middle[own] + torch.randn(pictures, CHANNELS, generator=source), middle


def _claims(descriptors: Tensor, centres: Tensor) -> Callable[[], Any]:
    return lambda: claimed_by_neighbourhoods(descriptors, centres, TOP, K)


def _kmeans() -> Contest:
    """Ten iterations from the same centres, so that both do the same work."""
    from sklearn.cluster import KMeans

    points, centres = _clustered(SOME, SOME * 1000 // MANY)
    begin = points[: len(centres)].clone()
    theirs = KMeans(len(begin), init=begin.numpy(), n_init=1, max_iter=10, tol=0, algorithm="lloyd")
    return Contest("kmeans", f"10 iterations of k-means, {len(begin)} centres of {SOME} x {CHANNELS} descriptors",
                   lambda: lloyd(points, begin, 10), {SCIKIT: lambda: theirs.fit(points.numpy())})  # fmt: skip


def _step() -> Iterator[Contest]:
    """On 32 pictures: attention forward and backward, the loss, and a whole step of the small network."""
    f = torch.randn(32, CHANNELS, 8, 4, generator=generator("bench", "map")).requires_grad_()

    def backward(module: nn.Module) -> Callable[[], Any]:
        return lambda: torch.autograd.backward(module(f).amax((2, 3)).sum())

    yield Contest("attention", f"voxel attention, {CHANNELS} x 8 x 4, forward and backward",
                  backward(VoxelAttention(CHANNELS)),
                  {"CBAM": backward(CBAM(CHANNELS)), "no attention": backward(nn.Identity())})  # fmt: skip
    g = torch.randn(128, CHANNELS, generator=generator("bench", "g")).requires_grad_()
    labels = torch.arange(128) // 4
    yield Contest("triplet", f"hardest triplets of 128 x {CHANNELS}, forward and backward",
                  lambda: torch.autograd.backward(batch_hard(g, labels, 0.3, squared=True)),
                  {"torch.cdist": lambda: torch.autograd.backward(_by_cdist(g, labels))})  # fmt: skip
    yield Contest("network", "a step of the tiny network on 32 pictures of 96 x 48, with voxel attention",
                  _training("voxel"), {"no attention": _training("none"), "CBAM": _training("cbam")})  # fmt: skip


def _by_cdist(g: Tensor, labels: Tensor) -> Tensor:
    """The loss as most code writes it."""
    far = torch.cdist(g, g).square()
    same = labels[:, None] == labels
    positive, negative = far.masked_fill(~same, -torch.inf).amax(1), far.masked_fill(same, torch.inf).amin(1)
    return (positive - negative + 0.3).relu().mean()


def _training(attention: Any) -> Callable[[], Any]:
    network: ReidNetwork = build(ModelConfig("resnet-tiny", 1, attention, 32), 0, 0, 0).train()
    pictures = torch.randn(32, 3, 96, 48, generator=generator("bench", "pictures"))
    labels = torch.arange(32) // 4

    def step() -> None:
        network.zero_grad()
        torch.autograd.backward(batch_hard(network(pictures), labels, 0.3, squared=True))

    return step
