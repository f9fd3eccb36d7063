"""Shapes of boxes and relations of pairs of boxes, as numbers that a network reads (Baldassarre et al. 2020).

All of them are invariant to scale; those of pairs also to translation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.ops.boxes import area, overlap

LEAST = 1e-3
"""Sides of boxes are taken as at least this share of the picture's, so that ratios of degenerate ones are finite."""


def box_shapes(boxes: Tensor, height: float, width: float) -> Tensor:
    """Width by height, height by width, and the share of the picture: (n, 3) of boxes (n, 4) in a picture."""
    sides = (boxes[:, 2:] - boxes[:, :2]).clamp(min=LEAST * (height * width) ** 0.5)
    ratio = sides[:, 0] / sides[:, 1]
    return torch.stack([ratio, 1 / ratio, area(boxes) / (height * width)], 1)


def pair_features(boxes: Tensor, index: Tensor, height: float, width: float) -> Tensor:
    """Five numbers for every ordered pair of boxes, (E, 5), from boxes (n, 4) and their pairs (2, E): the distance of
    the centres in relation to the picture, sine and cosine of the direction from the first to the second (0 if the
    centres coincide; y points down), intersection over union, and the second area by the first."""
    first, second = boxes[index[0]], boxes[index[1]]
    step = (second[:, :2] + second[:, 2:] - first[:, :2] - first[:, 2:]) / 2
    length = step.norm(dim=1)
    unit = step / length.clamp(min=torch.finfo(boxes.dtype).tiny).unsqueeze(1)
    ratio = area(second) / area(first).clamp(min=LEAST**2 * height * width)
    return torch.stack([length / (height * width) ** 0.5, unit[:, 1], unit[:, 0], overlap(second, first), ratio], 1)


def all_pairs(count: int, device: torch.device | None = None) -> Tensor:
    """Every ordered pair of different numbers below ``count``, (2, count * (count - 1)), by the first."""
    number = torch.arange(count, device=device)
    first, second = torch.meshgrid(number, number, indexing="ij")
    return torch.stack([first, second])[:, first != second]
