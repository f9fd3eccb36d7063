"""Features of snippets without a trained network: what moves where, after the camera's own motion was taken out.

A snippet is a pair of neighbouring frames. Their global shift is found by phase correlation and undone; what is left is
pooled over a grid of cells: how much changes, in which direction it moves (normal flow), texture and brightness. This
stands in for a two-stream network where there is none, and works on any video of a camera that is held still.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.data.video import Video

GRID = (4, 6)
"""Cells along height and width."""
SIDE = 48
"""Shorter side of the frames, in pixels."""
REACH = 4
"""The largest shift of the camera between two frames that is undone, in pixels."""
GAP = 1 / 15
"""Seconds between the two frames of a snippet."""
PER_CELL = 7
ACROSS = 3
"""Which of them is the motion to the right."""
WIDTH = GRID[0] * GRID[1] * PER_CELL
"""Numbers per snippet."""
AT_ONCE = 64


def describe(first: Tensor, second: Tensor) -> Tensor:
    """Features (S, WIDTH) of pairs of frames (S, 3, H, W), bytes or floats from 0 to 1."""
    before, after = (_grey(frames) for frames in (first, second))
    after = _followed(before, after, _shift(before, after))
    margin = slice(REACH, -REACH)
    before, after = before[:, margin, margin], after[:, margin, margin]
    mean = (before + after) / 2
    dy, dx = torch.gradient(mean, dim=(1, 2))
    change = after - before
    cells = {
        "change": change.abs(),
        "square": change.square(),
        "xx": dx * dx,
        "yy": dy * dy,
        "tx": -change * dx,
        "ty": -change * dy,
        "grey": mean,
    }
    pooled = {name: F.adaptive_avg_pool2d(values, GRID).flatten(1) for name, values in cells.items()}
    largest = F.adaptive_max_pool2d(change.abs(), GRID).flatten(1)
    floor = 1e-4
    parts = [
        10 * pooled["change"],
        10 * pooled["square"].sqrt(),
        2 * largest,
        pooled["tx"] / (pooled["xx"] + floor),
        pooled["ty"] / (pooled["yy"] + floor),
        10 * (pooled["xx"] + pooled["yy"]).sqrt(),
        pooled["grey"] - pooled["grey"].mean(1, keepdim=True),
    ]
    return torch.cat(parts, 1)


def mirrored(features: Tensor) -> Tensor:
    """Features (..., WIDTH) of the same frames with left and right exchanged."""
    cells = features.unflatten(-1, (PER_CELL, *GRID)).flip(-1).clone()
    cells[..., ACROSS, :, :] *= -1
    return cells.flatten(-3)


def _grey(frames: Tensor) -> Tensor:
    values = frames.float() / 255 if frames.dtype == torch.uint8 else frames.float()
    return values.mean(1)


def _shift(before: Tensor, after: Tensor) -> Tensor:
    """Whole pixels (S, 2) by which the second picture is moved, down and to the right."""
    size = before.shape[-2:]
    window = torch.hann_window(size[0]).unsqueeze(1) * torch.hann_window(size[1])
    one, other = (torch.fft.rfft2((x - x.mean((1, 2), keepdim=True)) * window) for x in (before, after))
    cross = other * one.conj()
    surface = torch.fft.irfft2(cross / cross.abs().clamp(min=1e-9), s=size)
    near = torch.arange(-REACH, REACH + 1)
    around = surface[:, near][:, :, near].flatten(1)  # negative indices wrap around, as shifts do
    best = around.argmax(1)
    width = 2 * REACH + 1
    return torch.stack([near[best // width], near[best % width]], 1)


def _followed(before: Tensor, after: Tensor, shift: Tensor) -> Tensor:
    """The second pictures with the shift undone, where that makes them more alike."""
    height, width = after.shape[-2:]
    rows = (torch.arange(height) + shift[:, :1]).clamp(0, height - 1)
    columns = (torch.arange(width) + shift[:, 1:]).clamp(0, width - 1)
    moved = after.gather(1, rows.unsqueeze(2).expand(-1, -1, width))
    moved = moved.gather(2, columns.unsqueeze(1).expand(-1, height, -1))
    margin = slice(REACH, -REACH)
    apart = [(x - before)[:, margin, margin].abs().median(1).values.mean(1) for x in (moved, after)]
    return torch.where((apart[0] < apart[1]).view(-1, 1, 1), moved, after)


def describe_video(video: Video, rate: float) -> tuple[Tensor, float]:
    """Features (S, WIDTH) of a video at ``rate`` snippets per second, decoded once from start to end, and the seconds
    that they cover."""
    if video.length is not None and video.length < 2:
        raise VergenceError(f"{video.name} has one frame only: motion needs at least two")
    step = max(video.fps / rate, 1.0)  # frames from one snippet to the next
    apart = max(round(GAP * video.fps), 1)
    parts: list[Tensor] = []
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    for pair in _pairs(video, step, apart):
        pairs.append(pair)
        if len(pairs) == AT_ONCE:
            parts.append(_described(pairs))
            pairs = []
    if pairs:
        parts.append(_described(pairs))
    if not parts:
        raise VergenceError(f"{video.name} is shorter than a snippet of two frames")
    features = torch.cat(parts)
    return features, len(features) * step / video.fps


def _pairs(video: Video, step: float, apart: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Frames at multiples of ``step`` with the one ``apart`` later; only these are kept while the video is decoded."""
    waiting: list[tuple[int, np.ndarray]] = []
    count = 0
    for index, frame in enumerate(video.frames(SIDE)):
        if index >= count * step:
            waiting.append((index, frame))
            count += 1
        while waiting and index >= waiting[0][0] + apart:
            yield waiting.pop(0)[1], frame


def _described(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Tensor:
    first, second = (torch.from_numpy(np.stack(side)).permute(0, 3, 1, 2) for side in zip(*pairs, strict=True))
    return describe(first, second)
