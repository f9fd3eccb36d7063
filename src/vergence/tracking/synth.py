"""Generated sequences: translating and scaling digits (T-MNIST, S-MNIST), and the common parts: paths, pasted pictures
and photographs. Every sequence is a function of its seed, and frames are rendered on access.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.digits import data_folder, handwritten
from vergence.data.images import find_images, read_image
from vergence.reading.arrays import read_gzip
from vergence.reading.files import read_bytes
from vergence.tracking.crops import Frame
from vergence.tracking.data import Track, Tracks
from vergence.tracking.settings import Scene, World

LOW, HIGH = 0.67, 1.5
"""S-MNIST: smallest and largest size of a digit."""
MOST = 8
"""Largest number of digits in a sequence."""
SPEED = 2.0
"""Standard deviation of a digit's velocity along each axis, in pixels per frame, at a frame of 255 pixels."""
SMOOTH = 4.0
"""Frames over which the velocity is smoothed."""


# Motion --------------------------------------------------------------------------------------------------------------


def brownian(count: int, frames: int, speed: float, source: torch.Generator) -> Tensor:
    """Smoothed Brownian motion along one axis: paths (count, frames) from 0; ``speed`` is the deviation of the
    velocity."""
    reach = math.ceil(3 * SMOOTH)
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * SMOOTH**2))
    weights = weights / weights.norm()  # white noise keeps its deviation
    noise = torch.randn(count, 1, frames + 2 * reach, generator=source)
    velocity = speed * F.conv1d(noise, weights.view(1, 1, -1)).squeeze(1)
    return velocity.cumsum(1) - velocity[:, :1]


def reflected(places: Tensor, low: float, high: float) -> Tensor:
    """Reflects paths at both ends."""
    span = max(high - low, 1e-6)
    folded = (places - low) % (2 * span)
    return low + torch.where(folded > span, 2 * span - folded, folded)


def swing(frames: int, phases: Tensor) -> Tensor:
    """S-MNIST's sizes (count, frames): ``(h - l) / 2 (sin(t / 4 + phase) + 1) + l``."""
    time = torch.arange(frames) / 4
    return (HIGH - LOW) / 2 * (torch.sin(time + phases[:, None]) + 1) + LOW


# Digits --------------------------------------------------------------------------------------------------------------


@cache
def digits(source: str, split: str) -> Tensor:
    """Digits (N, 28, 28) from 0 to 1: scikit-learn's, or those of a folder with MNIST's files. Test digits are not
    in the training set."""
    if source:
        shapes = read_idx(Path(source).expanduser(), "train" if split == "train" else "t10k")
        return shapes if split != "val" else shapes[: len(shapes) // 2]
    small = handwritten()[0].float()
    small = small[: 4 * len(small) // 5] if split == "train" else small[4 * len(small) // 5 :]
    # 8 x 8 pixels without a border become 20 x 20 in the centre of 28 x 28, as in MNIST.
    large = F.interpolate(small[:, None], (20, 20), mode="bicubic", align_corners=False).clamp(0, 1)
    return F.pad(large, (4, 4, 4, 4))[:, 0]


def read_idx(folder: Path, part: str) -> Tensor:
    """MNIST's pictures (N, 28, 28) from 0 to 1, from its file of bytes, compressed or not."""
    names = [f"{part}-images{dot}idx3-ubyte{end}" for dot in "-." for end in ("", ".gz")]
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise VergenceError(f"{folder} has no {names[1]}: expected MNIST's files as published")
    content = read_gzip(path) if path.suffix == ".gz" else read_bytes(path)
    head = np.frombuffer(content[:16], ">i4")
    if len(head) < 4 or head[0] != 2051 or len(content) != 16 + int(np.prod(head[1:].astype(np.int64))):
        raise VergenceError(f"{path} is not MNIST's file of pictures, or is truncated")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=16).reshape(head[1:]).copy()).float() / 255


@dataclass(frozen=True)
class DigitFrames:
    """Digits that move over a background, rendered frame by frame."""

    shapes: Tensor
    """(n, 28, 28); the first is the target, drawn last."""
    x: Tensor
    """Centres (n, frames)."""
    y: Tensor
    sides: Tensor
    """(n, frames), in pixels."""
    scene: Scene
    place: tuple[str, int]
    """Split and number of the sequence, which determine its background."""

    def __len__(self) -> int:
        return self.x.shape[1]

    @cached_property
    def ground(self) -> Tensor:
        """(3, size, size), kept as bytes: there may be thousands."""
        source, size = generator("ground", *self.place), self.scene.size
        if not self.scene.photographs:
            return texture(size, source).round().to(torch.uint8)
        photograph = random_photograph(pictures(self.scene.photographs, self.place[0]), source)
        return cut_out(photograph, size, size, source).round().to(torch.uint8)

    def __getitem__(self, index: int) -> Frame:
        canvas = self.ground.float()
        for number in reversed(range(len(self.shapes))):
            x, y, side = (float(v[number, index]) for v in (self.x, self.y, self.sides))
            white = torch.full_like(self.shapes[number], 255.0).expand(3, -1, -1)
            paste(canvas, white, self.shapes[number], x, y, side, side)
        return as_frame(canvas)


