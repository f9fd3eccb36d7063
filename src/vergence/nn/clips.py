"""Networks that process the frames of a clip one by one and then combine them: by a mean over time, or by a
transformer.

Clips are (B, T, 3, H, W). Frames go through the 2D layers as a batch; blocks that mix frames get maps (B, C, T, H, W),
all frames of a clip as one graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError, did_you_mean
from vergence.nn.nonlocals import BLOCKS
from vergence.nn.resnet import ResNet
from vergence.nn.resnet3d import channels_first
from vergence.nn.stages import Insert
from vergence.nn.vit import Attention

BlockOver = Literal["clip", "frame"]
"""The input of an inserted block: all frames of a clip, (B, C, T, H, W), or single frames, (B T, C, H, W)."""


class ResNetTP(ResNet):
    """Temporal pooling (Gao & Nevatia, 2018): a ResNet on each frame, its features averaged over places and frames.

    The defaults are ``ResNet50TP``, with 2048 features and a linear classifier on them. Parameter names are those of
    the image network, whose weights load unchanged.
    """

    def __init__(
        self,
        classes: int,
        depths: Sequence[int] = (3, 4, 6, 3),
        block: Literal["basic", "bottleneck"] = "bottleneck",
        widths: Sequence[int] = (64, 128, 256, 512),
        at: Sequence[str] = (),
        insert: Insert | None = None,
        last_stride: int = 2,
        *,
        block_over: BlockOver = "clip",
    ) -> None:
        super().__init__(classes, depths, block, widths, at, insert, last_stride)
        self.block_over = block_over

    def maps(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to the last maps (B, T, C, h, w)."""
        frames = channels_first(clip).shape[2]
        x = self.stem(clip.flatten(0, 1))
        for number in range(1, self.stage_count + 1):
            stage = self.get_submodule(f"layer{number}")
            for index in range(len(stage)):  # type: ignore[arg-type]
                x = stage[index](x)  # type: ignore[index]
                x = self._look(f"layer{number}.{index}", x, frames)
        return x.unflatten(0, (-1, frames))

    def features(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to their features, (B, C)."""
        return self.maps(clip).mean((1, 3, 4))

    def forward(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to logits (B, classes)."""
        return self.fc(self.features(clip))

    def _look(self, place: str, x: Tensor, frames: int) -> Tensor:
        """Frames (B T, C, H, W) through the block inserted at a place, if any."""
        if place not in self.inserted_at:
            return x
        block = self.inserted[place]
        if self.block_over == "frame":
            return block(x)
        clip = x.unflatten(0, (-1, frames)).transpose(1, 2)  # (B, C, T, H, W)
        return block(clip).transpose(1, 2).flatten(0, 1)


class VideoTransformer(nn.Module):
    """VTN (Kozlov et al., 2019): a ResNet on each frame, then a transformer over its features, and a mean of logits.

    ``mixer`` is ``attention`` (multi-head, as published), the name of a nonlocal block that replaces it
    (:data:`vergence.nn.BLOCKS`), or a function that builds one for a number of channels. ``tokens`` are the frames,
    each the mean of its last map, as published, or all ``places`` of all frames.
    """

    def __init__(
        self,
        classes: int,
        depths: Sequence[int] = (3, 4, 6, 3),
        block: Literal["basic", "bottleneck"] = "basic",
        widths: Sequence[int] = (64, 128, 256, 512),
        *,
        layers: int = 4,
        heads: int = 8,
        mixer: str | Insert = "attention",
        tokens: Literal["frames", "places"] = "frames",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder = ResNet(0, depths, block, widths)
        width = self.encoder.outputs
        if layers < 1:
            raise VergenceError(f"a video transformer has at least one layer, got {layers}")
        self.tokens = tokens
        make = _mixer(mixer, heads)
        self.layers = nn.ModuleList(TransformerLayer(width, make(width), dropout) for _ in range(layers))
        self.fc = nn.Linear(width, classes)

    def maps(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to the last tokens, (B, C, T, h, w); h and w are 1 if frames are tokens."""
        frames = channels_first(clip).shape[2]
        features = self.encoder.run_stages(self.encoder.stem(clip.flatten(0, 1)))
        if self.tokens == "frames":
            features = features.mean((2, 3), keepdim=True)
        x = features.unflatten(0, (-1, frames)).transpose(1, 2)
        x = x + waves(frames, x.shape[1]).to(x).mT[:, :, None, None]
        for layer in self.layers:
            x = layer(x)
        return x

    def forward(self, clip: Tensor) -> Tensor:
        """Clips (B, T, 3, H, W) to logits (B, classes)."""
        return self.fc(self.maps(clip).mean((2, 3, 4)))  # the mean of logits equals the logits of the mean

    @property
    def inserted(self) -> dict[str, nn.Module]:
        """The nonlocal blocks that replace attention, by name."""
        mixers = {f"layers.{number}.mix": layer.mix for number, layer in enumerate(self.layers)}
        return {name: mix for name, mix in mixers.items() if not isinstance(mix, SelfAttention)}  # type: ignore[misc]


class TransformerLayer(nn.Module):
    """What mixes tokens, LayerNorm, an MLP on each token that is added, LayerNorm (Vaswani et al., 2017)."""

    def __init__(self, width: int, mix: nn.Module, dropout: float = 0.0, ratio: int = 4) -> None:
        super().__init__()
        self.mix = mix
        self.norm1 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, ratio * width)
        self.fc2 = nn.Linear(ratio * width, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, C, T, h, w)."""
        tokens = self.norm1(self.mix(x).movedim(1, -1))
        tokens = self.norm2(tokens + self.dropout(self.fc2(F.relu(self.fc1(tokens)))))
        return tokens.movedim(-1, 1)


class SelfAttention(Attention):
    """Multi-head attention among all places of a map (B, C, ...), added to it."""

    def __init__(self, width: int, heads: int) -> None:
        if heads < 1 or width % heads:
            raise VergenceError(f"attention needs a width divisible by its heads, got {heads} heads for {width}")
        super().__init__(width, heads)

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x.flatten(2).mT).mT.reshape(x.shape)


def waves(length: int, width: int) -> Tensor:
    """Sinusoidal position encodings, (length, width)."""
    rates = torch.exp(-math.log(10_000) * torch.arange(0, width, 2, device="cpu") / width)
    angles = torch.arange(length, device="cpu")[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


def _mixer(mixer: str | Insert, heads: int) -> Insert:
    if mixer == "attention":
        return lambda width: SelfAttention(width, heads)
    if callable(mixer):
        return mixer
    if mixer not in BLOCKS:
        raise VergenceError(f"no block {mixer!r} to mix tokens with{did_you_mean(mixer, ['attention', *BLOCKS])}")
    return BLOCKS[mixer]
