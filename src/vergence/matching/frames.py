"""Local affine frames in pictures, by OpenCV's SIFT, and their matches along epipolar lines.

SIFT finds similarity frames: a place, a scale and a direction. Detected in copies of a picture that are compressed
along several directions (affine simulation, as in ASIFT), they become affine ones. OpenCV is the extra ``opencv``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.core.errors import VergenceError

TILTS = (1.0, math.sqrt(2), 2.0)
"""Compressions of affine simulation."""
APART = 3.0
"""Pixels: features that are nearer to one another are the same place."""
AT_ONCE = 1000
"""Features that are compared with all others at once."""


@dataclass(frozen=True)
class Features:
    """N local frames of a picture."""

    points: Tensor
    """(N, 2), in pixels."""
    frames: Tensor
    """(N, 2, 2): what takes the unit circle to the feature's scale, in pixels; the first column is its direction."""
    descriptors: Tensor
    """(N, 128), of length 1, float32."""

    def __len__(self) -> int:
        return len(self.points)


def opencv() -> Any:
    """The module ``cv2``; without it, one sentence says what is missing."""
    try:
        import cv2
    except ImportError:
        raise VergenceError(
            "local affine frames are found with OpenCV, which is not installed: pip install 'vergence[opencv]'"
        ) from None
    return cv2


def detect(picture: Tensor, simulate: bool = False, most: int = 4000) -> Features:
    """The ``most`` strongest frames of a grey picture (H, W) from 0 to 1; with ``simulate``, affine ones."""
    sift = opencv().SIFT_create(contrastThreshold=0.01)
    pixels = (picture.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
    found = [_detected(sift, *view) for view in _simulated(pixels, TILTS if simulate else (1.0,))]
    points, frames, descriptors, strength = (np.concatenate(parts) for parts in zip(*found, strict=True))
    kept = np.argsort(-strength, kind="stable")[:most]
    root = np.sqrt(descriptors[kept] / np.maximum(descriptors[kept].sum(1, keepdims=True), 1e-9))
    return Features(torch.from_numpy(points[kept]), torch.from_numpy(frames[kept]), torch.from_numpy(root).float())


def _simulated(pixels: Any, tilts: Sequence[float]) -> Iterator[tuple[Any, Any, Any]]:
    """Copies of a picture compressed along directions 72° / tilt apart, with masks, and the maps (2, 3) to them."""
    cv2 = opencv()
    height, width = pixels.shape
    for tilt in tilts:
        turns = [0.0] if tilt == 1 else np.arange(0.0, 180.0, 72 / tilt)
        for turn in np.deg2rad(turns):
            if tilt == 1:
                yield pixels, np.full(pixels.shape, 255, np.uint8), np.eye(2, 3)
                continue
            rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
            corners = rotation @ np.array([[0, width - 1, 0, width - 1], [0, 0, height - 1, height - 1]])
            low, size = corners.min(1), np.ceil(np.ptp(corners, axis=1)).astype(int) + 1
            turned = np.column_stack([rotation, -low])
            whole = cv2.warpAffine(pixels, turned, size.tolist(), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
            whole = cv2.GaussianBlur(whole, (0, 0), sigmaX=0.8 * math.sqrt(tilt**2 - 1), sigmaY=0.01)
            squeeze = np.diag([1 / tilt, 1.0])
            narrow = [max(int(size[0] / tilt), 1), int(size[1])]
            copy = cv2.warpAffine(whole, np.column_stack([squeeze, [0, 0]]), narrow, flags=cv2.INTER_LINEAR)
            there = squeeze @ turned
            mask = cv2.warpAffine(np.full(pixels.shape, 255, np.uint8), there, narrow, flags=cv2.INTER_NEAREST)
            yield copy, mask, there


def _detected(sift: Any, pixels: Any, mask: Any, there: Any) -> tuple[Any, Any, Any, Any]:
    """Points, frames, descriptors and strengths in a copy, as they are in the picture itself."""
    keypoints, descriptors = sift.detectAndCompute(pixels, mask)
    if not keypoints:
        return np.zeros((0, 2)), np.zeros((0, 2, 2)), np.zeros((0, 128), np.float32), np.zeros(0)
    places = np.array([k.pt for k in keypoints], np.float64)
    sizes, angles = np.array([(k.size / 2, np.deg2rad(k.angle)) for k in keypoints]).T
    cos, sin = sizes * np.cos(angles), sizes * np.sin(angles)
    frames = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2)
    back = np.linalg.inv(there[:, :2])
    return (places - there[:, 2]) @ back.T, back @ frames, descriptors, np.array([k.response for k in keypoints])


def match(
    first: Features, second: Features, F: Tensor, away: float = 2.0, ratio: float = 0.85
) -> tuple[Tensor, Tensor]:
    """Matches (M, 2) of features that are each other's best within ``away`` pixels of the epipolar line of the
    fundamental matrix F, and their similarities (M,). The angle of the descriptors is at most ``ratio`` of that to the
    best one elsewhere."""
    if not len(first) or not len(second):
        return torch.zeros(0, 2, dtype=torch.long), torch.zeros(0)
    lines = torch.cat([first.points, torch.ones(len(first), 1)], 1) @ F.mT
    lines = (lines / lines[:, :2].norm(dim=1, keepdim=True)).float()
    there = torch.cat([second.points, torch.ones(len(second), 1)], 1).float()
    best, rival, index = (torch.zeros(len(first)) for _ in range(3))
    back, backward = torch.full((len(second),), -1.0), torch.zeros(len(second)).long()
    for rows in torch.arange(len(first)).split(AT_ONCE):
        similar = first.descriptors[rows] @ second.descriptors.mT
        similar[(lines[rows] @ there.mT).abs() > away] = -1
        value, place = similar.max(1)
        better, whose = similar.max(0)
        backward = torch.where(better > back, rows[whose], backward)
        back = torch.maximum(back, better)
        near = torch.cdist(second.points[place].float(), second.points.float()) < APART
        best[rows], index[rows] = value, place.float()
        rival[rows] = similar.masked_fill_(near, -1).max(1).values
    place = index.long()
    returned = (first.points[backward[place]] - first.points).norm(dim=1) < APART
    clear = best.clamp(-1, 1).acos() <= ratio * rival.clamp(-1, 1).acos()
    kept = ((best > 0) & returned & clear).nonzero().squeeze(1)
    return torch.stack([kept, place[kept]], 1), best[kept]
