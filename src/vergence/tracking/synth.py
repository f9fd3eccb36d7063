"""Sequences that are made: translating and scaling digits (T-MNIST, S-MNIST), and things cut from photographs that move
over other photographs. Every sequence is a function of its seed, and a frame is drawn when it is asked for.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.images import find_images, read_image
from vergence.tracking.crops import Frame
from vergence.tracking.data import Track, Tracks

World = Literal["t-mnist", "s-mnist", "natural"]

LOW, HIGH = 0.67, 1.5
"""S-MNIST: the sizes between which a digit swings."""
MOST = 8
"""Digits in a sequence, at most."""
SPEED = 2.0
"""The deviation of a digit's velocity along each axis, in pixels a frame, at a frame of 255 pixels."""
SMOOTH = 4.0
"""Frames over which the velocity is smoothed."""


@dataclass(frozen=True)
class Scene:
    """How large things are, and where they come from."""

    size: int = 255
    """Pixels of a frame's side."""
    digit: int = 40
    """Pixels of a digit's tile at scale 1."""
    frames: int = 100
    """Frames of a sequence."""
    digits: str = ""
    """A folder with MNIST's files; empty: scikit-learn's digits."""
    photographs: str = ""
    """A folder of pictures, for grounds and for natural scenes; empty: noise, and scikit-image's own pictures."""

    def __post_init__(self) -> None:
        if not (self.digit >= 8 and 1.5 * self.digit < self.size <= 4096 and 2 <= self.frames <= 100_000):
            raise VergenceError(
                f"a scene has digits of 8 pixels or more that fit into its frame one and a half times, and 2 frames or "
                f"more; got a frame of {self.size}, digits of {self.digit} and {self.frames} frames"
            )


# Motion --------------------------------------------------------------------------------------------------------------


def brownian(count: int, frames: int, speed: float, source: torch.Generator) -> Tensor:
    """Smoothed Brownian motion along one axis: paths (count, frames) from 0 on; velocities deviate by ``speed``."""
    reach = math.ceil(3 * SMOOTH)
    weights = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * SMOOTH**2))
    weights = weights / weights.norm()  # white noise keeps its deviation
    noise = torch.randn(count, 1, frames + 2 * reach, generator=source)
    velocity = speed * F.conv1d(noise, weights.view(1, 1, -1)).squeeze(1)
    return velocity.cumsum(1) - velocity[:, :1]


