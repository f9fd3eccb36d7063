"""Time and memory of search, of a training step, and of filling the place of an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.seeding import generator
from vergence.data.photographs import photograph
from vergence.retrieval.cutouts import filled, inpainted
from vergence.retrieval.fosearch.model import FOSearch, triplet
from vergence.retrieval.fosearch.settings import ModelConfig, Network
from vergence.search import Index

DIMENSION, TOP = 2048, 10
LARGE, PAPER = 100_000, 10_154
"""Sizes of galleries: the issue of speed, and the paper's own."""


def contests() -> Iterator[Contest]:
    """One after another, so that the large gallery is gone before the next one begins."""
    yield _large()
    yield _one_query()
    yield _step()
    yield _hole()


def _units(count: int, name: str) -> Tensor:
    """Non-negative unit embeddings, as rectified ones are."""
    return F.normalize(torch.rand(count, DIMENSION, generator=generator("bench", name)), dim=1)


def _index(gallery: Tensor) -> Index:
    return Index(gallery, tuple(map(str, range(len(gallery)))), "bench")


def _faiss(gallery: Tensor) -> Any:
    library: Any = import_module("faiss")
    library.omp_set_num_threads(torch.get_num_threads())
    index = library.IndexFlatIP(gallery.shape[1])
    index.add(gallery.numpy())
    return index


def _large() -> Contest:
    gallery, queries = _units(LARGE, "gallery"), _units(16, "queries")
    ours, theirs = _index(gallery), _faiss(gallery)
    return Contest(
        "search",
        f"the best {TOP} of {LARGE:,} embeddings of {DIMENSION:,} numbers for 16 queries",
        lambda: ours.search(queries, TOP),
        {
            "FAISS, IndexFlatIP": lambda: theirs.search(queries.numpy(), TOP),
            "PyTorch, product and topk": lambda: (queries @ gallery.mT).topk(TOP),
        },
    )


def _one_query() -> Contest:
    """The paper's gallery for one query, beside the network that encodes it."""
    gallery = _units(PAPER, "paper")
    query, index = _units(1, "query"), _index(gallery)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = FOSearch(ModelConfig(), 699).eval()
    background, layout = torch.zeros(1, 3, 256, 256), torch.full((1, 4), 0.5)

    @torch.no_grad()
    def encoding() -> Tensor:
        return model.query(background, layout)

    return Contest(
        "one-query",
        f"the best {TOP} of {PAPER:,} cut-outs for one query",
        lambda: index.search(query, TOP),
        {"encoding the query": encoding, "PyTorch, product and topk": lambda: (query @ gallery.mT).topk(TOP)},
    )


def _step() -> Contest:
    """One triplet step: only the query head learns, or the background encoder too, or all."""
    network = Network((2, 2, 2, 2), (32, 64, 128, 256), "basic")
    source = generator("bench", "step")
    background, near, far = (torch.rand(16, 3, 96, 96, generator=source) for _ in range(3))
    layout = torch.rand(16, 4, generator=source)

    def stepping(*parts: str) -> Callable[[], None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = FOSearch(ModelConfig(network), 20)
        model.train()
        model.learn(*parts)

        def step() -> None:
            one, other = model.foreground(torch.cat([near, far])).chunk(2)
            triplet(model.query(background, layout), one, other, 2.0).backward()

        return step

    return Contest(
        "step",
        "one training step of 16 triplets at 96 x 96 pixels, encoders of 2.8 million parameters",
        stepping("head"),
        {
            "background trained": stepping("head", "background"),
            "both encoders trained": stepping("head", "background", "foreground"),
        },
    )


def _hole() -> Contest:
    picture = photograph("china.jpg", 512).to(torch.uint8)
    rows, columns = torch.meshgrid(torch.arange(picture.shape[1]), torch.arange(picture.shape[2]), indexing="ij")
    hole = ((columns - 200) / 40) ** 2 + ((rows - 200) / 110) ** 2 < 1
    rivals: dict[str, Callable[[], Any]] = {
        "scikit-image, biharmonic": lambda: inpainted(picture, hole, "biharmonic"),
    }
    try:
        import_module("cv2")
        rivals["OpenCV, Telea"] = lambda: inpainted(picture, hole, "telea")
    except ImportError:
        pass
    size = f"{picture.shape[2]} x {picture.shape[1]}"
    return Contest(
        "hole", f"the place of a figure filled in a picture of {size}", lambda: filled(picture, hole), rivals
    )
