"""From photographs to tracks: local frames of every picture, matched between pictures that are near one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from vergence.core.progress import Progress
from vergence.matching.cameras import Camera
from vergence.matching.frames import Features, detect, match
from vergence.matching.tracks import Observed, Tracks, join, of_planes
from vergence.ops.epipolar import essential, relative_pose

NEIGHBOURS = 6
"""The number of pictures that each picture is matched with: those with the nearest cameras."""


def grey(picture: Tensor) -> Tensor:
    """A picture of bytes (3, H, W) as luminance (H, W) from 0 to 1, in double precision."""
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)
    return (picture.double() * weights.view(3, 1, 1)).sum(0) / 255


def fundamental(first: Camera, second: Camera) -> Tensor:
    """The fundamental matrix (3, 3) of two cameras, for points in pixels."""
    E = essential(*relative_pose(first.R, first.t, second.R, second.t))
    return torch.linalg.inv(second.K).mT @ E @ torch.linalg.inv(first.K)


def matched_tracks(
    pictures: Sequence[Tensor],
    cameras: Sequence[Camera],
    simulate: bool = False,
    most: int = 4000,
    views: int = 5,
    progress: Progress | None = None,
) -> Tracks:
    """Tracks of at most ``views`` of the pictures, bytes (3, H, W) each, from the ``most`` strongest frames of each;
    with ``simulate``, affine ones."""
    shown = progress or Progress()
    features = [detect(grey(picture), simulate, most) for picture in shown.track(pictures, "local frames")]
    return join(features, match_pairs(features, cameras, shown), views)


def match_pairs(
    features: Sequence[Features], cameras: Sequence[Camera], progress: Progress
) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
    """Matches between neighbouring pictures."""
    pairs = neighbours(cameras)
    return {
        (i, j): match(features[i], features[j], fundamental(cameras[i], cameras[j]))
        for i, j in progress.track(pairs, "pairs of pictures")
    }


def neighbours(cameras: Sequence[Camera]) -> list[tuple[int, int]]:
    """Pairs of pictures whose cameras are among the nearest of one another, but not at the same place."""
    centres = torch.stack([own.centre for own in cameras])
    far = torch.cdist(centres, centres)
    apart = far > 1e-9 * far.max()
    order = torch.where(apart, far, torch.inf).argsort(1)[:, :NEIGHBOURS].tolist()
    return sorted({(min(i, j), max(i, j)) for i, row in enumerate(order) for j in row if apart[i, j]})


def detected_patches(picture: Tensor, cameras: Sequence[Camera], simulate: bool = False, most: int = 4000) -> Observed:
    """Local frames of the first picture alone, to be tracked through the others; their places there are not known."""
    features = detect(grey(picture), simulate, most)
    nowhere = torch.full((len(features), 3), torch.nan, dtype=torch.float64)
    patches = of_planes(cameras, features.points, nowhere)
    return replace(patches, frame=torch.linalg.inv(cameras[0].K[:2, :2]) @ features.frames)
