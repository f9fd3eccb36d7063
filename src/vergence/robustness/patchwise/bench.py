"""Cost of the projection: an attack with and without it, and its parts against their plain forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.smooth import gaussian_smooth, surroundings
from vergence.reference import patchwise as plain
from vergence.robustness.attacks import SignAttack, i_fgsm
from vergence.robustness.classifiers import Classifier, lite
from vergence.robustness.patchwise.model import pi_fgsm

EPS = 16 / 255


def contests() -> Iterator[Contest]:
    """The whole attack on two pictures of 299 x 299, then projection and smoothing alone."""
    rivals = {"I-FGSM": _attack(i_fgsm(EPS, 2))}
    yield Contest("attack", "PI-FGSM, lite0, 299 x 299, 2 iterations", _attack(pi_fgsm(EPS, 2)), rivals)
    for size in (3, 7, 21):
        rivals = {"depthwise convolution": _depthwise(plain.project_kernel(size))}
        title = f"projection, kernel {size}, 299 x 299"
        yield Contest(f"projection-{size}", title, _smoothed(surroundings, size), rivals)
    rivals = {"depthwise convolution": _depthwise(plain.gaussian_kernel(15))}
    yield Contest("smoothing", "smoothing, kernel 15, 299 x 299", _smoothed(gaussian_smooth, 15), rivals)


@cache
def _network() -> Classifier:
    """Built on first use. Random weights cost the same as trained ones."""
    return lite("lite0").eval()


@cache
def _noise() -> Tensor:
    return torch.randn(2, 3, 299, 299, generator=generator("bench", "patchwise"))


def _attack(attack: SignAttack) -> Callable[[], Any]:
    return lambda: attack(_network(), _noise().sigmoid(), torch.tensor([0, 1]))


def _smoothed(smooth: Callable[[Tensor, int], Tensor], size: int) -> Callable[[], Any]:
    return lambda: smooth(_noise(), size)


def _depthwise(kernel: Tensor) -> Callable[[], Any]:
    return lambda: plain.depthwise(_noise(), kernel)
