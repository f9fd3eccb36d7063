"""Embedded descriptors with informative directions and nuisance directions.

A descriptor concatenates content (class centre plus noise) and nuisance (one of a few scenes that all classes share,
plus noise), turned by one fixed rotation and scaled to length one. The nearest neighbours of a query are therefore a
mixture of its class and its scene: averaging them drifts to the scene, and only a method that has learned the
informative directions can separate the two. Classes have 4 to 60 members. Rotation and scenes are shared by all splits
of a seed; the classes of training, validation and test are different.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.retrieval.data import Clusters

CONTENT, NUISANCE, SCENES = 24, 40, 20
DIMENSION = CONTENT + NUISANCE
SPREAD, SCENE, BLUR = 0.9, 0.95, 0.6
"""Noise around the class centre, weight of the scene, and noise around the scene."""
SMALLEST, LARGEST = 4, 60
EVERY = 8
"""One in this many test descriptors is a query."""


def world(classes: int, split: str, seed: int = 0) -> Clusters:
    """Descriptors of the classes of a split. All splits of a seed share rotation and scenes."""
    if classes < 2:
        raise VergenceError(f"embedded data has at least 2 classes, got {classes}")
    shared = generator("world", seed)
    rotation = torch.linalg.qr(torch.randn(DIMENSION, DIMENSION, generator=shared, dtype=torch.float64)).Q
    scenes = _directions(SCENES, NUISANCE, shared)
    own = generator("world", seed, split, classes)
    sizes = torch.randint(SMALLEST, LARGEST + 1, (classes,), generator=own)
    clusters = torch.arange(classes).repeat_interleave(sizes)
    count = len(clusters)
    content = _directions(classes, CONTENT, own)[clusters] + _noise(count, CONTENT, SPREAD, own)
    scene = scenes[torch.randint(SCENES, (count,), generator=own)]
    nuisance = SCENE * (scene + _noise(count, NUISANCE, BLUR, own))
    turned = torch.cat([content, nuisance], 1) @ rotation
    descriptors = (turned / turned.norm(dim=1, keepdim=True)).float()
    queries = torch.arange(0, count, 1 if split == "train" else EVERY)
    return Clusters(descriptors, clusters, queries, where=f"embedded {split} data")


def _directions(count: int, dimension: int, source: torch.Generator) -> Tensor:
    drawn = torch.randn(count, dimension, generator=source, dtype=torch.float64)
    return drawn / drawn.norm(dim=1, keepdim=True)


def _noise(count: int, dimension: int, length: float, source: torch.Generator) -> Tensor:
    """Normal noise (count, dimension) whose rows have about this length."""
    return length * torch.randn(count, dimension, generator=source, dtype=torch.float64) / dimension**0.5
