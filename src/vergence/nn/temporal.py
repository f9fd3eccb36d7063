"""Operators over time at a fixed position, and :class:`Aligned`, which makes any of them follow motion.

All map features (B, T, N, C), patches in a row, to the same shape, and start as the identity or nearly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.vit import EPS, Attention, DropPath
from vergence.ops.alignment import Reference, align, composed, dealign, from_tracks, order, tracks
from vergence.ops.assignment import Method


class TemporalAttention(nn.Module):
    """Self-attention over the T tokens of each position (Bertasius et al., 2021), a linear layer, and a residual."""

    def __init__(self, width: int, heads: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, EPS)
        self.attn = Attention(width, heads)
        self.fc = nn.Linear(width, width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, order: Tensor | None = None) -> Tensor:
        """Attend along fixed positions, or along an order (B, T, N); either takes one copy."""
        tokens = self.norm(x)
        tokens = tokens.transpose(1, 2).contiguous() if order is None else tracks(tokens, order)
        attended = self.fc(self.attn(tokens.flatten(0, 1))).view(tokens.shape)
        return x + self.drop_path(attended.transpose(1, 2) if order is None else from_tracks(attended, order))


class TemporalConv(nn.Module):
    """A depthwise convolution over three frames, with a residual; initialised to zero, so it starts as the identity."""

    def __init__(self, width: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, EPS)
        self.weight = nn.Parameter(torch.zeros(3, width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        # Three products of whole frames: PyTorch's depthwise convolution would need channels first.
        padded = F.pad(self.norm(x), (0, 0, 0, 0, 1, 1))
        frames = x.shape[1]
        summed = sum(self.weight[k] * padded[:, k : k + frames] for k in range(3))
        return x + self.drop_path(summed + self.bias)


class TemporalShift(nn.Module):
    """An eighth of the channels from the previous frame and an eighth from the next one (Lin et al., 2019), a linear
    layer, and a residual."""

    def __init__(self, width: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, EPS)
        self.fc = nn.Linear(width, width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        y, part = self.norm(x), max(x.shape[-1] // 8, 1)
        before = F.pad(y[:, :-1, :, :part], (0, 0, 0, 0, 1, 0))
        after = F.pad(y[:, 1:, :, part : 2 * part], (0, 0, 0, 0, 0, 1))
        return x + self.drop_path(self.fc(torch.cat([before, after, y[..., 2 * part :]], -1)))


class TemporalMean(nn.Module):
    """The average of each token and its position's mean over time, without parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return (x + x.mean(1, keepdim=True)) / 2


@dataclass(frozen=True)
class Alignment:
    """How the frames of a clip are aligned."""

    method: Method | Literal["random"] = "exact"
    """The assignment method; ``random`` is a control, an order unrelated to the content."""
    reference: Reference = "previous"
    """The frame that each frame is matched to: the one before it (as published), or the first."""
    after: Literal["restore", "keep"] = "restore"
    """Whether patches return to their places after the operator (as published), or stay aligned."""

    def order(self, x: Tensor) -> Tensor:
        """The order (B, T, N) of features (B, T, N, C); no gradient."""
        if self.method == "random":
            return _scrambled(x.detach())
        try:
            return order(x, self.method, self.reference)
        except ValueError as error:
            raise VergenceError(f"frames cannot be aligned: {error}") from None

    def along(self, order: Tensor, op: nn.Module, x: Tensor) -> Tensor:
        """An operator applied to features (B, T, N, C) in an order (B, T, N)."""
        if isinstance(op, TemporalAttention) and self.after == "restore":
            return op(x, order)  # the same result with fewer copies
        x = op(align(x, order))
        return dealign(x, order) if self.after == "restore" else x


class Aligned(nn.Module):
    """``dealign(op(align(x)))``: an operator over time along matched patches, without extra parameters."""

    def __init__(self, op: nn.Module, alignment: Alignment = Alignment()) -> None:
        super().__init__()
        self.op, self.alignment = op, alignment

    def forward(self, x: Tensor) -> Tensor:
        """Features (B, T, N, C)."""
        return self.alignment.along(self.alignment.order(x), self.op, x)


def _scrambled(x: Tensor) -> Tensor:
    """A pseudo-random order for each frame, the same for all clips: one that depended on features would change with
    their rounding, in half precision and from one machine to another."""
    frames, places = torch.arange(x.shape[1]), torch.arange(x.shape[2])
    # As tensors, because ONNX would round plain numbers to single precision and produce another order.
    across, along, spread = torch.tensor([12.9898, 78.233, 43758.5453], dtype=torch.float64)
    keys = torch.sin(across * places.double() + along * frames.double()[:, None]) * spread
    keys = keys - keys.floor()
    keys = keys.to(x.device).expand(len(x), -1, -1)
    return composed(keys[:, 1:].argsort(-1), "first")
