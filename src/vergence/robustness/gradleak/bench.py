"""Attacks in whole batches against one picture at a time, principal components against scikit-learn's, and curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.pca import principal, randomised, shares
from vergence.reference import gradleak as plain
from vergence.robustness.gradleak.model import Network, build
from vergence.robustness.gradleak.settings import PRESETS
from vergence.robustness.minimal import CarliniWagner, DeepFool

BATCH = 64
SEARCHES, STEPS = 1, 15
SIZE = (4000, 1024)
"""Of the data whose components are found; 10,000 x 3,072 takes too long for three rounds (see the README)."""


def contests() -> Iterator[Contest]:
    """DeepFool and C&W with two networks, components, and 1,000 leak curves."""
    for kind, name in (("small", "the network of tiny"), ("mlp", "two hidden layers of 128")):
        yield _deepfool(kind, name)  # type: ignore[arg-type]
        yield _wagner(kind, name)  # type: ignore[arg-type]
    title = f"all components of {SIZE[0]:,} x {SIZE[1]:,}, float64"
    yield Contest("components", title, lambda: principal(_data().split(500)), {"scikit-learn, full SVD": _full,
                  "scikit-learn, eigenvectors": _eigh})  # fmt: skip
    title = f"50 components of {SIZE[0]:,} x {SIZE[1]:,}, float32"
    yield Contest("randomised", title, _randomised, {"scikit-learn, randomised": _their_randomised})
    yield Contest("curves", "leak curves of 1,000 gradients, D = 1,024", lambda: shares(_data()[:1000], _vectors()),
                  {"Eq. 2 by gradient": _by_gradient})  # fmt: skip


@cache
def _network(kind: Literal["small", "mlp"]) -> Network:
    """Random weights cost the same as trained ones."""
    tiny = PRESETS["tiny"]
    torch.manual_seed(0)
    width = tiny.model.width if kind == "small" else 128
    return build(replace(tiny, model=replace(tiny.model, network=kind, width=width)), 8).eval()


@cache
def _images() -> Tensor:
    return torch.rand(BATCH, 3, 32, 32, generator=generator("bench", "gradleak"))


@cache
def _labels(kind: Literal["small", "mlp"]) -> Tensor:
    with torch.no_grad():
        return _network(kind)(_images()).argmax(1)


def _deepfool(kind: Literal["small", "mlp"], name: str) -> Contest:
    attack = DeepFool(steps=2, bisections=0)
    return Contest(
        f"deepfool-{kind}",
        f"DeepFool, {name}, 2 steps, batch {BATCH}",
        lambda: attack(_network(kind), _images(), _labels(kind)),
        {"loop over pictures": lambda: plain.deepfool(_network(kind), _images(), _labels(kind), 2)},
    )


def _wagner(kind: Literal["small", "mlp"], name: str) -> Contest:
    attack = CarliniWagner(SEARCHES, STEPS, 0.01, 1.0, patience=0, bisections=0)
    return Contest(
        f"cw-{kind}",
        f"C&W, {name}, {STEPS} steps, batch {BATCH}",
        lambda: attack(_network(kind), _images(), _labels(kind)),
        {
            "loop over pictures": lambda: plain.carlini_wagner(
                _network(kind), _images(), _labels(kind), SEARCHES, STEPS, 0.01, 1.0, patience=1.0
            )
        },
    )


@cache
def _data() -> Tensor:
    """Samples whose spectrum falls like that of photographs."""
    source = generator("bench", "components")
    spread = torch.arange(1, SIZE[1] + 1, dtype=torch.float64) ** -1.0
    return torch.randn(SIZE, generator=source, dtype=torch.float64) * spread + 0.5


@cache
def _vectors() -> Tensor:
    return principal(_data().split(500)).vectors


def _full() -> object:
    from sklearn.decomposition import PCA

    return PCA(svd_solver="full").fit(_data().numpy())


def _eigh() -> object:
    from sklearn.decomposition import PCA

    return PCA(svd_solver="covariance_eigh").fit(_data().numpy())


@cache
def _single() -> Tensor:
    return _data().float()


def _randomised() -> object:
    return randomised(lambda: _single().split(500), 50, generator("bench", "randomised"), passes=3)


def _their_randomised() -> object:
    from sklearn.decomposition import PCA

    return PCA(50, svd_solver="randomized", iterated_power=2, random_state=0).fit(_single().numpy())


def _by_gradient() -> Tensor:
    """Eq. 2 for one gradient and one component after the other, vectorised over its terms alone."""
    vectors = _vectors()
    rows = []
    for g in _data()[:1000]:
        terms = (vectors.mT @ g).square()
        rows.append(terms.cumsum(0) / (g @ g))
    return torch.stack(rows)
