"""Descriptors to search among: readers of the public benchmarks and of a user's own, and the tuples training takes.

Data comes as :class:`Clusters` (descriptors with a cluster each, to train on or to judge), as :class:`Judged` (queries
and a gallery with what is right for whom), or as :class:`Pictures`, which become one of the two once described.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.core.files import load_tensors
from vergence.data.images import find_images, read_image
from vergence.data.pickles import read_arrays
from vergence.retrieval.metrics import Truth
from vergence.search.expansion import normalised

FILES = (".npz", ".safetensors")
TABLE = 20_000_000
"""Similarities that mining holds at a time."""
Ranks = Literal["renumbered", "original"]
"""Which rank a neighbour has after others were dropped: the place it moved up to, as in use, or the one it had."""


@dataclass(frozen=True)
class Judged:
    """A gallery (N, D), queries (Q, D), and by protocol what is right for each query."""

    gallery: Tensor
    queries: Tensor
    truths: Mapping[str, Truth]
    """By protocol; a single nameless one where there is one way to judge."""
    own: Tensor | None = None
    """Where the queries themselves are in the gallery (Q,), if they are."""

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, index: int) -> int:
        return range(len(self))[index]

    def with_distractors(self, distractors: Tensor) -> Judged:
        """The same with more in the gallery that is right for nobody."""
        if distractors.shape[1] != self.gallery.shape[1]:
            raise VergenceError(
                f"the distractors have {distractors.shape[1]} numbers, the gallery's items {self.gallery.shape[1]}"
            )
        return replace(self, gallery=torch.cat([self.gallery, distractors]))


@dataclass(frozen=True)
class Clusters:
    """Unit descriptors (N, D), the cluster of each (N,), and the positions that ask (Q,)."""

    descriptors: Tensor
    clusters: Tensor
    queries: Tensor
    pairs: Tensor | None = None
    """Matching positions (P, 2), where the data set names them; else any two of a cluster match."""
    where: str = "the data"

    def __post_init__(self) -> None:
        if len(self.descriptors) != len(self.clusters) or not len(self.clusters):
            raise VergenceError(
                f"{self.where} needs a cluster for each descriptor, got {len(self.clusters)} for "
                f"{len(self.descriptors)} descriptors"
            )
        for places in (self.queries, self.pairs):
            if (
                places is not None
                and len(places)
                and not 0 <= int(places.min()) <= int(places.max()) < len(self.clusters)
            ):
                raise VergenceError(f"{self.where} names positions beyond its {len(self.clusters)} descriptors")

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, index: int) -> int:
        return int(self.queries[index])

    def judged(self) -> Judged:
        """Each query against all others: right is the same cluster, and the query itself is junk."""
        positives = [(self.clusters == self.clusters[q]).nonzero()[:, 0] for q in self.queries]
        positives = [p[p != q] for p, q in zip(positives, self.queries, strict=True)]
        truth = Truth(positives, list(self.queries[:, None]))
        return Judged(self.descriptors, self.descriptors[self.queries], {"": truth}, self.queries)

    def asking(self) -> Clusters:
        """With the queries that have something to find."""
        sizes = torch.bincount(self.clusters)
        able = self.queries[sizes[self.clusters[self.queries]] > 1]
        if not len(able):
            raise VergenceError(f"no two descriptors of {self.where} share a cluster: there is nothing to learn")
        return replace(self, queries=able)


@dataclass(frozen=True)
class Pictures:
    """Pictures to describe first; ``become`` makes data of their descriptors (N, D)."""

    paths: Sequence[Path]
    become: Callable[[Tensor], Clusters | Judged]
    boxes: Sequence[tuple[float, float, float, float] | None] = ()
    """Left, top, right, bottom: only this part of the picture counts."""

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Tensor:
        picture = read_image(self.paths[index])
        box = self.boxes[index] if self.boxes else None
        if box is None:
            return picture
        left, top, right, bottom = (round(v) for v in box)
        part = picture[:, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
        if not part.numel():
            raise VergenceError(f"the box {box} is outside {self.paths[index]}")
        return part


# Training -------------------------------------------------------------------------------------------------------------


class Tuples(NamedTuple):
    """A batch: queries (B, D) with neighbours (B, k, D), where these are missing and which are relevant (B, k), a
    positive (B, D) and negatives (B, n, D)."""

    query: Tensor
    neighbours: Tensor
    padding: Tensor
    relevant: Tensor
    positive: Tensor
    negatives: Tensor


@dataclass(frozen=True)
class TupleData:
    """Training queries with their nearest neighbours (N, K) and mined negatives (Q, n)."""

    data: Clusters
    neighbours: Tensor
    negatives: Tensor | None = None
    least: int = 32
    """Neighbours of a query: drawn from here to K."""
    drop: float = 0.6
    """Each query draws the share of its neighbours to drop, from 0 to this."""
    ranks: Ranks = "renumbered"
    updates: int = 0
    """Batches of an epoch (0: as many as the queries fill)."""

    def __len__(self) -> int:
        return len(self.data) if self.data.pairs is None else len(self.data.pairs)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch of ``updates`` batches: queries in random order, again and again if need be."""
        wanted = self.updates * size if self.updates else max(len(self) // size, 1) * size
        order: list[int] = []
        while len(order) < wanted:
            order += torch.randperm(len(self), generator=generator).tolist()
        return iter([order[i : i + size] for i in range(0, wanted, size)])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return self.draw(index, torch.Generator().manual_seed(index))

    def draw(self, index: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Positions: the query, its kept neighbours and where they are missing, a positive, negatives."""
        query, positive = self._pair(index, generator)
        most = self.neighbours.shape[1]
        count = int(torch.randint(min(self.least, most), most + 1, (), generator=generator))
        share = self.drop * torch.rand((), generator=generator)
        missing = torch.rand(most, generator=generator) < share
        missing[count:] = True
        places = self.neighbours[query]
        if self.ranks == "renumbered":
            order = missing.byte().argsort(stable=True)
            places, missing = places[order], missing[order]
        negatives = torch.zeros(0, dtype=torch.int64) if self.negatives is None else self.negatives[index]
        return torch.tensor(query), places, missing, torch.tensor(positive), negatives

    def _pair(self, index: int, generator: torch.Generator) -> tuple[int, int]:
        if self.data.pairs is not None:
            query, positive = self.data.pairs[index].tolist()
            return query, positive
        query = int(self.data.queries[index])
        others = (self.data.clusters == self.data.clusters[query]).nonzero()[:, 0]
        others = others[others != query]
        return query, int(others[torch.randint(len(others), (), generator=generator)])

    def asked(self) -> Tensor:
        """The query of each sample, (len,)."""
        return self.data.queries if self.data.pairs is None else self.data.pairs[:, 0]

    def collate(self, samples: list[tuple[Tensor, ...]]) -> Tuples:
        query, places, padding, positive, negatives = (torch.stack(part) for part in zip(*samples, strict=True))
        most = int((~padding).sum(1).max()) if self.ranks == "renumbered" else padding.shape[1]
        places, padding = places[:, :most], padding[:, :most]
        found, clusters = self.data.descriptors, self.data.clusters
        relevant = (clusters[places] == clusters[query][:, None]) & ~padding
        return Tuples(found[query], found[places], padding, relevant, found[positive], found[negatives])


def hardest(data: Clusters, asked: Tensor, pool: Tensor, count: int, device: torch.device | str = "cpu") -> Tensor:
    """For each of the asked positions (Q,) the ``count`` nearest of a pool (P,) that are of other clusters, at most one
    a cluster: (Q, count), nearest first. Positions asked for twice are looked up once."""
    names, inverse, sizes = data.clusters[pool].unique(return_inverse=True, return_counts=True)
    if len(names) <= count:
        raise VergenceError(
            f"{count} negatives of different clusters are to be mined for a query, but {data.where} shows only "
            f"{len(names)} clusters in a pool of {len(pool)}"
        )
    # The pool as a table, a row a cluster: the best of each row is one maximum.
    order = inverse.argsort(stable=True)
    column = torch.arange(len(pool)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    table = torch.full((len(names), int(sizes.max())), -1)
    table[inverse[order], column] = order
    table, names, shown = table.to(device), names.to(device), data.descriptors[pool].to(device)
    hole = table < 0
    once, again = asked.unique(return_inverse=True)
    found = []
    for some in once.split(max(TABLE // table.numel(), 1)):
        alike = data.descriptors[some].to(device) @ shown.T
        best, which = alike[:, table.clamp(min=0)].masked_fill(hole, -torch.inf).max(-1)  # (b, clusters)
        best = best.masked_fill(names == data.clusters[some].to(device)[:, None], -torch.inf)
        rows = best.topk(count).indices
        found.append(pool[table[rows, which.gather(1, rows)].cpu()])
    return torch.cat(found)[again]


# Reading --------------------------------------------------------------------------------------------------------------


def read_descriptors(path: Path) -> dict[str, Tensor]:
    """The arrays of an ``.npz`` or ``.safetensors`` file by name."""
    if path.suffix == ".safetensors":
        return load_tensors(path)[0]
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: torch.from_numpy(np.atleast_1d(found[name])) for name in found.files}
    except FileNotFoundError:
        raise VergenceError(f"{path} does not exist") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError, TypeError, AttributeError) as error:
        raise VergenceError(f"{path} is not a whole .npz file of plain arrays: {error}") from error


def matrix(found: Mapping[str, Tensor], name: str, path: Path) -> Tensor:
    """Unit descriptors by name from what a file holds."""
    if name not in found:
        raise VergenceError(f"{path} holds no {name!r} (a row a descriptor); there is {', '.join(found) or 'nothing'}")
    if not len(found[name]):
        raise VergenceError(f"{path} holds no descriptors: {name!r} is empty")
    return normalised(found[name], f"{name} in {path}")


def _clusters(path: Path) -> Clusters:
    found = read_descriptors(path)
    descriptors = matrix(found, "descriptors", path)
    labels = found.get("labels")
    if labels is None or labels.ndim != 1 or labels.is_floating_point() or len(labels) != len(descriptors):
        raise VergenceError(f"{path} needs 'labels', a whole number for each of its {len(descriptors)} descriptors")
    queries = found.get("queries", torch.arange(len(descriptors)))
    clusters = labels.long().unique(return_inverse=True)[1]
    return Clusters(descriptors, clusters, queries.long(), where=str(path))


def _part(data: Clusters, split: str) -> Clusters:
    """Every fifth cluster tests, the one after it validates, the others train."""
    count = int(data.clusters.max()) + 1
    if count < 5:
        raise VergenceError(f"{data.where} has {count} clusters; 5 or more can be split into training and test")
    turn = data.clusters % 5
    kept = {"test": turn == 0, "val": turn == 1, "train": turn > 1}[split]
    places = kept.nonzero()[:, 0]
    new = torch.full((len(data.clusters),), -1).index_put_((places,), torch.arange(len(places)))
    asking = new[data.queries]
    return Clusters(data.descriptors[places], data.clusters[places], asking[asking >= 0], where=data.where)


def _own(path: Path, split: str) -> Clusters:
    """A file of descriptors and labels, or a folder with one for each split."""
    if path.is_file():
        if path.suffix not in FILES:
            raise VergenceError(f"{path} is not a file of descriptors; expected {' or '.join(FILES)}")
        return _part(_clusters(path), split)
    for name in (split, "test") if split == "val" else (split,):
        for suffix in FILES:
            if (path / f"{name}{suffix}").is_file():
                return _clusters(path / f"{name}{suffix}")
    raise VergenceError(f"{path} holds no {split}.npz or {split}.safetensors with 'descriptors' and 'labels'")


def _class_folders(path: Path, split: str) -> Pictures:
    """A folder a cluster, either below ``train`` and ``test`` or split by cluster."""
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder with a folder of pictures for each cluster")
    given = path / (split if split != "val" or (path / "val").is_dir() else "test")
    root = given if given.is_dir() else path
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
    found = [(picture, number) for number, folder in enumerate(folders) for picture in find_images(folder)]
    if not found:
        raise VergenceError(f"{root} holds no folders of pictures, one for each cluster")
    labels = torch.tensor([number for _, number in found])
    everything = Clusters(torch.zeros(len(found), 1), labels, torch.arange(len(found)), where=str(path))
    if root == path:
        kept = _part(replace(everything, descriptors=torch.arange(len(found))[:, None]), split)
        chosen = kept.descriptors[:, 0].tolist()
    else:
        kept, chosen = everything, list(range(len(found)))
    return Pictures([found[i][0] for i in chosen], lambda made: replace(kept, descriptors=made))


# The public benchmarks


def _text(value: Any) -> Any:
    """What Python 2 wrote as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, dict):
        return {_text(k): _text(v) for k, v in value.items()}
    return [_text(v) for v in value] if isinstance(value, list | tuple) else value


def _needed(found: Any, names: Sequence[str], path: Path) -> dict[str, Any]:
    if not isinstance(found, dict) or not set(names) <= set(found):
        raise VergenceError(f"{path} is not the published ground truth: expected {', '.join(names)}")
    return found


def _positions(values: Any, path: Path) -> Tensor:
    try:
        return torch.tensor([int(v) for v in values], dtype=torch.int64)
    except (TypeError, ValueError) as error:
        raise VergenceError(f"{path} is damaged: {error}") from error


def _revisited(name: str) -> Callable[[Path, str], Any]:
    """ROxford5k or RParis6k: there is nothing to train on, so every split is the whole."""

    def read(path: Path, split: str) -> Judged | Pictures:
        file = path / f"gnd_{name}.pkl"
        if not path.is_dir():
            raise VergenceError(f"{path} is not a folder with {file.name}")
        found = _needed(_text(read_arrays(file)), ("imlist", "qimlist", "gnd"), file)
        answers = [_needed(entry, ("bbx", "easy", "hard", "junk"), file) for entry in found["gnd"]]
        if len(answers) != len(found["qimlist"]) or not answers:
            raise VergenceError(f"{file} has {len(answers)} answers for {len(found['qimlist'])} queries")
        grades = {grade: [_positions(a[grade], file) for a in answers] for grade in ("easy", "hard", "junk")}
        count, queries = len(found["imlist"]), len(answers)
        if any(len(p) and int(p.max()) >= count for some in grades.values() for p in some):
            raise VergenceError(f"{file} names positions beyond its {count} pictures")
        ready = _ready(path)
        if ready is not None:
            return _graded(*ready, grades, (count, queries), path)
        paths = [path / "jpg" / f"{n}.jpg" for n in (*found["imlist"], *found["qimlist"])]
        boxes = [None] * count + [_box(a["bbx"], file) for a in answers]
        return Pictures(paths, lambda made: _graded(made[:count], made[count:], grades, (count, queries), path), boxes)

    return read


def _box(values: Any, path: Path) -> tuple[float, float, float, float]:
    try:
        left, top, right, bottom = (float(v) for v in values)
    except (TypeError, ValueError) as error:
        raise VergenceError(f"{path} is damaged: a box is left, top, right, bottom ({error})") from error
    return left, top, right, bottom


def _ready(path: Path) -> tuple[Tensor, Tensor] | None:
    """Descriptors that lie beside the ground truth: ``gallery`` and ``queries``, or the ``X`` and ``Q`` (a column each)
    of the benchmark's own MATLAB files."""
    places = [path, path / "features"]
    files = [f for p in places if p.is_dir() for f in sorted(p.iterdir()) if f.suffix in (*FILES, ".mat")]
    if not files:
        return None
    if len(files) > 1:
        raise VergenceError(f"{path} has descriptors in {files[0].name} and in {files[1].name}; keep one of them")
    file = files[0]
    if file.suffix != ".mat":
        found = read_descriptors(file)
        return matrix(found, "gallery", file), matrix(found, "queries", file)
    from scipy.io import loadmat

    try:
        read = loadmat(file, variable_names=["X", "Q"])
        columns = {name: torch.from_numpy(np.ascontiguousarray(read[name].T)) for name in ("X", "Q")}
    except Exception as error:  # SciPy fails in many ways on a damaged file
        raise VergenceError(f"{file} is not a whole MATLAB file with X and Q: {error}") from error
    return matrix(columns, "X", file), matrix(columns, "Q", file)


def _graded(
    gallery: Tensor, queries: Tensor, grades: Mapping[str, list[Tensor]], expected: tuple[int, int], path: Path
) -> Judged:
    if (len(gallery), len(queries)) != expected:
        raise VergenceError(
            f"{path} has descriptors of {len(gallery)} pictures and {len(queries)} queries; its ground truth is for "
            f"{expected[0]} and {expected[1]}"
        )
    easy, hard, junk = (grades[grade] for grade in ("easy", "hard", "junk"))

    def both(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        return [torch.cat(pair) for pair in zip(a, b, strict=True)]

    truths = {
        "easy": Truth(easy, both(junk, hard)),
        "medium": Truth(both(easy, hard), junk),
        "hard": Truth(hard, both(junk, easy)),
    }
    return Judged(gallery, queries, truths)


def _sfm(path: Path, split: str) -> Clusters | Pictures:
    """retrieval-SfM-120k; its test is its validation set."""
    file = path / "retrieval-SfM-120k.pkl"
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder with {file.name}")
    name = "train" if split == "train" else "val"
    whole = _needed(_text(read_arrays(file)), ("train", "val"), file)
    found = _needed(whole[name], ("cids", "cluster", "qidxs", "pidxs"), file)
    clusters = _positions(found["cluster"], file)
    pairs = torch.stack([_positions(found[side], file) for side in ("qidxs", "pidxs")], 1)
    queries = pairs[:, 0].unique()

    def become(made: Tensor) -> Clusters:
        return Clusters(made, clusters, queries, pairs, f"{name} of {path}")

    ready = next((path / f"{name}{s}" for s in FILES if (path / f"{name}{s}").is_file()), None)
    if ready is not None:
        return become(matrix(read_descriptors(ready), "descriptors", ready))
    cids = [str(cid) for cid in found["cids"]]
    return Pictures([path / "ims" / c[-2:] / c[-4:-2] / c[-6:-4] / c for c in cids], become)


LAYOUTS: Mapping[str, Layout] = {
    "folder": Layout(
        _own, "a file of 'descriptors' (N, D) and 'labels' (N,), .npz or .safetensors, or a folder with train, val and "
        "test files of that kind",
    ),
    "pictures": Layout(_class_folders, "a folder with a folder of pictures for each cluster"),
    "sfm120k": Layout(_sfm, "retrieval-SfM-120k.pkl with ims/, or with train.npz and val.npz of descriptors"),
    "roxford5k": Layout(_revisited("roxford5k"), "gnd_roxford5k.pkl with jpg/, or with a file of descriptors"),
    "rparis6k": Layout(_revisited("rparis6k"), "gnd_rparis6k.pkl with jpg/, or with a file of descriptors"),
}  # fmt: skip
