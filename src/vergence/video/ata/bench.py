"""Cost of alignment: against the published loop, within a block, and with growing clips; and of reading a clip.

``python -m vergence.video.ata.bench FILE.png`` measures and draws how a block's time grows with frames and with
patches, aligned and joint.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.data.video import Frame, open_video, write_video
from vergence.drawing.figure import Growth, growth
from vergence.nn.temporal import Alignment, TemporalAttention
from vergence.nn.video_vit import FactorisedBlock, JointBlock
from vergence.ops.alignment import align, dealign, order, similarities
from vergence.ops.assignment import assign, solve_with_scipy
from vergence.reference import alignment as plain
from vergence.video.data import even_places, middle_clip
from vergence.video.settings import ClipView

CLIPS, FRAMES, SIDE, WIDTH, HEADS = 8, 16, 14, 768, 12
SECONDS, RATE, HEIGHT, ACROSS = 10, 30, 256, 340
"""A Kinetics video, as it is usually stored."""
VIEW = ClipView()


def contests() -> Iterator[Contest]:
    """Alignment, its matches, blocks of ViT-B, forward, and a clip read from 10 seconds of 340 x 256."""
    title = "align and de-align 8 x 16 frames of 14 x 14 patches"
    yield Contest("alignment", title, _lazy(_whole), {"published loop": _lazy(_published)})
    for kind in ("moving", "random"):
        rivals = {"SciPy, one after another": _lazy(_scipy, kind)}
        yield Contest(f"matches-{kind}", f"120 matches of 196 {kind} patches", _lazy(_solved, kind), rivals)
    for frames in (8, 16):
        rivals = {"joint attention": _lazy(block, "joint", frames, SIDE)}
        title = f"ViT-B block of ATA, {frames} frames of 14 x 14 patches"
        yield Contest(f"block-{frames}", title, _lazy(block, "ata", frames, SIDE), rivals)
    rivals = {"every frame decoded": _decoded_whole, "decoded by seeking, scaled afterwards": _scaled_afterwards}
    yield Contest("clip", "a clip of 8 frames, 32 apart, of 10 s of video", _clip, rivals)


def _lazy(make: Callable[..., Callable[[], Any]], *arguments: Any) -> Callable[[], Any]:
    """Prepares the work on its first call, since listing the contests should not build all of them."""
    prepared = cache(make)
    return lambda: prepared(*arguments)()


def moving(clips: int, frames: int, side: int, width: int = WIDTH) -> Tensor:
    """Features (B, T, N, C) of a smooth texture that drifts by one patch per frame, a little noise in each."""
    source = generator("bench", clips, frames, side)
    ground = torch.randn(clips, 64, side + frames, side + frames, generator=source)
    ground = F.avg_pool2d(ground, 3, 1, 1)
    mixing = torch.randn(64, width, generator=source)
    seen = [ground[..., t : t + side, t : t + side].flatten(2).mT @ mixing for t in range(frames)]
    x = torch.stack(seen, 1)
    return x + torch.randn(x.shape, generator=source)


@cache
def _features(kind: str) -> Tensor:
    if kind == "moving":
        return moving(CLIPS, FRAMES, SIDE)
    return torch.randn(CLIPS, FRAMES, SIDE**2, WIDTH, generator=generator("bench", kind))


# Alignment and its parts ---------------------------------------------------------------------------------------------


def _whole() -> Callable[[], Any]:
    x = _features("moving")

    def run() -> Tensor:
        places = order(x)
        return dealign(align(x, places), places)

    return run


def _published() -> Callable[[], Any]:
    return partial(plain.aligned, _features("moving"))


def _solved(kind: str) -> Callable[[], Any]:
    return partial(assign, similarities(_features(kind)))


def _scipy(kind: str) -> Callable[[], Any]:
    values = similarities(_features(kind)).flatten(0, 1)
    return partial(solve_with_scipy, values, torch.empty(values.shape[:2], dtype=torch.int64))


# Within a block ------------------------------------------------------------------------------------------------------


@cache
def _joint() -> JointBlock:
    return JointBlock(WIDTH, HEADS).eval().requires_grad_(False)


@cache
def _factorised() -> tuple[FactorisedBlock, TemporalAttention]:
    """A block, and its operator over time."""
    attention = TemporalAttention(WIDTH, HEADS)
    return FactorisedBlock(WIDTH, HEADS, attention).eval().requires_grad_(False), attention


def block(kind: str, frames: int, side: int) -> Callable[[], Any]:
    """A block of ViT-B on one clip, forward."""
    x, cls = moving(1, frames, side), torch.zeros(1, WIDTH)
    if kind == "joint":
        return partial(_joint(), cls, x)
    factorised, attention = _factorised()
    if kind == "factorised":
        return partial(factorised, cls, x)
    alignment = Alignment()
    return lambda: factorised.within_frames(cls, alignment.along(alignment.order(x), attention, x))


def draw(path: Path, frames: Sequence[int] = (2, 4, 8, 16, 32), sides: Sequence[int] = (7, 10, 14, 20, 28)) -> Path:
    """Times blocks at each size and plots them: over frames of 14 x 14 patches, and over patches of 8 frames."""
    kinds = {"ATA": "ata", "factorised": "factorised", "joint": "joint"}
    panels = []
    for name, ticks, sizes in (
        ("frames of 14 x 14 patches", frames, [(t, SIDE) for t in frames]),
        ("patches in each of 8 frames", [s * s for s in sides], [(8, s) for s in sides]),
    ):
        runs = {label: [_lazy(block, kind, *size) for size in sizes] for label, kind in kinds.items()}
        panels.append(Growth(name, ticks, runs, crossing))
    return growth(path, panels, "seconds per ViT-B block")


def crossing(times: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """Describes from which size on ATA is faster than joint attention, and alignment's share of its time."""
    pairs = zip(times["ATA"], times["joint"], strict=True)
    below = next((size for (size, ours), (_, joint) in pairs if ours < joint), None)
    pairs = zip(times["factorised"], times["ATA"], strict=True)
    shares = ", ".join(f"{1 - without / ours:.0%}" for (_, without), (_, ours) in pairs)
    parts = [] if below is None else [f"ATA is below joint attention from {below} on"]
    return "\n".join([*parts, f"alignment's share of ATA: {shares}"])


