"""Cost of SE-SiamFC: against its direct transcription, which builds kernels at every call and pads them to the size of
the largest scale, and against SiamFC+ of the same width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.correlation import cross_correlation
from vergence.reference import scale as plain
from vergence.tracking.sesiam.model import SiameseNetwork, build


def contests() -> Iterator[Contest]:
    """Inference on the three crops of a frame, with precomputed template features, and training steps; published
    size."""
    rivals = {"direct": _direct_frame(), "SiamFC+": _frame("siamfc+")}
    yield Contest("frame", "a frame (three crops), float32", _frame("se-siamfc"), rivals)
    rivals = {"direct, float32": _direct_frame(), "direct": _half(_direct_frame())}
    yield Contest("frame-bf16", "a frame (three crops), bfloat16", _half(_frame("se-siamfc")), rivals)
    yield Contest("step", "a training step, one pair", _step("otb", 1), {"direct": _direct_step("otb", 1)})


@cache
def network(name: str, size: str) -> SiameseNetwork:
    """With the released connection and random weights, which cost the same as trained ones."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tracker = build(name, size=size, connection="correlation")
    with torch.no_grad():
        tracker(*pairs(size, 2))  # gives the norms their statistics
    return tracker


@cache
def pairs(size: str, count: int) -> tuple[Tensor, Tensor]:
    """Templates and search regions."""
    source = generator("bench", "sesiam", size, count)
    sides = {"tiny": (63, 127)}.get(size, (127, 255))
    template, search = (torch.randn(count, 3, side, side, generator=source) for side in sides)
    return template, search


def direct(tracker: SiameseNetwork, images: Tensor, training: bool) -> Tensor:
    """The features of a network's direct transcription, with its weights and statistics."""
    plan, trunk = tracker.plan, tracker.trunk
    weights = dict([*trunk.named_parameters(), *trunk.named_buffers()])
    border = plan.borders[0 if training else 1]
    stem, basis = _bases(plan.stem_size, plan.size, plan.scales, plan.stem_order, plan.order)
    if hasattr(trunk, "stem"):
        maps = plain.residual(images, weights, stem.to(images), basis.to(images), training, border)
    else:
        maps = plain.shallow(images, weights, basis.to(images), training, border)
    return maps.amax(2)


@cache
def _bases(stem_size: int, size: int, scales: tuple[float, ...], stem_order: int, order: int) -> tuple[Tensor, Tensor]:
    return plain.hermite_basis(stem_size, scales, stem_order), plain.hermite_basis(size, scales, order)


def _frame(name: str) -> Callable[[], Tensor]:
    def run() -> Tensor:
        tracker = network(name, "otb").eval()
        with torch.no_grad():
            return tracker.connect(_template(name), tracker.features(pairs("otb", 3)[1]))

    return run


@cache
def _template(name: str) -> Tensor:
    return network(name, "otb").eval().features(pairs("otb", 1)[0])


def _direct_frame() -> Callable[[], Tensor]:
    def run() -> Tensor:
        tracker = network("se-siamfc", "otb").eval()
        with torch.no_grad():
            search = direct(tracker, pairs("otb", 3)[1], training=False).float()
            return tracker.plan.gain * cross_correlation(_template("se-siamfc"), search).unsqueeze(1)

    return run


def _half(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
    def halved() -> Tensor:
        _template("se-siamfc"), _template("siamfc+")  # these are known before
        with torch.autocast("cpu", torch.bfloat16):
            return run()

    return halved


def _step(size: str, count: int) -> Callable[[], None]:
    def run() -> None:
        tracker = network("se-siamfc", size).train()
        tracker(*pairs(size, count)).square().mean().backward()

    return run


def _direct_step(size: str, count: int) -> Callable[[], None]:
    def run() -> None:
        tracker = network("se-siamfc", size).train()
        template, search = (direct(tracker, crops, training=True) for crops in pairs(size, count))
        (tracker.plan.gain * cross_correlation(template, search)).square().mean().backward()

    return run
