"""Textures cut from photographs, with smaller copies for surfaces that are far away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.data.photographs import HELD_OUT, TRAINING, Share, photographs

SIDE = 256
"""Pixels along a texture."""
LEVELS = 6
"""The texture and its copies of half the side, a quarter, ..."""


@dataclass(frozen=True)
class Atlas:
    """T square textures with their smaller copies, all in one table of pixels (rows, 3), from 0 to 1."""

    pixels: Tensor
    side: int
    count: int
    names: tuple[str, ...] = ()
    """The photographs that textures are cut from, if they are."""

    @classmethod
    def of(cls, pictures: Sequence[Tensor], side: int = SIDE, names: Sequence[str] = ()) -> Atlas:
        """From pictures (3, H, W) of any size, from 0 to 1; they are cut to the middle square."""
        squares = torch.stack([_square(picture, side) for picture in pictures])
        levels = [squares]
        for _ in range(LEVELS - 1):
            levels.append(F.avg_pool2d(levels[-1], 2))
        rows = [level.permute(0, 2, 3, 1).reshape(len(pictures), -1, 3) for level in levels]
        return cls(torch.cat(rows, 1).reshape(-1, 3), side, len(pictures), tuple(names))

    def named(self, names: Sequence[str]) -> list[int]:
        """Textures cut from the named photographs."""
        return [number for number, name in enumerate(self.names) if name in names]

    def look_up(self, texture: Tensor, places: Tensor, footprint: Tensor) -> Tensor:
        """Colours (P, 3) of textures (P,) at places (P, 2) in texels, mirrored beyond the borders; ``footprint`` (P,)
        is the width of a pixel on the surface in texels, which chooses the copy."""
        level = footprint.clamp(min=1).log2().round().clamp(max=LEVELS - 1)
        side = (self.side / 2**level).unsqueeze(1)
        at = places / 2 ** level.unsqueeze(1) - 0.5
        low = at.floor()
        share = at - low
        colours = torch.zeros(len(places), 3, dtype=self.pixels.dtype, device=places.device)
        for right in (0, 1):
            for down in (0, 1):
                corner = low + torch.tensor([right, down]).to(low)
                folded = corner.remainder(2 * side)
                folded = torch.minimum(folded, 2 * side - 1 - folded)
                weight = (share[:, 0] if right else 1 - share[:, 0]) * (share[:, 1] if down else 1 - share[:, 1])
                colours += weight.unsqueeze(1) * self.pixels[self._row(texture, level, side, folded)]
        return colours

    def _row(self, texture: Tensor, level: Tensor, side: Tensor, places: Tensor) -> Tensor:
        before = self.side**2 * (1 - 0.25**level) / 0.75  # rows of larger copies
        whole = sum((self.side >> number) ** 2 for number in range(LEVELS))
        inner = places[:, 1] * side.squeeze(1) + places[:, 0] + before.round()
        return texture * whole + inner.long()


def _square(picture: Tensor, side: int) -> Tensor:
    height, width = picture.shape[-2:]
    short = min(height, width)
    top, left = (height - short) // 2, (width - short) // 2
    middle = picture[:, top : top + short, left : left + short]
    return F.interpolate(middle[None], (side, side), mode="bilinear", antialias=True, align_corners=False)[0].clamp(
        0, 1
    )


@cache
def photographic(share: Share = "train", pieces: int = 3, side: int = SIDE) -> Atlas:
    """Textures cut from the photographs of a share: each one whole, and ``pieces - 1`` parts of it."""
    cut: list[Tensor] = []
    names = TRAINING if share == "train" else HELD_OUT
    for picture in photographs(share):
        height, width = picture.shape[-2:]
        short = min(height, width)
        for number in range(pieces):
            part = short if number == 0 else short // 2
            top = (height - part) * number // max(pieces - 1, 1)
            left = (width - part) * (pieces - 1 - number) // max(pieces - 1, 1)
            cut.append(picture[:, top : top + part, left : left + part] / 255)
    return Atlas.of(cut, side, [name for name in names for _ in range(pieces)])