# Reading clips -------------------------------------------------------------------------------------------------------


@cache
def _file() -> Path:
    """A video file with a moving texture, in a temporary folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix="vergence-bench-"))
    atexit.register(shutil.rmtree, folder, True)
    return write_video(folder / "moving.mp4", _moving(), RATE)


def _moving() -> Iterator[Frame]:
    random = np.random.default_rng(0)
    coarse = random.integers(0, 256, (40, 60, 3), dtype=np.uint8).repeat(12, 0).repeat(12, 1)
    for step in range(SECONDS * RATE):
        top, left = step % (len(coarse) - HEIGHT), (2 * step) % (coarse.shape[1] - ACROSS)
        yield np.ascontiguousarray(coarse[top : top + HEIGHT, left : left + ACROSS])


def _clip() -> Any:
    video = open_video(_file())
    return middle_clip(VIEW, video, even_places(VIEW, video))


def _decoded_whole() -> Any:
    video = open_video(_file())
    frames = np.stack(list(video))[even_places(VIEW, video)]
    return _cut(frames)


def _scaled_afterwards() -> Any:
    video = open_video(_file())
    return _cut(video.at(even_places(VIEW, video)))


def _cut(frames: Frame) -> Any:
    pixels = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255
    height, width = VIEW.resize, round(ACROSS * VIEW.resize / HEIGHT)
    scaled = F.interpolate(pixels, (height, width), mode="bilinear", antialias=True)
    left = (width - VIEW.size) // 2
    return (scaled[..., left : left + VIEW.size] - 0.5) / 0.5


if __name__ == "__main__":
    print(draw(Path(sys.argv[1] if len(sys.argv) > 1 else "growth.png")))
