"""Cost of expansion and search: batches against one call per query, approximate indices against exact search.

``python -m vergence.retrieval.lattqe.bench FILE.json`` measures, on 1 million generated vectors
of 512 numbers, recall, queries per second and bytes per vector of each kind of index. It takes about 6 GiB and half an
hour of one core, most of it for the graph of hnsw. The README has the results.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.files import write_json
from vergence.core.seeding import generator
from vergence.nn import DescriptorNetwork, multi_scale, resnet101_gem
from vergence.ops.expansion import aggregate, alpha_weights, aqe_weights
from vergence.retrieval.lattqe.model import LAttQE, Learned
from vergence.retrieval.lattqe.settings import ModelConfig
from vergence.search import Alpha, Average, Index
from vergence.search.expansion import Found, Method, first_search
from vergence.search.index import Kind

QUERIES, K, DIMENSION = 1000, 64, 2048
LEARNED = 8
"""Queries that LAttQE expands in a contest: a thousand take minutes on a core, and the ratio is the same."""
MILLION, SHORT = 1_000_000, 512


def contests() -> Iterator[Contest]:
    """Expansion at the published size, then the search of a million vectors."""
    size = f"k = {K}, D = {DIMENSION}"
    for id, name, method, plain in (("aqe", "AQE", Average(), aqe_weights), ("alpha", "αQE", Alpha(), alpha_weights)):
        rivals = {"one call per query": one_by_one(method, QUERIES), "neighbours copied, then summed": _copied(plain)}
        yield Contest(id, f"{name}, {QUERIES} queries, {size}", batched(method, QUERIES), rivals)
    yield Contest(
        "search",
        f"search and αQE, {QUERIES} queries among 10000",
        lambda: Alpha()(first_search(_gallery(), _queries(), K)),
        {"one call per query": lambda: [Alpha()(first_search(_gallery(), q[None], K)) for q in _queries()]},
    )
    yield Contest(
        "lattqe",
        f"LAttQE, {LEARNED} queries, {size}",
        batched(_lattqe, LEARNED),
        {"one call per query": one_by_one(_lattqe, LEARNED)},
    )
    title = f"LAttQE, one query, k = {K} (described at 1024 x 768, 3 scales)"
    yield Contest("one-query", title, one_by_one(_lattqe, 1), {"describing": _describe})
    rivals = {"flat": _million("flat"), "ivfpq": _million("ivfpq")}
    yield Contest("million", "ivf, 100 queries among 1 million", _million("ivf"), rivals)


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
    return Learned(LAttQE(ModelConfig(), DIMENSION).eval())


def _lattqe(found: Found) -> tuple[Tensor, Tensor]:
    """LAttQE at the published size, built when it is first called."""
    return _learned()(found)


@cache
def _network() -> DescriptorNetwork:
    return resnet101_gem().eval()


def _describe() -> Any:
    """Computes the query's descriptor with the published network."""
    with torch.no_grad():
        return multi_scale(_network(), torch.rand(1, 3, 768, 1024, generator=generator("bench", "picture")))


def _part(count: int) -> Found:
    return next(_found().parts(count))


def batched(method: Method, count: int) -> Callable[[], Any]:
    """Expands all queries in one call."""

    def run() -> Any:
        with torch.no_grad():
            return method(_part(count))

    return run


def one_by_one(method: Method, count: int) -> Callable[[], Any]:
    """Expands one query per call."""

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
    """Unit vectors (count, dimension) around centres, about a hundred per centre, drawn in chunks of ``rows``."""
    source = generator("bench", *seed, count, dimension)
    centres = torch.randn(max(count // 100, 1), dimension, generator=source)
    drawn = torch.empty(count, dimension)
    for start in range(0, count, rows):
        part = drawn[start : start + rows]
        part.normal_(generator=source).mul_(1.2)
        part += centres[torch.randint(len(centres), (len(part),), generator=source)]
        part /= part.norm(dim=1, keepdim=True)
    return drawn


def near(gallery: Tensor, count: int, *seed: int | str) -> Tensor:
    """Queries: perturbed vectors of a gallery."""
    source = generator("bench", *seed)
    chosen = gallery[torch.randint(len(gallery), (count,), generator=source)]
    noise = torch.randn(chosen.shape, generator=source) / chosen.shape[1] ** 0.5
    moved = chosen + 0.5 * noise
    return moved / moved.norm(dim=1, keepdim=True)


@cache
def _short(count: int) -> Tensor:
    return vectors(count, SHORT, "million")


@cache
def _index(kind: Kind, count: int = MILLION) -> Index:
    return Index(_short(count), tuple(map(str, range(count))), "bench", kind)


def _million(kind: Kind) -> Callable[[], Any]:
    return lambda: _index(kind).search(near(_short(MILLION), 100, "asked"), 10)


def trial(kind: Kind, count: int, efforts: Sequence[int], queries: int = 500, top: int = 10) -> list[dict[str, Any]]:
    """One kind of index, one row per effort: recall of the exact ``top``, queries per second, bytes per vector.

    Processor time is measured, so that other load on the machine matters little.
    """
    asked = near(_short(count), queries, "asked")
    exact = _index("flat", count).search(asked, top)[1]
    began = time.process_time()
    index = Index(_short(count), tuple(map(str, range(count))), "bench", kind)
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
                "queries_per_second": round(queries / seconds, 1),
                "bytes_per_vector": round(size, 1),
                "seconds_to_build": round(built, 1),
            }
        )
    return rows


def compare_indices(path: Path, count: int = MILLION, kinds: Sequence[Kind] = ("flat", "ivf", "ivfpq", "hnsw")) -> Path:
    """Measures every kind of index; the file is written after each kind, so that finished rows are kept."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        new = trial(kind, count, (1,) if kind == "flat" else (16, 64))
        print(*new, sep="\n", flush=True)
        rows += new
        measured = {
            "command": " ".join(["python -m vergence.retrieval.lattqe.bench", *sys.argv[1:]]),
            "date": datetime.date.today().isoformat(),
            "vectors": count,
            "dimension": SHORT,
            "threads": 1,
            "recall": "share of the exact 10 nearest that are found, over 500 queries in one batch",
            "seconds": "of one core's time",
            "rows": rows,
        }
        write_json(path, measured)
    return path


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "search.json")
    print(compare_indices(path, int(sys.argv[2]) if len(sys.argv) > 2 else MILLION))
