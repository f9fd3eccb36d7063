"""Handwritten digits as a camera would see them: real pen strokes, in any ink, on paper or on a pale photograph.

The strokes are scikit-learn's 1797 handwritten digits (8 x 8 grey values), enlarged smoothly, turned and sheared. Half
of the pictures are ink on shaded paper; in the others a pale photograph is printed on it. Digits and photographs of the
test pictures are never trained on.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.seeding import generator
from vergence.data.digits import handwritten
from vergence.data.photographs import HELD_OUT, TRAINING, photograph
from vergence.data.rendered import rendered
from vergence.recognition.data import Labelled

TRAINED = 1347
"""The first three quarters of the digits are for training; the others were written later, mostly by others."""
CLASSES = tuple(str(digit) for digit in range(10))
CONTRAST = 0.35
"""Least difference in brightness between ink and ground."""


def inked(count: int, size: int, split: str, *seed: int | str) -> Labelled:
    """``count`` pictures of ``size`` pixels, the same number of each digit; ``val`` is ``test``."""
    split = "train" if split == "train" else "test"
    asked = {"count": count, "size": size, "split": split, "seed": seed}
    made = rendered("inked", asked, [__name__], lambda: _drawn(count, size, split, seed))
    return Labelled(made["images"], made["labels"], CLASSES)


def _drawn(count: int, size: int, split: str, seed: tuple[int | str, ...]) -> dict[str, Tensor]:
    source = generator("inked", split, count, size, *seed)
    labels = torch.arange(count) % 10
    cover = _strokes(labels, size, split, source)  # (N, 1, S, S)
    ground = torch.where(_coin(count, source), _paper(count, size, source), _patches(count, size, split, source))
    light = ground.mean((1, 2, 3), keepdim=True)
    colour = torch.rand(count, 3, 1, 1, generator=source)
    level = (light - CONTRAST) * torch.rand(count, 1, 1, 1, generator=source)  # darker than the ground
    ink = (level + 0.5 * (colour - colour.mean(1, keepdim=True))).clamp(0, 1)
    pictures = ground + cover * (ink - ground)
    pictures = pictures + 0.02 * torch.randn(pictures.shape, generator=source)
    return {"images": pictures.clamp(0, 1).mul(255).round().to(torch.uint8), "labels": labels}


def _coin(count: int, source: torch.Generator) -> Tensor:
    return torch.rand(count, 1, 1, 1, generator=source) < 0.5


def _strokes(labels: Tensor, size: int, split: str, source: torch.Generator) -> Tensor:
    """How much ink covers each pixel, (N, 1, S, S): random digits of their class, each in its own pose."""
    images, digits = handwritten()
    first, last = (0, TRAINED) if split == "train" else (TRAINED, len(digits))
    pools = [first + (digits[first:last] == digit).nonzero()[:, 0] for digit in range(10)]
    draws = torch.rand(len(labels), generator=source)
    chosen = torch.stack(
        [pools[d][int(u * len(pools[d]))] for d, u in zip(labels.tolist(), draws.tolist(), strict=True)]
    )
    glyphs = F.interpolate(images[chosen].float().unsqueeze(1), scale_factor=4, mode="bicubic", align_corners=False)

    def between(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(len(labels), generator=source)

    angle, shear = between(-0.2, 0.2), between(-0.25, 0.25)
    scale, ratio = between(1.05, 1.5), between(0.9, 1.1)
    cos, sin = angle.cos() * scale, angle.sin() * scale
    rows = [cos * ratio, -sin + shear * cos, between(-0.2, 0.2), sin * ratio, cos + shear * sin, between(-0.2, 0.2)]
    poses = torch.stack(rows, -1).view(-1, 2, 3)
    grid = F.affine_grid(poses, [len(labels), 1, size, size], align_corners=False)
    seen = F.grid_sample(glyphs, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    width = between(0.3, 0.5).view(-1, 1, 1, 1)  # a lower threshold is a broader pen
    return torch.sigmoid((seen - width) * 14)


def _paper(count: int, size: int, source: torch.Generator) -> Tensor:
    """Shaded paper, white to yellowish."""
    corners = 0.62 + 0.36 * torch.rand(count, 1, 2, 2, generator=source)
    shade = F.interpolate(corners, (size, size), mode="bilinear", align_corners=True)
    tint = 1 - 0.15 * torch.rand(count, 3, 1, 1, generator=source) * torch.tensor([0.2, 0.5, 1.0]).view(3, 1, 1)
    return shade * tint


def _patches(count: int, size: int, split: str, source: torch.Generator) -> Tensor:
    """Patches of photographs of random size, made light, as if printed on paper."""
    names = TRAINING if split == "train" else HELD_OUT
    which = torch.randint(len(names), (count,), generator=source)
    centres, extents = torch.rand(count, 2, generator=source), torch.rand(count, generator=source)
    patches = torch.empty(count, 3, size, size)
    for number, name in enumerate(names):
        rows = (which == number).nonzero()[:, 0]
        if not len(rows):
            continue
        whole = photograph(name).div(255)
        extent = (0.05 + 0.25 * extents[rows]).view(-1, 1, 1)  # a patch's half side, relative to the photograph's
        aspect = torch.tensor([1.0, whole.shape[2] / whole.shape[1]])
        line = (torch.arange(size) * 2 + 1) / size - 1
        square = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)  # (S, S, 2)
        middle = (centres[rows] * 2 - 1) * 0.7
        grid = middle.view(-1, 1, 1, 2) + square * extent.unsqueeze(-1) * aspect
        patches[rows] = (
            F.grid_sample(
                whole.expand(1, -1, -1, -1),
                grid.reshape(1, -1, size, 2),
                padding_mode="reflection",
                align_corners=False,
            )[0]
            .view(3, len(rows), size, size)
            .transpose(0, 1)
        )
    return 0.55 + 0.4 * patches
