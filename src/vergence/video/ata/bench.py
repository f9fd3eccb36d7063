"""What alignment costs: against the published loop, part by part, within a block, and as clips grow.

``python -m vergence.video.ata.bench FILE.png`` measures and draws how a block's time grows with frames and with
patches, aligned and joint.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.benchmark import Contest
from vergence.core.files import replacing
from vergence.core.seeding import generator
from vergence.nn.temporal import Alignment, TemporalAttention
from vergence.nn.video_vit import FactorisedBlock, JointBlock
from vergence.ops.alignment import align, dealign, order, similarities
from vergence.ops.assignment import assign, solve_with_scipy
from vergence.reference import alignment as plain
from vergence.video.ata import reading

CLIPS, FRAMES, SIDE, WIDTH, HEADS = 8, 16, 14, 768, 12
ALIGNMENT = "align and de-align 8 x 16 frames of 14 x 14 patches"
PUBLISHED = "published loop"
GROWTH = "ViT-B block of ATA, {} frames of 14 x 14 patches"


def contests() -> Iterator[Contest]:
    """Alignment as a whole and in parts, and blocks of ViT-B, forward."""
    yield Contest(ALIGNMENT, _lazy(_whole), {PUBLISHED: _lazy(_published)})
    yield Contest("similarities of 8 x 15 pairs", _lazy(_similar), {"pair by pair": _lazy(_similar_in_turn)})
    for kind in ("moving", "random"):
        rivals = {"SciPy, one after another": _lazy(_scipy, kind), "greedy": _lazy(_solved, kind, "greedy"),
                  "Sinkhorn": _lazy(_solved, kind, "sinkhorn")}  # fmt: skip
        yield Contest(f"120 matches of 196 {kind} patches", _lazy(_solved, kind, "exact"), rivals)
    yield Contest("gathers, there and back", _lazy(_gathers), {"one-hot matrices": _lazy(_one_hot)})
    yield Contest("temporal attention, aligned", _lazy(_attention, True), {"not aligned": _lazy(_attention, False)})
    for frames in (2, 4, 8, 16):
        rivals = {"joint attention": _lazy(block, "joint", frames, SIDE)}
        if frames == 8:
            rivals["factorised"] = _lazy(block, "factorised", frames, SIDE)
        yield Contest(GROWTH.format(frames), _lazy(block, "ata", frames, SIDE), rivals)
    yield from reading.contests()


def _lazy(make: Callable[..., Callable[[], Any]], *arguments: Any) -> Callable[[], Any]:
    """Made when first called: those who list contests want one of them."""
    made = cache(make)
    return lambda: made(*arguments)()


def moving(clips: int, frames: int, side: int, width: int = WIDTH) -> Tensor:
    """Features (B, T, N, C) of a smooth texture that drifts by a patch a frame, a little noise in each."""
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
        found = order(x)
        return dealign(align(x, found), found)

    return run


def _published() -> Callable[[], Any]:
    return partial(plain.aligned, _features("moving"))


def _similar() -> Callable[[], Any]:
    return partial(similarities, _features("moving"))


def _similar_in_turn() -> Callable[[], Any]:
    x = _features("moving")

    def run() -> None:
        for clip in x:
            for before, current in pairwise(clip):
                F.normalize(before, dim=-1) @ F.normalize(current, dim=-1).t()

    return run


def _solved(kind: str, method: Any) -> Callable[[], Any]:
    return partial(assign, similarities(_features(kind)), method)


def _scipy(kind: str) -> Callable[[], Any]:
    values = similarities(_features(kind)).flatten(0, 1)
    return partial(solve_with_scipy, values, torch.empty(values.shape[:2], dtype=torch.int64))


def _gathers() -> Callable[[], Any]:
    x = _features("moving")
    found = order(x)
    return lambda: dealign(align(x, found), found)


def _one_hot() -> Callable[[], Any]:
    x = _features("moving")
    matrices = F.one_hot(order(x), SIDE**2).float()

    def run() -> Tensor:
        there = torch.stack([plain.dealign(*pair) for pair in zip(x, matrices, strict=True)])
        return torch.stack([plain.dealign(*pair) for pair in zip(there, matrices.mT, strict=True)])

    return run


# Within a block ------------------------------------------------------------------------------------------------------


def _attention(aligned: bool) -> Callable[[], Any]:
    """Attention over time on two clips, with an order that is known or at fixed places."""
    x = _features("moving")[:2]
    attention = TemporalAttention(WIDTH, HEADS).eval().requires_grad_(False)
    return partial(attention, x, order(x) if aligned else None)


def block(kind: str, frames: int, side: int) -> Callable[[], Any]:
    """A block of ViT-B on one clip, forward."""
    x = moving(1, frames, side)
    cls = torch.zeros(1, WIDTH)
    made: nn.Module
    if kind == "joint":
        made = JointBlock(WIDTH, HEADS)
    else:
        made = FactorisedBlock(WIDTH, HEADS, TemporalAttention(WIDTH, HEADS))
    made.eval().requires_grad_(False)
    alignment = Alignment()
    if kind != "ata":
        return partial(made, cls, x)

    def run() -> Any:
        return made.within_frames(cls, alignment.along(alignment.order(x), made.temporal, x))  # type: ignore[operator,arg-type]

    return run


# Growth --------------------------------------------------------------------------------------------------------------


def growth(
    path: Path, frames: Sequence[int] = (2, 4, 8, 16, 32), sides: Sequence[int] = (7, 10, 14, 20, 28), rounds: int = 3
) -> Path:
    """Time blocks at each size and draw them: over frames of 14 x 14 patches, and over patches of 8 frames."""
    from matplotlib.figure import Figure

    kinds = {"ata": ("ATA", "#3b6fb6"), "factorised": ("factorised", "#7fb069"), "joint": ("joint", "#8a8d94")}
    figure = Figure(figsize=(9.4, 3.8), dpi=110, layout="constrained")
    over = (("frames of 14 x 14 patches", frames, [(t, SIDE) for t in frames]),
            ("patches in each of 8 frames", [s * s for s in sides], [(8, s) for s in sides]))  # fmt: skip
    for axis, (name, ticks, sizes) in zip(figure.subplots(1, 2), over, strict=True):
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        for size in sizes:
            for kind, seconds in _seconds({kind: block(kind, *size) for kind in kinds}, rounds).items():
                times[kind].append(seconds)
        for kind, (label, colour) in kinds.items():
            axis.loglog(ticks, times[kind], "o-", color=colour, label=label)
        crossed = next((t for t, a, j in zip(ticks, times["ata"], times["joint"], strict=True) if a < j), None)
        axis.set_title("" if crossed is None else f"ATA is below joint attention from {crossed} on", fontsize=10)
        share = [f"{1 - f / a:.0%}" for f, a in zip(times["factorised"], times["ata"], strict=True)]
        axis.set_xlabel(f"{name}\nalignment's share of ATA: {', '.join(share)}")
        axis.set_ylabel("seconds a ViT-B block")
        axis.set_xticks(ticks, map(str, ticks))
        axis.minorticks_off()
        axis.legend(frameon=False)
    with replacing(path) as partial_:
        figure.savefig(partial_, format="png")
    return path


def _seconds(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


if __name__ == "__main__":
    print(growth(Path(sys.argv[1] if len(sys.argv) > 1 else "growth.png")))
