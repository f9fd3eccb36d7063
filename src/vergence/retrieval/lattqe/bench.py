"""What expansion and search cost: batches against a call a query, kinds of index against looking at everything.

``python -m vergence.retrieval.lattqe.bench`` measures what ratios do not show, on 1 million generated vectors of 512
numbers: recall, queries a second and bytes a vector of each kind of index. It takes about 6 GiB and half an hour of one
core, most of it for the graph of hnsw, and writes ``results/search.json``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.files import write_json
from vergence.core.seeding import generator
from vergence.nn import DescriptorNetwork, multi_scale, resnet101_gem
from vergence.ops.expansion import aggregate, alpha_weights, aqe_weights
from vergence.retrieval.lattqe.model import Learned, Model, build
from vergence.search import Alpha, Average, Index
from vergence.search.expansion import Found, Method, first_search
from vergence.search.index import Kind

QUERIES, K, DIMENSION = 1000, 64, 2048
LEARNED = 8
"""Queries that LAttQE expands in a contest: a thousand take minutes on a core, and the ratio is the same."""
MILLION, SHORT = 1_000_000, 512
ONE, DESCRIBING = f"LAttQE, one query, k = {K}", "describing a picture of 1024 x 768 at 3 scales"


def contests() -> Iterator[Contest]:
    """Expansion at the published size, then the search of a million vectors."""
    for name, method, plain in (("AQE", Average(), aqe_weights), ("αQE", Alpha(), alpha_weights)):
        rivals = {"a call a query": one_by_one(method, QUERIES), "neighbours copied, then summed": _copied(plain)}
        yield Contest(f"{name}, {QUERIES} queries, k = {K}, D = {DIMENSION}", batched(method, QUERIES), rivals)
    yield Contest(
        f"search and αQE, {QUERIES} queries among 10000",
        lambda: Alpha()(first_search(_gallery(), _queries(), K)),
        {"a call a query": lambda: [Alpha()(first_search(_gallery(), q[None], K)) for q in _queries()]},
    )
    learned = cast(Method, lambda found: _learned()(found))
    yield Contest(
        f"LAttQE, {LEARNED} queries, k = {K}, D = {DIMENSION}",
        batched(learned, LEARNED),
        {"a call a query": one_by_one(learned, LEARNED)},
    )
    yield Contest(ONE, one_by_one(learned, 1), {DESCRIBING: _describe})
    yield Contest(
        "ivf, 100 queries among 1 million", _million("ivf"), {"flat": _million("flat"), "ivfpq": _million("ivfpq")}
    )


@cache
def _gallery(count: int = 10_000) -> Index:
    return Index(vectors(count, DIMENSION, "gallery"), tuple(map(str, range(count))), "bench")


@cache
def _queries() -> Tensor:
    return near(_gallery().descriptors, QUERIES, "queries")


@cache
def _found() -> Found:
    return first_search(_gallery(), _queries(), K)


@cache
def _learned() -> Learned:
    return Learned(cast(Any, build(Model(), DIMENSION, tempered=False).eval()))


@cache
def _network() -> DescriptorNetwork:
    return resnet101_gem().eval()


def _describe() -> Any:
    """What comes before: the query's descriptor by the published network."""
    with torch.no_grad():
        return multi_scale(_network(), torch.rand(1, 3, 768, 1024, generator=generator("bench", "picture")))


def _part(count: int) -> Found:
    return next(_found().parts(count))


def batched(method: Method, count: int) -> Callable[[], Any]:
    """All queries in one call."""

    def run() -> Any:
        with torch.no_grad():
            return method(_part(count))

    return run


def one_by_one(method: Method, count: int) -> Callable[[], Any]:
    """A call a query, as in a loop over them."""

    def run() -> Any:
        with torch.no_grad():
            return [method(part) for part in _part(count).parts(1)]

    return run


