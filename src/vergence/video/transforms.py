"""Temporal transformations of a video as frame indices: speed, random, periodic and warp (Jenni et al., ECCV 2020).

Every function draws the indices (int64, 16 of them by default) of one clip from a video of ``length`` frames, all of
them valid. No pixel is touched: whoever reads the frames decodes each of them once (:func:`together`).

    >>> speed_indices(40, 1, torch.Generator().manual_seed(0)).diff().unique()
    tensor([2])
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vergence.core.errors import VergenceError

FRAMES = 16
"""Frames per clip."""
SPEEDS = 4
"""Playback speeds 2^0 to 2^3."""
LONGEST_STEP = 8
"""The longest step between two frames of a warped clip."""
TRANSFORMS = ("speed", "random", "periodic", "warp")


def fastest(length: int, frames: int = FRAMES, speeds: int = SPEEDS) -> int:
    """The largest κ of a video: ``frames`` · 2^κ frames are needed."""
    if length < frames:
        raise VergenceError(f"a clip of {frames} frames cannot be taken from a video of {length}")
    return min((length // frames).bit_length() - 1, speeds - 1)


def draw_speed(length: int, generator: torch.Generator, frames: int = FRAMES, speeds: int = SPEEDS) -> int:
    """A κ, uniform among the speeds that the video is long enough for."""
    return _below(fastest(length, frames, speeds) + 1, generator)


def speed_indices(length: int, kappa: int, generator: torch.Generator, frames: int = FRAMES) -> Tensor:
    """ρ + [0, q, 2q, ...] with q = 2^κ: the video played q times as fast."""
    return _placed(torch.arange(frames) * 2**kappa, length, generator)


def random_indices(length: int, generator: torch.Generator, frames: int = FRAMES) -> Tensor:
    """ρ + a permutation of 0 to 15: successive frames in random order."""
    return _placed(torch.randperm(frames, generator=generator), length, generator)


def periodic_pattern(turn: int, kappa: int, frames: int = FRAMES) -> Tensor:
    """Indices without their offset: steps of q = 2^κ up to the last one that is not above ``turn``, and back; what is
    left of ``turn`` (δ in the paper) shifts the way back, so that with κ > 0 it may meet other frames."""
    steps, rest = divmod(turn, 2**kappa)
    forth = torch.arange(steps + 1) * 2**kappa
    return torch.cat([forth, torch.arange(steps - 1, 2 * steps - frames, -1) * 2**kappa + rest])


def periodic_indices(length: int, kappa: int, generator: torch.Generator, frames: int = FRAMES) -> Tensor:
    """Forward to a random turning point s, 2q < s < 13q, and back, at speed κ."""
    _refuse_short(length, frames)
    q = 2**kappa
    turn = 2 * q + 1 + _below((frames - 5) * q - 1, generator)
    return _placed(periodic_pattern(turn, kappa, frames), length, generator)


def warp_indices(length: int, generator: torch.Generator, frames: int = FRAMES, longest: int = LONGEST_STEP) -> Tensor:
    """Increasing indices with random steps from 1 to ``longest``. In a video too short for them, random steps are
    shortened by one until they fit."""
    _refuse_short(length, frames)
    steps = 1 + torch.randint(longest, (frames - 1,), generator=generator)
    while int(steps.sum()) > length - 1:
        long = (steps > 1).nonzero()[:, 0]
        steps[long[_below(len(long), generator)]] -= 1
    return _placed(torch.cat([steps.new_zeros(1), steps.cumsum(0)]), length, generator)


def transformed_indices(name: str, length: int, kappa: int, generator: torch.Generator, frames: int = FRAMES) -> Tensor:
    """The indices of a transformation by name; ``random`` and ``warp`` are defined at κ = 0."""
    if name == "speed":
        return speed_indices(length, kappa, generator, frames)
    if name == "periodic":
        return periodic_indices(length, kappa, generator, frames)
    return {"random": random_indices, "warp": warp_indices}[name](length, generator, frames)


def disordered_indices(length: int, kappa: int, generator: torch.Generator, frames: int = FRAMES) -> Tensor:
    """Order verification: a clip at speed κ cut into three pieces, whose order is neither the right one nor its
    reverse."""
    pieces = speed_indices(length, kappa, generator, frames).tensor_split(3)
    orders = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1))
    return torch.cat([pieces[piece] for piece in orders[_below(len(orders), generator)]])


def together(clips: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The frames of several clips as one increasing row without repetition (U,), and for each clip the places of its
    frames in it: what a reader decodes once, and how clips are gathered from it."""
    indices, places = torch.unique(torch.cat(list(clips)), return_inverse=True)
    return indices, list(places.split([len(clip) for clip in clips]))


def _placed(indices: Tensor, length: int, generator: torch.Generator) -> Tensor:
    """Indices shifted by a random offset that keeps all of them inside the video."""
    indices = indices - indices.min()
    _refuse_short(length, int(indices.max()) + 1)
    return indices + _below(length - int(indices.max()), generator)


def _refuse_short(length: int, needed: int) -> None:
    if length < needed:
        raise VergenceError(f"a clip that spans {needed} frames cannot be taken from a video of {length}")


def _below(count: int, generator: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=generator))
