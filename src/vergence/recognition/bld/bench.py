"""Making copies at once and one by one; a step of BLD beside fine-tuning; and its memory beside all copies at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.recognition.bld.model import Batch, Learner, Network
from vergence.recognition.bld.settings import PRESETS, Augmentation, Method
from vergence.recognition.copies import Copies, jittered, warp

BATCH, COPIES, SIZE = 20, 50, 32
CHANGES = Augmentation(flip=True)


def contests() -> Iterator[Contest]:
    """The published batch: 20 pictures of 32 x 32, 50 copies."""
    copies = _copies()
    loops = {"one by one": partial(one_by_one, copies), "batch by batch": partial(batch_by_batch, copies),
             "Pillow, one by one": partial(pillow, copies)}  # fmt: skip
    yield Contest("copies", "50 copies of 20 pictures", lambda: list(copies.chunks(10)), loops)
    yield Contest("step", "a step of BLD, small network, 50 copies", step("bld", 10),
                  {"fine-tuning": step("finetune", 10), "all copies at once": step("bld", COPIES)})  # fmt: skip


def _copies() -> Copies:
    pictures = torch.rand(BATCH, 3, SIZE, SIZE, generator=generator("bench", "copies"))
    return Copies(pictures, COPIES, CHANGES, 0)


def one_by_one(copies: Copies) -> list[Tensor]:
    """The same copies in a loop over copies and pictures."""
    made = []
    for number in range(copies.count):
        draws = copies._draws(number)
        for index in range(len(copies.pictures)):
            own = draws[None, :, index : index + 1]
            made.append(jittered(warp(copies.pictures[index : index + 1], own, copies.changes), own, 0.2))
    return made


def batch_by_batch(copies: Copies) -> list[Tensor]:
    """The same copies in a loop over copies alone."""
    return [copies.made(range(number, number + 1)) for number in range(copies.count)]


def pillow(copies: Copies) -> list[Any]:
    """Rotation, shift and brightness of every copy with Pillow, as a data loader would make them."""
    pictures = [Image.fromarray(np.asarray(p.permute(1, 2, 0).mul(255).byte())) for p in copies.pictures]
    made = []
    for number in range(copies.count):
        draws = copies._draws(number).T.tolist()
        for picture, (down, across, turn, _, light, _) in zip(pictures, draws, strict=True):
            turned = picture.rotate(20 * turn - 10, Image.Resampling.BILINEAR, translate=(8 * across - 4, 8 * down - 4))
            made.append(torch.from_numpy(np.asarray(turned)).permute(2, 0, 1).float().mul((0.8 + 0.4 * light) / 255))
    return made


def step(kind: str, chunk: int) -> Callable[[], Any]:
    """One batch of the fifth task by the network of ``tiny``."""
    network = Network(PRESETS["tiny"].model, (2,) * 5)
    data = Batch(_copies(), torch.arange(BATCH) % 2, torch.full((BATCH,), 4))
    learner = Learner(network, replace(Method(), chunk=chunk), 1e-4, 1e-6)
    return partial(learner.bld, data, 4) if kind == "bld" else partial(learner.plain, data)