def _copied(weigh: Callable[..., Tensor]) -> Callable[[], Any]:
    """The usual way: gather all neighbours, compare them with the query again, sum."""

    def run() -> Tensor:
        found = _part(QUERIES)
        return aggregate(found.query, found.index.vectors(found.places), weigh(found.similarities))

    return run


# A million ------------------------------------------------------------------------------------------------------------


def vectors(count: int, dimension: int, *seed: int | str, rows: int = 50_000) -> Tensor:
    """Unit vectors (count, dimension) around centres, a hundred to each, made in pieces."""
    source = generator("bench", *seed, count, dimension)
    centres = torch.randn(max(count // 100, 1), dimension, generator=source)
    made = torch.empty(count, dimension)
    for start in range(0, count, rows):
        part = made[start : start + rows]
        part.normal_(generator=source).mul_(1.2)
        part += centres[torch.randint(len(centres), (len(part),), generator=source)]
        part /= part.norm(dim=1, keepdim=True)
    return made


def near(gallery: Tensor, count: int, *seed: int | str) -> Tensor:
    """Queries beside vectors of a gallery."""
    source = generator("bench", *seed)
    chosen = gallery[torch.randint(len(gallery), (count,), generator=source)]
    noise = torch.randn(chosen.shape, generator=source) / chosen.shape[1] ** 0.5
    moved = chosen + 0.5 * noise
    return moved / moved.norm(dim=1, keepdim=True)


@cache
def _made(count: int) -> Tensor:
    return vectors(count, SHORT, "million")


@cache
def _index(kind: Kind, count: int = MILLION) -> Index:
    return Index(_made(count), tuple(map(str, range(count))), "bench", kind)


def _million(kind: Kind) -> Callable[[], Any]:
    return lambda: _index(kind).search(near(_made(MILLION), 100, "asked"), 10)


def trial(kind: Kind, count: int, efforts: Sequence[int], queries: int = 500, top: int = 10) -> list[dict[str, Any]]:
    """Of one kind of index, a row an effort: recall of the exact ``top``, queries a second, bytes a vector.

    Time is the processor's, so that what else the machine does counts little.
    """
    asked = near(_made(count), queries, "asked")
    exact = _index("flat", count).search(asked, top)[1]
    began = time.process_time()
    index = Index(_made(count), tuple(map(str, range(count))), "bench", kind)
    built, rows, size = time.process_time() - began, [], index.bytes_a_vector
    for effort in efforts:
        object.__setattr__(index, "effort", effort)
        began = time.process_time()
        places = index.search(asked, top)[1]
        seconds = time.process_time() - began
        recall = float((places[:, :, None] == exact[:, None]).any(1).double().mean())
        rows.append(
            {
                "kind": kind,
                "effort": effort if kind != "flat" else None,
                "recall": round(recall, 4),
                "queries_a_second": round(queries / seconds, 1),
                "bytes_a_vector": round(size, 1),
                "seconds_to_build": round(built, 1),
            }
        )
    return rows


def main(count: int = MILLION, kinds: Sequence[Kind] = ("flat", "ivf", "ivfpq", "hnsw")) -> None:
    """Measure and write ``results/search.json``."""
    import datetime
    import sys

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        rows += trial(kind, count, (1,) if kind == "flat" else (16, 64))
        for row in rows[-2:]:
            print(row, flush=True)
        found = {
            "command": " ".join(["python -m vergence.retrieval.lattqe.bench", *sys.argv[1:]]),
            "date": datetime.date.today().isoformat(),
            "vectors": count,
            "dimension": SHORT,
            "threads": 1,
            "recall": "share of the exact 10 nearest that are found, over 500 queries in one batch",
            "seconds": "of one core's time",
            "rows": rows,
        }
        write_json(Path(__file__).parent / "results" / "search.json", found)  # what is measured is kept


if __name__ == "__main__":
    import sys

    main(int(sys.argv[1]) if len(sys.argv) > 1 else MILLION)
