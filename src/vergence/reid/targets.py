"""What a teacher says about a picture of a person: where the body is, and where its joints are.

Masks and key points come from files that a segmenter and a pose network wrote, or with rendered people; as maps of a
network's resolution they are what its saliency is trained towards. No teacher is needed to use the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.reading.arrays import read_npz

COCO = (
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder", "left_elbow",
    "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee", "right_knee", "left_ankle",
    "right_ankle",
)  # fmt: skip
"""Key points of teachers, in COCO's order."""
PARTS = (
    "head", "left_shoulder", "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip",
    "right_hip", "left_knee", "right_knee", "left_ankle", "right_ankle",
)  # fmt: skip
"""The 13 maps: nose, eyes and ears are one head."""
MIRRORED = tuple(
    PARTS.index(name.replace("left", "*").replace("right", "left").replace("*", "right")) for name in PARTS
)
"""The part that each becomes in a mirrored picture."""
FILES = (
    "one .npz for each picture, with mask (H, W) from 0 to 1 and keypoints (17, 3) in COCO's order: x, y, visibility"
)


@dataclass(frozen=True)
class Teacher:
    """Masks and key points of one picture."""

    mask: Tensor
    """(H, W), from 0 to 1."""
    keypoints: Tensor
    """(17, 3): x and y in pixels, and more than 0 where the point is seen."""


def read_teacher(path: Path, height: int, width: int) -> Teacher:
    """The teacher's file of a picture of this size."""
    arrays = read_npz(path)
    for name, shape in (("mask", (height, width)), ("keypoints", (len(COCO), 3))):
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype.kind not in "biuf":
            got = arrays[name].shape if name in arrays else "none"
            raise VergenceError(f"{path} needs a {name} of shape {shape} for its picture, got {got}")
    mask = torch.from_numpy(arrays["mask"].astype(np.float32))
    keypoints = torch.from_numpy(arrays["keypoints"].astype(np.float32))
    if not (mask.isfinite().all() and keypoints.isfinite().all()):
        raise VergenceError(f"{path} has values that are not finite numbers")
    if float(mask.min()) < 0 or float(mask.max()) > 1:
        raise VergenceError(f"{path} has a mask from {float(mask.min()):g} to {float(mask.max()):g}: expected 0 to 1")
    seen = keypoints[:, 2] > 0
    x, y = keypoints[seen, 0], keypoints[seen, 1]
    outside = int(((x < 0) | (x > width) | (y < 0) | (y > height)).sum())
    if outside:
        raise VergenceError(f"{path} has {outside} key points outside its picture of {width} x {height} pixels")
    return Teacher(mask, keypoints)


def mask_map(masks: Tensor, rows: int, columns: int) -> Tensor:
    """Masks (..., H, W) as shares of the cells of a map (..., rows, columns)."""
    flat = masks.float().reshape(-1, 1, *masks.shape[-2:])
    return F.adaptive_avg_pool2d(flat, (rows, columns)).reshape(*masks.shape[:-2], rows, columns)


def part_maps(keypoints: Tensor, size: tuple[int, int], rows: int, columns: int, deviation: float = 1.0) -> Tensor:
    """Key points (..., 17, 3) of pictures of ``size`` (height, width) as maps (..., 13, rows, columns): a Gaussian of
    ``deviation`` cells around each visible point, at most 1; of the points of a head, the largest."""
    height, width = size
    place = keypoints[..., :2].float() * keypoints.new_tensor([columns / width, rows / height]) - 0.5
    across = (torch.arange(columns, device=keypoints.device) - place[..., :1]).square()  # (..., 17, columns)
    down = (torch.arange(rows, device=keypoints.device) - place[..., 1:]).square()
    bumps = torch.exp(-(down.unsqueeze(-1) + across.unsqueeze(-2)) / (2 * deviation**2))
    bumps = bumps * (keypoints[..., 2] > 0)[..., None, None]
    head = bumps[..., :5, :, :].amax(-3, keepdim=True)
    return torch.cat([head, bumps[..., 5:, :, :]], -3)


def mirrored(maps: Tensor) -> Tensor:
    """Part maps (..., 13, rows, columns) of the mirrored picture: left and right change their names too."""
    return maps[..., list(MIRRORED), :, :].flip(-1)
