"""Optical flow as an operator: warping, upsampling, splatting, and what two opposite flows say about each other.

Flow is (B, 2, H, W), motion to the right and down in pixels of its own grid.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def places(flow: Tensor) -> Tensor:
    """Where every pixel goes: columns and rows, (B, 2, H, W)."""
    height, width = flow.shape[-2:]
    rows = torch.arange(height, dtype=flow.dtype, device=flow.device).view(-1, 1)
    columns = torch.arange(width, dtype=flow.dtype, device=flow.device)
    return torch.stack([columns + flow[:, 0], rows + flow[:, 1]], 1)


def warp(image: Tensor, flow: Tensor, border: str = "zeros") -> Tensor:
    """``image(x + flow(x))`` for images (B, C, H, W), bilinear; outside it is zero, or the ``border``'s pixel."""
    height, width = image.shape[-2:]
    at = places(flow)
    grid = torch.stack([(2 * at[:, 0] + 1) / width - 1, (2 * at[:, 1] + 1) / height - 1], -1)
    return F.grid_sample(image, grid.to(image.dtype), "bilinear", border, align_corners=False)


def inside(flow: Tensor) -> Tensor:
    """Whether a pixel stays in the image, (B, 1, H, W)."""
    height, width = flow.shape[-2:]
    x, y = places(flow).unbind(1)
    return ((x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)).unsqueeze(1)


def upsampled(flow: Tensor, factor: int = 2) -> Tensor:
    """Flow on a grid that is ``factor`` times as fine, in its pixels: bilinear, with the corners aligned as in HD³."""
    size = [side * factor for side in flow.shape[-2:]]
    return factor * F.interpolate(flow, size, mode="bilinear", align_corners=True)


def resized_flow(flow: Tensor, height: int, width: int, aligned: bool = True) -> Tensor:
    """Flow on another grid of the same picture, in its pixels, scaled along each axis."""
    if flow.shape[-2:] == (height, width):
        return flow
    scale = flow.new_tensor([width / flow.shape[-1], height / flow.shape[-2]]).view(2, 1, 1)
    return scale * F.interpolate(flow, (height, width), mode="bilinear", align_corners=aligned)


def splat(values: Tensor, flow: Tensor) -> Tensor:
    """Adds values (B, C, H, W) at ``x + flow(x)``, with bilinear weights; what leaves the image is lost."""
    batch, channels, height, width = values.shape
    x, y = places(flow).unbind(1)
    left, top = x.floor(), y.floor()
    out = values.new_zeros(batch, channels, height * width)
    for dy in (0, 1):
        for dx in (0, 1):
            column, row = left + dx, top + dy
            weight = (1 - (x - column).abs()) * (1 - (y - row).abs())
            seen = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            weight = torch.where(seen, weight, torch.zeros_like(weight))
            place = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).nan_to_num(0.0).long()
            index = place.flatten(1).unsqueeze(1).expand(-1, channels, -1)
            out = out.scatter_add(2, index, (values * weight.unsqueeze(1)).flatten(2))
    return out.view_as(values)


def uniqueness(flow: Tensor) -> Tensor:
    """How many pixels land where a pixel lands, (B, 1, H, W): 1 if it is alone, more where it covers or is covered."""
    return warp(splat(torch.ones_like(flow[:, :1]), flow), flow)


def reversed_flow(flow: Tensor) -> tuple[Tensor, Tensor]:
    """The opposite flow, estimated from this one: every pixel puts its negative motion where it goes, averaged by
    bilinear weights. (B, 2, H, W), zero where no pixel lands, and the mask of where one does (B, 1, H, W)."""
    hits = splat(torch.ones_like(flow[:, :1]), flow)
    landed = hits > 1e-3
    return torch.where(landed, splat(-flow, flow) / hits.clamp_min(1e-3), 0.0), landed.to(flow.dtype)


def disagreement(flow: Tensor, opposite: Tensor) -> Tensor:
    """``|F(x) + B(x + F(x))|`` in pixels, (B, 1, H, W): zero where both flows agree."""
    return (flow + warp(opposite, flow, "border")).norm(dim=1, keepdim=True)


def occluded(flow: Tensor, opposite: Tensor, share: float = 0.01, pixels: float = 0.5) -> Tensor:
    """Pixels (B, H, W) that the other image does not show, by the forward-backward check of Sundaram et al. (2010):
    the squared disagreement is more than ``share`` of the squared motions plus ``pixels``, or they leave the image."""
    back = warp(opposite, flow, "border")
    gap = (flow + back).square().sum(1)
    size = flow.square().sum(1) + back.square().sum(1)
    return (gap > share * size + pixels) | ~inside(flow)[:, 0]


CUES = 8
"""Channels of :func:`flow_cues`."""


def flow_cues(flow: Tensor, opposite: Tensor) -> Tensor:
    """What the flows of both directions say about each other, (B, 8, H, W), without gradient: the negated opposite flow
    where a pixel goes (2) and its distance from the flow (1); the flow that the opposite one implies (2) and where it
    does (1); the uniqueness of where a pixel goes (1); and whether it leaves the image (1)."""
    flow, opposite = flow.detach(), opposite.detach()
    back = -warp(opposite, flow)
    implied, hit = reversed_flow(opposite)
    gap = (flow - back).norm(dim=1, keepdim=True)
    return torch.cat([back, gap, implied, hit, uniqueness(flow), (~inside(flow)).to(flow.dtype)], 1)
