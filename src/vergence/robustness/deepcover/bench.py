"""An explanation against its forward passes alone, and counting against a loop over mutants and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.ops.spectra import packed
from vergence.reference import spectra as plain
from vergence.robustness.blackbox import BATCH, BlackBox, Subject
from vergence.robustness.classifiers import Classifier, lite
from vergence.robustness.deepcover.model import Suite, generate_suite
from vergence.robustness.deepcover.settings import Explain
from vergence.robustness.explainers import rise

SIDE, QUERIES, MUTANTS = 224, 200, 2000


def contests() -> Iterator[Contest]:
    """200 queries of EfficientNet-Lite0, then the counts of the paper's 2,000 mutants of 224 x 224."""
    rivals = {"forward passes alone": _forward, "RISE": _rise}
    yield Contest("explanation", "scores of 224 x 224, lite0, 200 queries", _scores, rivals)
    yield Contest("windows", "counts of 2,000 windows", lambda: _windows().spectrum(), _slow(_windows))
    yield Contest("packed", "counts of 2,000 packed masks", lambda: _packed().spectrum(), _slow(_packed))
    settings = Explain(queries=MUTANTS)
    title = "suite of 2,000 mutants, a classifier that costs nothing"
    yield Contest("suite", title, partial(_counted, settings), {"masks as bytes": partial(_in_memory, settings)})


@cache
def _network() -> Classifier:
    """Built on first use. Random weights cost the same as trained ones."""
    return lite("lite0").eval()


@cache
def _picture() -> Tensor:
    return torch.rand(3, SIDE, SIDE, generator=generator("bench", "deepcover"))


def _subject() -> Subject:
    return Subject(BlackBox(_network(), BATCH), _picture(), 0, torch.full((3, 1, 1), 0.5), 1.0)


def _scores() -> Tensor:
    suite = generate_suite(_subject(), Explain(queries=QUERIES), generator("bench", "suite"))
    return suite.spectrum().ef


def _forward() -> None:
    images = _picture().expand(BATCH, -1, -1, -1).contiguous()
    with torch.no_grad():
        for _ in range(0, QUERIES, BATCH):
            _network()(images)


def _rise() -> Tensor:
    return rise(_subject(), QUERIES, generator("bench", "rise"))


# Counting -------------------------------------------------------------------------------------------------------------


@cache
def _windows() -> Suite:
    source = generator("bench", "windows")
    first = torch.randint(0, SIDE - 60, (MUTANTS, 2), generator=source)
    extent = torch.randint(10, 60, (MUTANTS, 2), generator=source)
    failed = torch.rand(MUTANTS, generator=source) < 0.5
    return Suite(SIDE, SIDE, failed, windows=torch.cat([first, first + extent], 1))


@cache
def _packed() -> Suite:
    source = generator("bench", "packed")
    masks = torch.randint(0, 2, (MUTANTS, SIDE * SIDE), dtype=torch.uint8, generator=source).bool()
    return Suite(SIDE, SIDE, torch.rand(MUTANTS, generator=source) < 0.5, words=packed(masks))


def _slow(suite: Callable[[], Suite]) -> dict[str, Callable[[], Any]]:
    """A loop over the masks, and two matrix products with them."""
    masks = cache(lambda: suite().masks())

    def products() -> Tensor:
        flat = masks().flatten(1)
        weights = torch.stack([suite().failed, ~suite().failed]).float()
        parts = range(0, MUTANTS, 250)
        return torch.stack([weights[:, i : i + 250] @ flat[i : i + 250].float() for i in parts]).sum(0)

    return {"loop over mutants": lambda: plain.counts(masks(), suite().failed), "matrix products": products}


def _bright(images: Tensor) -> Tensor:
    return (images[:, 0, 90:130, 90:130].mean((1, 2)) > 0.499).long()


def _counted(settings: Explain) -> Tensor:
    suite = generate_suite(Subject.of(_bright, _picture()), settings, generator("bench", "suite"))
    return suite.spectrum().ef


def _in_memory(settings: Explain) -> Tensor:
    """Masks as bytes, which grow with the suite, and a loop over them."""
    subject = Subject.of(_bright, _picture())
    suite = generate_suite(subject, settings, generator("bench", "suite"))
    return plain.counts(suite.masks(), suite.failed)[0]
