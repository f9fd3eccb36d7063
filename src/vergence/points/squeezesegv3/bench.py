"""SqueezeSegV3 against its direct transcription, and projection and vote against the public code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops import label_vote as vote
from vergence.ops.spherical import spherical_project
from vergence.points.squeezesegv3.model import build
from vergence.points.squeezesegv3.settings import ModelConfig
from vergence.points.sweeps import Scanner, street_sweep
from vergence.reference import adaptive as plain
from vergence.reference import range_image


def contests() -> Iterator[Contest]:
    """A sweep of a 64-beam scanner through the published network, a training step, the projection and the vote."""
    yield _inference()
    yield _training()
    sweep = street_sweep(generator("bench", "sweep"), Scanner())
    points = sweep.points
    seen = spherical_project(points)
    yield Contest(
        "projection",
        f"range image of {len(points):,} points",
        partial(spherical_project, points),
        {"public": partial(range_image.project, points.numpy())},
    )
    asked = (seen.image(seen.range, -1.0), seen.image(sweep.labels, 1), seen.range, seen.row, seen.column, 20)
    rivals = {"public": partial(range_image.vote, *asked)}
    yield Contest("vote", f"vote for {len(points):,} points", partial(vote.label_vote, *asked), rivals)
    yield Contest("vote-torch", f"vote for {len(points):,} points, without numba", partial(_uncompiled, asked), rivals)


def _uncompiled(asked: Any) -> Any:
    compiled, vote.compiled = vote.compiled, lambda: None  # type: ignore[assignment]
    try:
        return vote.label_vote(*asked)
    finally:
        vote.compiled = compiled


def _inference() -> Contest:
    network = build(ModelConfig(), 20).eval().requires_grad_(False)
    image = torch.randn(1, 5, 64, 2048, generator=generator("bench", "image"))

    def ours() -> Any:
        with torch.inference_mode():
            return network(image)

    def direct() -> Any:
        with torch.inference_mode():
            return plain.squeezesegv3(network, image)

    return Contest("inference", "inference of SSGV3-21, 64 x 2048", ours, {"direct": direct})


def _training() -> Contest:
    network = build(ModelConfig(dropout=0.0), 20).train()
    image = torch.randn(1, 5, 64, 256, generator=generator("bench", "image"))

    def ours() -> None:
        torch.stack([level.square().mean() for level in network(image)]).sum().backward()

    def direct() -> None:
        levels = plain.squeezesegv3(network, image)
        torch.stack([level.square().mean() for level in levels]).sum().backward()

    return Contest("training", "forward and backward of SSGV3-21, 64 x 256", ours, {"direct": direct})
