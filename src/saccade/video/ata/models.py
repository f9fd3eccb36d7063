"""The models that are compared, by variant and size; what they cost, in closed form; and where their weights start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from saccade.errors import SaccadeError, did_you_mean
from saccade.nn.temporal import Alignment
from saccade.nn.video_vit import VideoViT


@dataclass(frozen=True)
class Size:
    """A ViT's patch side, width, number of blocks and of heads."""

    patch: int
    width: int
    depth: int
    heads: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "tiny": Size(8, 64, 4, 4),
        "ti16": Size(16, 192, 12, 3),
        "s16": Size(16, 384, 12, 6),
        "b16": Size(16, 768, 12, 12),
        "l16": Size(16, 1024, 24, 16),
    }
)
"""``tiny`` trains in a minute on small clips; the others are the image models' own sizes."""

VARIANTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "averaging": {"modelling": "averaging"},
        "joint": {"modelling": "joint"},
        "factorised": {},
        "ata": {"stages": (0, 1, 2, 3)},
        "ata-1": {"stages": (0,)},
        "ata-2": {"stages": (0, 1)},
        "ata-3": {"stages": (0, 1, 2)},
        "ata-shared": {"stages": (0, 1, 2, 3), "share": 3},
        "ata-first": {"stages": (0, 1, 2, 3), "alignment": Alignment(reference="first")},
        "ata-kept": {"stages": (0, 1, 2, 3), "alignment": Alignment(after="keep")},
        "ata-random": {"stages": (0, 1, 2, 3), "alignment": Alignment(method="random")},
        "ata-greedy": {"stages": (0, 1, 2, 3), "alignment": Alignment(method="greedy")},
        "ata-sinkhorn": {"stages": (0, 1, 2, 3), "alignment": Alignment(method="sinkhorn")},
        "conv": {"operator": "conv"},
        "ata-conv": {"operator": "conv", "stages": (0, 1, 2, 3)},
        "shift": {"operator": "shift"},
        "ata-shift": {"operator": "shift", "stages": (0, 1, 2, 3)},
        "mean": {"operator": "mean"},
        "ata-mean": {"operator": "mean", "stages": (0, 1, 2, 3)},
    }
)
"""What each variant changes of a factorised model. ``stages`` are the quarters of its blocks that are aligned: of
twelve, 0-2, 3-5, 6-8 and 9-11 (Table 2)."""


def build(variant: str, *, size: str, classes: int, frames: int, image: int, **options: Any) -> VideoViT:
    """A model for clips (B, ``frames``, 3, ``image``, ``image``).

    ``options`` are those of :class:`saccade.nn.VideoViT` and win over the variant's and the size's; ``aligned`` names
    blocks where ``stages`` would name quarters.
    """
    for kind, name, known in (("variant", variant, VARIANTS), ("size", size, SIZES)):
        if name not in known:
            raise SaccadeError(f"there is no {kind} {name!r} of ata{did_you_mean(name, known)}")
    chosen = {**vars(SIZES[size]), **VARIANTS[variant], **options}
    stages = chosen.pop("stages", ())
    chosen.setdefault("aligned", blocks_of(stages, chosen["depth"]))
    return VideoViT(classes, frames=frames, image=image, **chosen)


def blocks_of(stages: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """The blocks of these quarters of a model."""
    return tuple(b for b in range(depth) if b * 4 // depth in stages)
