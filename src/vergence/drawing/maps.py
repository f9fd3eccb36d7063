"""Colours for maps: disparity, depth and optical flow as pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

WHEEL = (15, 6, 4, 11, 13, 6)
"""Steps from red to yellow, green, cyan, blue, magenta and back to red: as many as the eye tells apart."""


def coloured(values: Tensor, low: float | None = None, high: float | None = None, palette: str = "turbo") -> Tensor:
    """A map (H, W) as bytes (3, H, W) in a palette of matplotlib, from ``low`` to ``high`` (by default, the 1st to the
    99th percentile); values that are not finite are black."""
    from matplotlib import colormaps

    finite = values[values.isfinite()].float()
    if low is None:
        low = float(finite.quantile(0.01)) if 0 < len(finite) < 10**7 else 0.0
    if high is None:
        high = float(finite.quantile(0.99)) if 0 < len(finite) < 10**7 else 1.0
    share = ((values.float() - low) / max(high - low, 1e-9)).clamp(0, 1).nan_to_num(0)
    shades: Any = colormaps[palette](share.detach().cpu().numpy())[..., :3]
    picture = torch.from_numpy((shades * 255).round().astype(np.uint8)).permute(2, 0, 1)
    return torch.where(values.isfinite().cpu(), picture, 0)


def flow_wheel() -> Tensor:
    """The 55 colours of the wheel (55, 3), from 0 to 1, beginning with red."""
    corners = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [1, 0, 1], [1, 0, 0]]).float()
    pieces = []
    for number, steps in enumerate(WHEEL):
        share = (torch.arange(steps) / steps).unsqueeze(1)
        pieces.append((1 - share) * corners[number] + share * corners[number + 1])
    return torch.cat(pieces)


def flow_colours(flow: Tensor, most: float | None = None) -> Tensor:
    """Optical flow (2, H, W) as bytes (3, H, W): the hue is the direction (red: to the right), and the colour is as
    strong as the motion is fast; ``most`` pixels are the full colour, by default the 99th percentile. Unknown pixels
    are black."""
    known = flow.isfinite().all(0) & (flow.abs() < 1e9).all(0)
    speed = torch.where(known, flow.norm(dim=0), 0).float()
    if most is None:
        some = speed[known]
        most = float(some.quantile(0.99)) if 0 < len(some) < 10**7 else float(speed.max())
    wheel = flow_wheel().to(speed)
    angle = torch.atan2(torch.where(known, flow[1], 0).float(), torch.where(known, flow[0], 0).float())
    place = (angle / (2 * math.pi)) % 1 * len(wheel)
    low = place.floor().long() % len(wheel)
    share = (place - place.floor()).unsqueeze(-1)
    hue = (1 - share) * wheel[low] + share * wheel[(low + 1) % len(wheel)]
    strength = (speed / max(most, 1e-9)).clamp(0, 1).unsqueeze(-1)
    colours = torch.where(known.unsqueeze(-1), 1 - strength * (1 - hue), 0)
    return (colours * 255).round().to(torch.uint8).permute(2, 0, 1).cpu()
