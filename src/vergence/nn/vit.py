"""Parts of the vision transformer (Dosovitskiy et al., 2021) under the usual parameter names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-6
"""Epsilon of a ViT's layer norms."""


class DropPath(nn.Module):
    """Stochastic depth: in training, drops the branch of a sample at this rate and scales up the others."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.rate:
            return x
        keep = 1 - self.rate
        return x * x.new_empty(len(x), *[1] * (x.dim() - 1)).bernoulli_(keep).div_(keep)


class Attention(nn.Module):
    """Multi-head self-attention among L tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, L, C) to the same shape."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    """A two-layer MLP on each token: wider by ``ratio``, GELU, and back."""

    def __init__(self, width: int, ratio: int = 4) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, ratio * width)
        self.fc2 = nn.Linear(ratio * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    """A pre-norm transformer block: attention, then an MLP, each with a residual."""

    def __init__(self, width: int, heads: int, drop_path: float = 0.0) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, EPS)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, EPS)
        self.mlp = Mlp(width)
        self.drop_path = DropPath(drop_path)

    def attended(self, x: Tensor) -> Tensor:
        """The attention branch for tokens (B, L, C)."""
        return self.drop_path(self.attn(self.norm1(x)))

    def thought(self, x: Tensor) -> Tensor:
        """The MLP branch for tokens (B, L, C)."""
        return self.drop_path(self.mlp(self.norm2(x)))

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, L, C) to the same shape."""
        x = x + self.attended(x)
        return x + self.thought(x)


class PatchEmbed(nn.Module):
    """Patches of each frame, or tubelets of ``tubelet`` frames (Arnab et al., 2021), to tokens."""

    def __init__(self, patch: int, width: int, tubelet: int = 1) -> None:
        super().__init__()
        self.tubelet = tubelet
        self.proj: nn.Module
        if tubelet == 1:
            self.proj = nn.Conv2d(3, width, patch, patch)
        else:
            side = (tubelet, patch, patch)
            self.proj = nn.Conv3d(3, width, side, side)

    def forward(self, clip: Tensor) -> Tensor:
        """A clip (B, T, 3, H, W) to tokens (B, T / tubelet, N, C)."""
        batch = clip.shape[0]
        if self.tubelet == 1:
            tokens: Tensor = self.proj(clip.flatten(0, 1)).flatten(2).mT
            return tokens.unflatten(0, (batch, -1))
        return self.proj(clip.transpose(1, 2)).flatten(3).permute(0, 2, 3, 1)


def initialise(module: nn.Module) -> None:
    """Linear weights from a narrow normal distribution, biases 0; for :meth:`torch.nn.Module.apply`."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        nn.init.zeros_(module.bias)


def resampled(positions: Tensor, grid: tuple[int, int]) -> Tensor:
    """Position embeddings (1, 1 + N, C) of a square grid, the class token's first, resampled (bicubic) to ``grid``."""
    count = positions.shape[1] - 1
    side = round(count**0.5)
    if side * side != count:
        raise ValueError(f"position embeddings of {count} patches do not form a square grid")
    if grid == (side, side):
        return positions
    patches = positions[:, 1:].mT.unflatten(2, (side, side))
    patches = F.interpolate(patches.float(), grid, mode="bicubic", align_corners=False).to(positions.dtype)
    return torch.cat([positions[:, :1], patches.flatten(2).mT], 1)


def usual_names(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Weights of an image or video ViT under timm's names, from timm's, torchvision's or TimeSformer's."""
    for wrapper in ("model_state", "state_dict", "model"):  # keys under which training scripts store weights
        if isinstance(state.get(wrapper), Mapping):
            state = state[wrapper]
    renamed = {}
    for name, value in state.items():
        if isinstance(value, Tensor):
            for pattern, usual in _NAMES:
                name = re.sub(pattern, usual, name)
            renamed[name] = value
    return renamed


_NAMES = tuple(
    (re.compile(pattern), usual)
    for pattern, usual in (
        (r"^(module\.)?(model\.)?", ""),
        (r"^class_token$", "cls_token"),
        (r"^conv_proj\.", "patch_embed.proj."),
        (r"^encoder\.pos_embedding$", "pos_embed"),
        (r"^encoder\.ln\.", "norm."),
        (r"^heads\.head\.", "head."),
        (r"^encoder\.layers\.encoder_layer_(\d+)\.", r"blocks.\1."),
        (r"\.ln_([12])\.", r".norm\1."),
        (r"\.self_attention\.in_proj_", ".attn.qkv."),
        (r"\.self_attention\.out_proj\.", ".attn.proj."),
        (r"\.mlp\.(0|linear_1)\.", ".mlp.fc1."),
        (r"\.mlp\.(3|linear_2)\.", ".mlp.fc2."),
        (r"\.temporal_norm1\.", ".temporal.norm."),
        (r"\.temporal_attn\.", ".temporal.attn."),
        (r"\.temporal_fc\.", ".temporal.fc."),
    )
)