def paste(
    canvas: Tensor, colours: Tensor, cover: Tensor, x: float, y: float, width: float, height: float, angle: float = 0.0
) -> None:
    """Blends a picture (3, h, w) into a canvas (3, H, W) with its alpha (h, w): ``width`` x ``height`` pixels around
    (x, y), at sub-pixel positions, rotated by an angle."""
    cos, sin = math.cos(angle), math.sin(angle)
    reach_x = (abs(width * cos) + abs(height * sin)) / 2
    reach_y = (abs(width * sin) + abs(height * cos)) / 2
    left, top = max(math.floor(x - reach_x), 0), max(math.floor(y - reach_y), 0)
    right, bottom = min(math.ceil(x + reach_x), canvas.shape[-1]), min(math.ceil(y + reach_y), canvas.shape[-2])
    if right <= left or bottom <= top:
        return
    across = (torch.arange(left, right) + 0.5 - x)[None, :]
    down = (torch.arange(top, bottom) + 0.5 - y)[:, None]
    grid = torch.stack([(across * cos + down * sin) / (width / 2), (down * cos - across * sin) / (height / 2)], -1)
    # Beyond the edge of a picture its colours are replicated and its alpha is 0, so that the edge is not black.
    colour = F.grid_sample(colours[None], grid[None], padding_mode="border", align_corners=False)[0]
    amount = F.grid_sample(cover[None, None], grid[None], align_corners=False)[0, 0]
    canvas[:, top:bottom, left:right].lerp_(colour, amount.expand_as(colour))


def as_frame(canvas: Tensor) -> Frame:
    """A canvas (3, H, W) as bytes (H, W, 3)."""
    return canvas.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def texture(size: int, source: torch.Generator) -> Tensor:
    """A smooth, coloured background (3, size, size) of 30 to 150: noise at several scales."""
    ground = torch.zeros(1, 3, size, size)
    for cells, weight in ((4, 1.0), (9, 0.6), (20, 0.4), (48, 0.25)):
        coarse = torch.randn(1, 3, cells, cells, generator=source)
        ground += weight * F.interpolate(coarse, (size, size), mode="bicubic", align_corners=False)
    return (90 + 25 * ground[0]).clamp(30, 150)


def moving_digits(world: World, count: int, split: str, scene: Scene) -> Tracks:
    """T-MNIST (constant sizes) or S-MNIST (changing sizes): one to eight digits, one of which is the target."""
    return Tracks(tuple(_digit_track(world, split, index, scene) for index in range(count)))


def _digit_track(world: World, split: str, index: int, scene: Scene) -> Track:
    """Motion and backgrounds are the same in both worlds; only the sizes differ."""
    source = generator("moving digits", split, index)
    n = int(torch.randint(1, MOST + 1, (), generator=source))
    known = digits(scene.digits, split)
    shapes = known[torch.randint(len(known), (n,), generator=source)]
    margin = scene.digit * HIGH / 2
    starts = margin + (scene.size - 2 * margin) * torch.rand(2, n, 1, generator=source)
    speed = SPEED * scene.size / 255
    x, y = (reflected(s + brownian(n, scene.frames, speed, source), margin, scene.size - margin) for s in starts)
    sizes = swing(scene.frames, 100 * torch.rand(n, generator=source))
    sides = scene.digit * (sizes if world == "s-mnist" else torch.ones_like(sizes))
    drawn = DigitFrames(shapes, x, y, sides, scene, (split, index))
    boxes = torch.stack([x[0] - sides[0] / 2, y[0] - sides[0] / 2, sides[0], sides[0]], 1).double().numpy()
    return Track(f"{world}-{split}-{index}", drawn, boxes)


# Photographs ---------------------------------------------------------------------------------------------------------

OWN = (
    "astronaut.png chelsea.png coffee.png rocket.jpg motorcycle_left.png ihc.png hubble_deep_field.jpg camera.png "
    "coins.png brick.png grass.png gravel.png retina.jpg moon.png"
)
"""Pictures that come with scikit-image; every seventh is for the test."""


@cache
def pictures(folder: str, split: str) -> tuple[Path, ...]:
    """Photographs for training or test: from a folder, or those that come with scikit-image and scikit-learn."""
    if folder:
        paths = find_images(Path(folder).expanduser())
        if len(paths) < 2:
            raise VergenceError(f"{folder} has {len(paths)} pictures: expected two or more, in it or below it")
    else:
        import skimage

        root = Path(skimage.__file__).parent / "data"
        paths = [p for p in (root / name for name in OWN.split()) if p.exists()]
        paths += sorted((data_folder() / "images").glob("*.jpg"))
    return tuple(p for i, p in enumerate(paths) if (i % 7 == 6 if len(paths) >= 7 else i % 2) != (split == "train"))


@cache
def _read(path: Path) -> Tensor:
    """A photograph (3, H, W) of at most 640 pixels along each side, 0 to 255."""
    picture = read_image(path).float()
    share = min(640 / max(picture.shape[-2:]), 1.0)
    if share < 1:
        size = [max(round(side * share), 8) for side in picture.shape[-2:]]
        picture = F.interpolate(picture[None], size, mode="bilinear", antialias=True, align_corners=False)[0]
    return picture


def random_photograph(paths: Sequence[Path], source: torch.Generator) -> Tensor:
    """A random photograph (3, H, W), 0 to 255."""
    return _read(paths[int(torch.randint(len(paths), (), generator=source))])


def cut_out(photograph: Tensor, height: int, width: int, source: torch.Generator) -> Tensor:
    """A random crop of a photograph, enlarged if it is too small."""
    enlarge = max(height / photograph.shape[-2], width / photograph.shape[-1], 1.0)
    if enlarge > 1:
        size = [math.ceil(side * enlarge) for side in photograph.shape[-2:]]
        photograph = F.interpolate(photograph[None], size, mode="bilinear", align_corners=False)[0]
    top = int(torch.randint(photograph.shape[-2] - height + 1, (), generator=source))
    left = int(torch.randint(photograph.shape[-1] - width + 1, (), generator=source))
    return photograph[:, top : top + height, left : left + width]
