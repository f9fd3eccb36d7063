"""Cells as regions of a picture: features along the lines through their centres, and their masks in other regions."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.ops.rows import bilinear_rows, weighted_rows


def centre_lines(
    features: Tensor, boxes: Tensor, image: Tensor, points: int, scale: float = 1.0, whole: bool = False
) -> tuple[Tensor, Tensor]:
    """Features (R, points, C) along the horizontal and along the vertical line through the centres of boxes.

    ``boxes`` (R, 4) are left, top, right, bottom in pixels of the picture, ``image`` (R,) is the map of each in
    features (B, C, H, W), and ``scale`` the size of the map in relation to the picture. Points lie in the middle of
    equal parts of a box's width and height, or, with ``whole``, of the map's. Values between pixels are interpolated,
    and a pixel's value is at its centre.
    Differentiable in features and boxes.
    """
    own = boxes.to(features.dtype) * scale
    height, width = features.shape[-2:]
    share = (torch.arange(points, device=own.device, dtype=own.dtype) + 0.5) / points
    low, extent = own[:, :2], own[:, 2:] - own[:, :2]
    if whole:
        low, extent = torch.zeros_like(low), own.new_tensor([width, height]).expand_as(extent)
    along = low.unsqueeze(1) + share.view(-1, 1) * extent.unsqueeze(1)  # (R, points, 2)
    centre = ((own[:, :2] + own[:, 2:]) / 2).unsqueeze(1).expand_as(along)
    table = features.permute(0, 2, 3, 1).reshape(-1, features.shape[1])
    first = (image * (height * width)).repeat_interleave(points).unsqueeze(1)
    lines = []
    for x, y in ((along[..., 0], centre[..., 1]), (centre[..., 0], along[..., 1])):
        index, weight = bilinear_rows(y.reshape(-1) - 0.5, x.reshape(-1) - 0.5, height, width, border=True)
        lines.append(weighted_rows(table, index + first, weight).reshape(len(boxes), points, -1))
    return lines[0], lines[1]


def box_masks(boxes: Tensor, inside: Tensor, size: int) -> Tensor:
    """Masks (N, size, size) of rectangles ``boxes`` (N, 4) as they are seen in regions ``inside`` (N, 4): 1 where the
    middle of a bin lies in the box."""
    share = (torch.arange(size, device=boxes.device, dtype=boxes.dtype) + 0.5) / size
    planes = []
    for low, high in ((1, 3), (0, 2)):
        at = inside[:, low, None] + share * (inside[:, high] - inside[:, low]).unsqueeze(1)
        planes.append((at >= boxes[:, low, None]) & (at < boxes[:, high, None]))
    return (planes[0].unsqueeze(2) & planes[1].unsqueeze(1)).to(boxes.dtype)