def reflected(places: Tensor, low: float, high: float) -> Tensor:
    """Paths that turn back at both ends."""
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
    """Digits (N, 28, 28) from 0 to 1: scikit-learn's, or those of a folder with MNIST's files. Those of the test are
    none of those trained on."""
    if source:
        found = read_idx(Path(source).expanduser(), "train" if split == "train" else "t10k")
        return found if split != "val" else found[: len(found) // 2]
    from sklearn.datasets import load_digits

    small = torch.from_numpy(load_digits().images / 16).float()
    small = small[: 4 * len(small) // 5] if split == "train" else small[4 * len(small) // 5 :]
    # 8 x 8 pixels with no border become 20 x 20 in the middle of 28 x 28, as MNIST's lie.
    large = F.interpolate(small[:, None], (20, 20), mode="bicubic", align_corners=False).clamp(0, 1)
    return F.pad(large, (4, 4, 4, 4))[:, 0]


def read_idx(folder: Path, part: str) -> Tensor:
    """MNIST's pictures (N, 28, 28) from 0 to 1, from its file of bytes, packed or not."""
    names = [f"{part}-images{dot}idx3-ubyte{end}" for dot in "-." for end in ("", ".gz")]
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise VergenceError(f"{folder} has no {names[1]}: expected MNIST's files as they are handed out")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as error:
        raise VergenceError(f"{path} cannot be read: {error}") from None
    head = np.frombuffer(content[:16], ">i4")
    if len(head) < 4 or head[0] != 2051 or len(content) != 16 + int(np.prod(head[1:].astype(np.int64))):
        raise VergenceError(f"{path} is not MNIST's file of pictures, or cut short")
    return torch.from_numpy(np.frombuffer(content, np.uint8, offset=16).reshape(head[1:]).copy()).float() / 255


@dataclass(frozen=True)
class DigitFrames:
    """Digits that move over a ground, drawn frame by frame."""

    shapes: Tensor
    """(n, 28, 28); the first is the target, drawn last."""
    x: Tensor
    """Centres (n, frames)."""
    y: Tensor
    sides: Tensor
    """(n, frames), in pixels."""
    scene: Scene
    place: tuple[str, int]
    """Split and number of the sequence, which decide its ground."""

    def __len__(self) -> int:
        return self.x.shape[1]

    @cached_property
    def ground(self) -> Tensor:
        """(3, size, size), kept as bytes: there may be thousands."""
        source, size = generator("ground", *self.place), self.scene.size
        if not self.scene.photographs:
            return texture(size, source).round().to(torch.uint8)
        photograph = _photograph(pictures(self.scene.photographs, self.place[0]), source)
        return cut_out(photograph, size, size, source).round().to(torch.uint8)

    def __getitem__(self, index: int) -> Frame:
        canvas = self.ground.float()
        for number in reversed(range(len(self.shapes))):
            x, y, side = (float(v[number, index]) for v in (self.x, self.y, self.sides))
            white = torch.full_like(self.shapes[number], 255.0).expand(3, -1, -1)
            paste(canvas, white, self.shapes[number], x, y, side, side)
        return _bytes(canvas)


def paste(
    canvas: Tensor, colours: Tensor, cover: Tensor, x: float, y: float, width: float, height: float, angle: float = 0.0
) -> None:
    """Lay a picture (3, h, w) over a canvas (3, H, W) in the measure of its cover (h, w): ``width`` x ``height`` pixels
    around (x, y), at fractions of a pixel, turned by an angle."""
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
    # Beyond the edge of a picture its colours go on, and its cover ends: the edge is not black.
    colour = F.grid_sample(colours[None], grid[None], padding_mode="border", align_corners=False)[0]
    amount = F.grid_sample(cover[None, None], grid[None], align_corners=False)[0, 0]
    canvas[:, top:bottom, left:right].lerp_(colour, amount.expand_as(colour))


def _bytes(canvas: Tensor) -> Frame:
    return canvas.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def texture(size: int, source: torch.Generator) -> Tensor:
    """A smooth, coloured ground (3, size, size) of 30 to 150: noise at several scales."""
    ground = torch.zeros(1, 3, size, size)
    for cells, weight in ((4, 1.0), (9, 0.6), (20, 0.4), (48, 0.25)):
        coarse = torch.randn(1, 3, cells, cells, generator=source)
        ground += weight * F.interpolate(coarse, (size, size), mode="bicubic", align_corners=False)
    return (90 + 25 * ground[0]).clamp(30, 150)


def moving_digits(world: World, count: int, split: str, scene: Scene) -> Tracks:
    """T-MNIST (nothing changes its size) or S-MNIST (everything does): one to eight digits; one is followed."""
    return Tracks(tuple(_digit_track(world, split, index, scene) for index in range(count)))


def _digit_track(world: World, split: str, index: int, scene: Scene) -> Track:
    """Motion and grounds are the same in both worlds; only the sizes differ."""
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
    *(
        "astronaut.png",
        "chelsea.png",
        "coffee.png",
        "rocket.jpg",
        "motorcycle_left.png",
        "ihc.png",
        "hubble_deep_field.jpg",
    ),
    *("camera.png", "coins.png", "brick.png", "grass.png", "gravel.png", "retina.jpg", "moon.png"),
)
"""Pictures that come with scikit-image; every seventh one is kept for the test."""


@cache
def pictures(folder: str, split: str) -> tuple[Path, ...]:
    """Photographs to train on, or to test on: of a folder, or those that come with scikit-image and scikit-learn."""
    if folder:
        found = find_images(Path(folder).expanduser())
        if len(found) < 2:
            raise VergenceError(f"{folder} has {len(found)} pictures: expected two or more, in it or below it")
    else:
        import skimage
        import sklearn

        root = Path(skimage.__file__).parent / "data"
        found = [p for p in (root / name for name in OWN) if p.exists()]
        found += sorted((Path(sklearn.__file__).parent / "datasets" / "images").glob("*.jpg"))
    kept = [p for i, p in enumerate(found) if (i % 7 == 6 if len(found) >= 7 else i % 2) != (split == "train")]
    return tuple(kept)


@cache
def _read(path: Path) -> Tensor:
    """A photograph (3, H, W) of at most 640 pixels a side, 0 to 255."""
    picture = read_image(path).float()
    share = min(640 / max(picture.shape[-2:]), 1.0)
    if share < 1:
        size = [max(round(side * share), 8) for side in picture.shape[-2:]]
        picture = F.interpolate(picture[None], size, mode="bilinear", antialias=True, align_corners=False)[0]
    return picture


def _photograph(paths: Sequence[Path], source: torch.Generator) -> Tensor:
    return _read(paths[int(torch.randint(len(paths), (), generator=source))])


def cut_out(photograph: Tensor, height: int, width: int, source: torch.Generator) -> Tensor:
    """A random part of a photograph, enlarged where it is too small."""
    enlarge = max(height / photograph.shape[-2], width / photograph.shape[-1], 1.0)
    if enlarge > 1:
        size = [math.ceil(side * enlarge) for side in photograph.shape[-2:]]
        photograph = F.interpolate(photograph[None], size, mode="bilinear", align_corners=False)[0]
    top = int(torch.randint(photograph.shape[-2] - height + 1, (), generator=source))
    left = int(torch.randint(photograph.shape[-1] - width + 1, (), generator=source))
    return photograph[:, top : top + height, left : left + width]


# Natural scenes ------------------------------------------------------------------------------------------------------

TILE = 96
"""Pixels of a cut-out's side."""


def natural(count: int, split: str, scene: Scene) -> Tracks:
    """Things cut from photographs that move, turn, and grow and shrink over other photographs, among others of their
    kind; in every fourth sequence the camera alone moves, and a part of the photograph itself is followed."""
    return Tracks(tuple(_natural_track(split, index, scene) for index in range(count)))


def _natural_track(split: str, index: int, scene: Scene) -> Track:
    drawn = NaturalFrames(scene, split, index)
    motion = drawn.motion
    # What is cut out is an ellipse, more or less: its extent along each axis as it turns.
    cos, sin = motion.angle[0].cos(), motion.angle[0].sin()
    width = ((motion.width[0] * cos) ** 2 + (motion.height[0] * sin) ** 2).sqrt()
    height = ((motion.width[0] * sin) ** 2 + (motion.height[0] * cos) ** 2).sqrt()
    boxes = torch.stack([motion.x[0] - width / 2, motion.y[0] - height / 2, width, height], 1)
    return Track(f"natural-{split}-{index}", drawn, boxes.double().numpy())


@dataclass(frozen=True)
class Motion:
    """Where n things are in every frame: (n, frames) each. The first is the target."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    angle: Tensor
    camera: Tensor
    """(4, frames): the ground's shift along both axes, its size and its angle."""
    light: Tensor
    """(2, frames): gain and offset."""


@dataclass(frozen=True)
class NaturalFrames:
    """Cut-outs that move over a photograph, drawn frame by frame."""

    scene: Scene
    split: str
    index: int

    def __len__(self) -> int:
        return self.scene.frames

    @property
    def pasted(self) -> bool:
        """Whether the target is a cut-out, or a part of the ground."""
        return self.index % 4 != 3

    @cached_property
    def motion(self) -> Motion:
        source = generator("natural motion", self.split, self.index)
        frames, size = self.scene.frames, self.scene.size
        n = 1 + int(torch.randint(0, 4, (), generator=source))

        def drawn(low: float, high: float, shape: tuple[int, ...] = (n, 1)) -> Tensor:
            return low + (high - low) * torch.rand(shape, generator=source)

        def wandering(deviation: float, rows: int = n) -> Tensor:
            """Slow change around 0 that does not run away."""
            path = brownian(rows, frames, deviation / 8, source)
            return reflected(path, -deviation, deviation)

        side = self.scene.digit * drawn(0.7, 1.6) * wandering(0.5).exp()
        ratio = drawn(-0.45, 0.45).exp() * wandering(0.12).exp()
        margin = 0.8 * self.scene.digit
        speed = SPEED * drawn(0.3, 1.6, (2, n, 1)) * size / 255
        start = drawn(margin, size - margin, (2, n, 1))
        x, y = (
            reflected(s + v * brownian(n, frames, 1.0, source), margin, size - margin)
            for s, v in zip(start, speed, strict=True)
        )
        angle = wandering(0.6)
        pan = SPEED * drawn(0.0, 1.0, (2, 1, 1)) * size / 255
        shift = torch.cat([reflected(v * brownian(1, frames, 1.0, source), -size / 5, size / 5) for v in pan])
        zoom = wandering(0.25, 1).exp()
        roll = wandering(0.15, 1)
        light = torch.cat([1 + wandering(0.25, 1), 20 * wandering(0.8, 1)])
        camera = torch.cat([shift, zoom, roll])
        if not self.pasted:  # the target is where the camera puts a place of the ground
            at = 0.4 * (torch.stack([start[0, 0], start[1, 0]]) - size / 2)  # so that it stays in sight
            cos, sin = roll[0].cos(), roll[0].sin()
            x[0] = size / 2 + shift[0] + zoom[0] * (at[0] * cos - at[1] * sin)
            y[0] = size / 2 + shift[1] + zoom[0] * (at[0] * sin + at[1] * cos)
            side[0] = side[0, 0] * zoom[0]
            ratio[0] = ratio[0, 0]
            angle[0] = 0
        return Motion(x, y, side * ratio.sqrt(), side / ratio.sqrt(), angle, camera, light)

    @property
    def ground(self) -> Ground:
        source = generator("natural ground", self.split, self.index)
        photograph = _photograph(pictures(self.scene.photographs, self.split), source)
        height, width = photograph.shape[-2:]
        across, down, large = torch.rand(3, generator=source).tolist()
        scale = 1 + large
        half = self.scene.size / scale / 2
        x, y = (half + share * max(side - 2 * half, 0) for share, side in ((across, width), (down, height)))
        return Ground(photograph, x, y, scale)

    @property
    def things(self) -> list[tuple[Tensor, Tensor]]:
        return _natural_things(self.scene, self.split, self.index, self.motion.x.shape[0])

    def __getitem__(self, index: int) -> Frame:
        motion, size = self.motion, self.scene.size
        canvas = seen(self.ground, size, *motion.camera[:, index].tolist())
        for number in reversed(range(motion.x.shape[0])):
            if number or self.pasted:
                place = (
                    float(v[number, index]) for v in (motion.x, motion.y, motion.width, motion.height, motion.angle)
                )
                paste(canvas, *self.things[number], *place)
        gain, offset = motion.light[:, index].tolist()
        noise = torch.randn(canvas.shape, generator=generator("natural noise", self.split, self.index, index))
        return _bytes(canvas * gain + offset + 3 * noise)


class Ground(NamedTuple):
    """A part of a photograph that a camera looks at: what is in its middle, and how large a pixel of it becomes."""

    photograph: Tensor
    x: float
    y: float
    scale: float


def seen(ground: Ground, size: int, x: float, y: float, zoom: float, roll: float) -> Tensor:
    """What a camera sees of a ground, in ``size`` pixels (3, size, size): moved by (x, y), enlarged and turned."""
    at = torch.arange(size) + 0.5 - size / 2
    enlarged = zoom * ground.scale
    across, down = (at - x)[None, :] / enlarged, (at - y)[:, None] / enlarged
    cos, sin = math.cos(roll), math.sin(roll)
    height, width = ground.photograph.shape[-2:]
    u = (ground.x + across * cos + down * sin) * 2 / width - 1
    v = (ground.y + down * cos - across * sin) * 2 / height - 1
    grid = torch.stack([u, v], -1)[None]
    return F.grid_sample(ground.photograph[None], grid, padding_mode="reflection", align_corners=False)[0]


@lru_cache(64)
def _natural_things(scene: Scene, split: str, index: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """Colours (3, TILE, TILE) and cover (TILE, TILE) of everything that is pasted; mostly from one photograph, so that
    the others look like the target."""
    source = generator("natural things", split, index)
    paths = pictures(scene.photographs, split)
    own = _photograph(paths, source)
    made = []
    for _ in range(count):
        photograph = own if torch.rand((), generator=source) < 0.7 else _photograph(paths, source)
        most = min(photograph.shape[-2:])
        side = max(int(most * (0.12 + 0.4 * float(torch.rand((), generator=source)))), 8)
        cut = cut_out(photograph, side, side, source)
        tile = F.interpolate(cut[None], (TILE, TILE), mode="bilinear", antialias=True, align_corners=False)[0]
        made.append((tile, blob(TILE, source)))
    return made


def blob(side: int, source: torch.Generator) -> Tensor:
    """A soft-edged round shape (side, side) of 0 to 1 with a wavy outline that touches all four sides, nearly."""
    at = (torch.arange(side) + 0.5) / side * 2 - 1
    radius = (at[None] ** 2 + at[:, None] ** 2).sqrt()
    angle = torch.atan2(at[:, None].expand(side, side), at[None].expand(side, side))
    outline = torch.full_like(angle, 0.9)
    for waves in range(2, 6):
        weight, phase = (torch.rand(2, generator=source) * torch.tensor([0.16 / waves, 2 * math.pi])).tolist()
        outline += weight * (torch.cos(waves * angle + phase) - 0.5)
    return ((outline - radius) * side / 4).clamp(0, 1)
