"""Displacement fields of feature maps, one for each group of channels (Kim et al., ECCV 2020).

A field (B, C, 2, H, W) holds for every position i of C groups of channels the shift, to the right and down, in pixels
of the map, to where it samples: ``V_c(i) = U_c(i + G_c(i))``. Differentiable in all arguments.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def candidate_offsets(window: int, like: Tensor) -> Tensor:
    """Shifts (window², 2) to the right and down of the candidates of a position, row by row."""
    axis = torch.arange(window, device=like.device, dtype=like.dtype) - window // 2
    down, right = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([right, down], -1).reshape(-1, 2)


def candidate_probabilities(response: Tensor, residual: Tensor | None, window: int, beta: float) -> Tensor:
    """Eq. 2: the softmax over the candidates j of a window around each position i of ``(R(j) + E(i, j)) / beta``.

    ``response`` R is (B, C, H, W), ``residual`` E (B, C, window², H, W) or None for zero. Candidates outside of the map
    have probability zero. Returns (B, C, window², H, W).
    """
    height, width = response.shape[-2:]
    reach = window // 2
    padded = F.pad(response, (reach,) * 4, value=-torch.inf)
    # Windows of the map's own size: entry (dy, dx) is the whole map shifted, so nothing is copied yet.
    around = padded.unfold(2, height, 1).unfold(3, width, 1)
    logits = around if residual is None else around + residual.unflatten(2, (window, window))
    return (logits / beta).flatten(2, 3).softmax(2)


def expected_offsets(probabilities: Tensor, window: int) -> Tensor:
    """Eq. 1: the mean shift (B, C, 2, H, W) under probabilities (B, C, window², H, W)."""
    offsets = candidate_offsets(window, probabilities).mT
    return (offsets @ probabilities.flatten(3)).unflatten(3, probabilities.shape[-2:])


def sampled(features: Tensor, fields: Tensor) -> Tensor:
    """Maps (B, K, H, W) sampled bilinearly at their positions plus ``fields`` (B, C, 2, H, W): the K channels are, in
    order, C groups of K / C, and each group has its own field. What lies outside of the map is its border."""
    batch, channels, height, width = features.shape
    groups = fields.shape[1]
    if channels % groups or fields.shape != (batch, groups, 2, height, width):
        raise ValueError(
            f"fields of (B, C, 2, H, W) for C groups of channels are expected, got {tuple(fields.shape)} for maps of "
            f"{tuple(features.shape)}"
        )
    grid = sampling_grid(fields.flatten(0, 1))
    parts = features.reshape(batch * groups, channels // groups, height, width)
    warped = F.grid_sample(parts, grid, "bilinear", "border", align_corners=False)
    return warped.reshape(batch, channels, height, width)


def sampling_grid(field: Tensor) -> Tensor:
    """A field (N, 2, H, W) as a grid (N, H, W, 2) for ``grid_sample`` without ``align_corners``, which also fits maps
    of a single row or column."""
    height, width = field.shape[-2:]
    x = torch.arange(width, device=field.device, dtype=field.dtype) + field[:, 0]
    y = torch.arange(height, device=field.device, dtype=field.dtype).unsqueeze(1) + field[:, 1]
    return torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], -1)


def field_of_grid(grid: Tensor) -> Tensor:
    """The field (N, 2, H, W) of a sampling grid (N, H, W, 2): the inverse of :func:`sampling_grid`."""
    height, width = grid.shape[1:3]
    x = ((grid[..., 0] + 1) * width - 1) / 2 - torch.arange(width, device=grid.device, dtype=grid.dtype)
    y = ((grid[..., 1] + 1) * height - 1) / 2 - torch.arange(height, device=grid.device, dtype=grid.dtype).unsqueeze(1)
    return torch.stack([x, y], 1)


def consistency(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    """Eq. 4 for triplets of warped maps (T, K, H, W): ``[|V - V'|² - |V - V''|² + margin]₊``, summed over positions and
    averaged over triplets; zero without any."""
    near, far = ((anchor - other).square().sum(1) for other in (positive, negative))
    return F.relu(near - far + margin).sum((1, 2)).sum() / max(len(anchor), 1)


def triplets(labels: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Positions (T,) in a batch with labels (B,): every sample that has another of its class and one of another class,
    with a random one of each."""
    same = labels[:, None] == labels
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    alike, other = same & ~itself, ~same
    chosen = (alike.any(1) & other.any(1)).nonzero()[:, 0]
    draw = torch.rand(2, len(chosen), len(labels), generator=generator, device=labels.device)
    positive, negative = (
        torch.where(allowed[chosen], share, -1).argmax(1) for allowed, share in zip((alike, other), draw, strict=True)
    )
    return chosen, positive, negative
