"""Embedded re-identification data: rendered people seen by several cameras, with masks and joints.

Splits have different people under the same cameras, unless other cameras are asked for. In ``train`` and ``source``
identities count from 0; in the others some pictures are queries, and the gallery also has distractors, a fifth as many
people again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from vergence.reid.data import Seen
from vergence.reid.shots import Crowd, crowd

DISTRACTOR = 0
"""The identity of people in the gallery that no query shows."""
Hiding = Literal["some", "queries"]
"""some: every fifth picture is partly hidden; queries: every query is, and no picture of the gallery."""


@dataclass(frozen=True)
class Population:
    """Pictures (N, 3, H, W) as bytes with identities and cameras; the first ``queries`` are the queries."""

    pictures: Tensor
    identities: tuple[int, ...]
    cameras: tuple[int, ...]
    masks: Tensor
    """(N, H, W), where the person is seen."""
    joints: Tensor
    """(N, 17, 3): x and y in pixels, and whether the joint is seen (1), hidden (0) or outside the picture (-1)."""
    queries: int = 0

    def __len__(self) -> int:
        return len(self.identities)

    def __getitem__(self, index: int) -> Seen:
        return Seen(self.pictures[index], self.identities[index], self.cameras[index])


@lru_cache(maxsize=8)
def population(
    people: int,
    height: int,
    width: int,
    split: str,
    cameras: tuple[int, ...] = (0, 1, 2, 3),
    shots: int = 3,
    hiding: Hiding = "some",
) -> Population:
    """``shots`` pictures of each of ``people`` identities by each camera. The first by each camera is a query; with one
    shot only, those by the first half of the cameras are."""
    seed = ("population", split)
    if split in ("train", "source"):
        return _population(crowd(people, height, width, seed, cameras, shots))
    everyone = people + people // 5
    if hiding == "some":
        taken = crowd(everyone, height, width, seed, cameras, shots)
        asks = (torch.arange(len(taken)) % shots == 0) & (taken.identities < people)
        if shots == 1:  # some cameras ask, the others are the gallery
            asks &= torch.isin(taken.cameras, torch.tensor(cameras[: len(cameras) // 2]))
        return _population(taken, asks, people)
    asked = crowd(people, height, width, (*seed, "hidden"), cameras, 1, hidden=1.0, like=seed)
    gallery = crowd(everyone, height, width, seed, cameras, shots, hidden=0.0)
    together = Crowd(*(torch.cat([getattr(asked, name), getattr(gallery, name)]) for name in vars(asked)))
    return _population(together, torch.arange(len(together)) < len(asked), people)


def _population(taken: Crowd, asks: Tensor | None = None, people: int = 0) -> Population:
    """The queries first, then the gallery; identities beyond ``people`` are distractors."""
    if asks is None:
        order, identities = torch.arange(len(taken)), taken.identities
    else:
        order = torch.cat([asks.nonzero()[:, 0], (~asks).nonzero()[:, 0]])
        own = taken.identities[order]
        identities = torch.where(own < people, own + 1, DISTRACTOR)
    return Population(
        taken.pictures[order],
        tuple(identities.tolist()),
        tuple(taken.cameras[order].tolist()),
        taken.masks[order],
        taken.joints[order],
        0 if asks is None else int(asks.sum()),
    )
