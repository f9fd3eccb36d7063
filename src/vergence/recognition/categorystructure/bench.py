"""The loss against loops over classes, and RKD's angles from inner products against differences of samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.category_structure import groups, inter_distance, intra_distance
from vergence.ops.distilling import relational_angle
from vergence.reference import category_structure as plain

BETA, GAMMA = 0.01, 0.2


def contests() -> Iterator[Contest]:
    """Forward and backward of Eq. 9 on features of the published networks, at the published batch sizes."""
    yield _structure("structure-100", 100, 128, 1024 * 16)
    yield _structure("structure-10", 10, 128, 1024 * 16)
    yield _angles()


def _structure(id: str, classes: int, batch: int, width: int) -> Contest:
    source = generator("bench", id)
    labels = torch.randint(classes, (batch,), generator=source)
    student = torch.randn(batch, 128 * 16, generator=source).requires_grad_()
    projected, teacher = (torch.randn(batch, width, generator=source) for _ in range(2))
    projected.requires_grad_()

    def run(loss: Callable[[], Tensor]) -> None:
        loss().backward()

    def ours() -> Tensor:
        among = groups(labels)
        return BETA * intra_distance(projected, teacher, among) + GAMMA * inter_distance(student, teacher, among)

    loop = partial(plain.looped, student, projected, teacher, labels, BETA, GAMMA)
    title = f"Eq. 9, forward and backward: {classes} classes, batch {batch}, ResNet-101_0.5 to ResNet-18_0.25"
    return Contest(id, title, partial(run, ours), {"loop over classes": partial(run, loop)})


def _angles() -> Contest:
    source = generator("bench", "angles")
    student = torch.randn(64, 128, generator=source).requires_grad_()
    teacher = torch.randn(64, 1024, generator=source)

    def differences() -> None:
        sides = [F.normalize(x.unsqueeze(0) - x.unsqueeze(1), dim=2) for x in (student, teacher)]
        F.smooth_l1_loss(sides[0] @ sides[0].mT, sides[1] @ sides[1].mT).backward()

    rivals = {"differences": differences}
    return Contest("angles", "RKD's angles, batch 64", lambda: relational_angle(student, teacher).backward(), rivals)
