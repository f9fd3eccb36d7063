"""Cost of expansion and search: batches against one call per query, search against raw FAISS.

``python -m vergence.retrieval.lattqe.bench FILE.json`` measures, on 1 million generated vectors of 512 numbers, the
time of a search beside raw FAISS, and recall, queries per second and bytes per vector of each kind of index. It takes
about 8 GiB and half an hour of one core, most of it for the graph of hnsw; ``FILE.json 1000000 flat`` measures exact
search only, in a few minutes. The README has the results.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from vergence.contract.benchmark import Contest
from vergence.core.files import write_json
from vergence.core.seeding import generator
from vergence.nn import DescriptorNetwork, multi_scale, resnet101_gem
from vergence.ops.expansion import aggregate, alpha_weights
from vergence.retrieval.lattqe.model import LAttQE, Learned
from vergence.retrieval.lattqe.settings import ModelConfig
from vergence.search import Alpha, Index
from vergence.search.expansion import Found, Method, first_search
from vergence.search.index import Kind

QUERIES, K, DIMENSION = 1000, 64, 2048
LEARNED = 8
"""Queries that LAttQE expands in a contest: a thousand take minutes on a core, and the ratio is the same."""
MILLION, SOME, SHORT, TOP = 1_000_000, 100_000, 512, 10
"""Vectors of the measurement by hand and of the contests, their dimension, and the number of results."""
ASKED = (1, 100, 1000)
"""Queries in one search."""


def contests() -> Iterator[Contest]:
    """Expansion at the published size, and search."""
    size = f"k = {K}, D = {DIMENSION}"
    rivals = {"one call per query": one_by_one(Alpha(), QUERIES), "neighbours copied, then summed": _copied}
    yield Contest("alpha", f"αQE, {QUERIES} queries, {size}", batched(Alpha(), QUERIES), rivals)
    yield Contest(
        "lattqe",
        f"LAttQE, {LEARNED} queries, {size}",
        batched(_lattqe, LEARNED),
        {"one call per query": one_by_one(_lattqe, LEARNED)},
    )
    title = f"LAttQE, one query, k = {K} (described at 1024 x 768, one of 3 scales)"
    yield Contest("one-query", title, one_by_one(_lattqe, 1), {"describing": _describe})
    for queries in ASKED[:2]:
        title = f"search, {queries} queries among {SOME:,}, D = {SHORT}"
        yield Contest(f"search-{queries}", title, _searched(queries, SOME), {"raw FAISS": _raw(queries, SOME)})


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
    """Computes the query's descriptor with the published network, at the picture's own scale: all three take 3.5 times
    as long."""
    with torch.no_grad():
        return multi_scale(_network(), torch.rand(1, 3, 768, 1024, generator=generator("bench", "picture")), (1.0,))


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


def _copied() -> Tensor:
    """The usual way: gather all neighbours, compare them with the query again, sum."""
    found = _part(QUERIES)
    return aggregate(found.query, found.index.vectors(found.places), alpha_weights(found.similarities))


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


@cache
def _asked(queries: int, count: int) -> Tensor:
    return near(_short(count), queries, "asked")


def _searched(queries: int, count: int) -> Callable[[], Any]:
    return lambda: _index("flat", count).search(_asked(queries, count), TOP)


@cache
def _raw_index(count: int) -> Any:
    index = import_module("faiss").IndexFlatL2(SHORT)
    index.add(_short(count).numpy())
    return index


def _raw(queries: int, count: int) -> Callable[[], Any]:
    """FAISS's own exact index, with as many threads as PyTorch."""

    def run() -> Any:
        import_module("faiss").omp_set_num_threads(torch.get_num_threads())
        return _raw_index(count).search(_asked(queries, count).numpy(), TOP)

    return run


def beside_faiss(count: int, rounds: int = 5) -> list[dict[str, Any]]:
    """Seconds of one core's time for a search and for raw FAISS, one row per number of queries."""
    rows = []
    for queries in ASKED:
        times: dict[str, list[float]] = {"vergence": [], "faiss": []}
        for _ in range(rounds):
            for name, run in (("vergence", _searched(queries, count)), ("faiss", _raw(queries, count))):
                began = time.process_time()
                run()
                times[name].append(time.process_time() - began)
        best = {name: min(seconds) for name, seconds in times.items()}
        rows.append({"queries": queries} | {f"seconds_{name}": round(t, 3) for name, t in best.items()})
    return rows


def trial(kind: Kind, count: int, efforts: Sequence[int], queries: int = 500, top: int = TOP) -> list[dict[str, Any]]:
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


def compare_indices(path: Path, count: int, kinds: Sequence[Kind]) -> Path:
    """Measures these kinds of index; the file is written after each kind, so that finished rows are kept."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    searches = beside_faiss(count)
    print(*searches, sep="\n", flush=True)
    _raw_index.cache_clear()
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
            "searches": searches,
            "rows": rows,
        }
        write_json(path, measured)
    return path


if __name__ == "__main__":
    arguments = sys.argv[1:]
    file = Path(arguments[0] if arguments else "search.json")
    count = int(arguments[1]) if len(arguments) > 1 else MILLION
    kinds = [kind for kind in get_args(Kind) if kind in arguments[2:] or not arguments[2:]]
    print(compare_indices(file, count, kinds))
