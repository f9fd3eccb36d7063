"""Readers of descriptors and pictures: public benchmarks and a user's own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.contract.data import Layout
from vergence.core.errors import VergenceError
from vergence.data.images import find_images
from vergence.reading.arrays import read_npz
from vergence.reading.files import refusing
from vergence.reading.matlab import read_mat
from vergence.reading.pickles import read_pickle
from vergence.reading.weights import load_tensors
from vergence.retrieval.data import Clusters, Judged, Pictures
from vergence.retrieval.metrics import Truth
from vergence.search.expansion import normalised

FILES = (".npz", ".safetensors")


def read_descriptors(path: Path) -> dict[str, Tensor]:
    """The arrays of an ``.npz`` or ``.safetensors`` file by name."""
    if path.suffix == ".safetensors":
        return load_tensors(path)[0]
    arrays = {name: np.atleast_1d(array) for name, array in read_npz(path).items()}
    with refusing(path, "a .npz file of numbers"):
        return {name: torch.from_numpy(array.astype(array.dtype.newbyteorder("="))) for name, array in arrays.items()}


def matrix(arrays: Mapping[str, Tensor], name: str, path: Path) -> Tensor:
    """The array of a file with this name, as unit descriptors (N, D)."""
    if name not in arrays:
        held = ", ".join(arrays) or "nothing"
        raise VergenceError(f"{path} holds no {name!r} (one row per descriptor); there is {held}")
    if not len(arrays[name]):
        raise VergenceError(f"{path} holds no descriptors: {name!r} is empty")
    return normalised(arrays[name], f"{name} in {path}")


def distractors(source: str) -> Tensor:
    """Descriptors (N, D) that are relevant to no query, from a file."""
    path = Path(source).expanduser()
    return matrix(read_descriptors(path), "descriptors", path)


def _clusters(path: Path) -> Clusters:
    arrays = read_descriptors(path)
    descriptors = matrix(arrays, "descriptors", path)
    labels = arrays.get("labels")
    if labels is None or labels.ndim != 1 or labels.is_floating_point() or len(labels) != len(descriptors):
        raise VergenceError(f"{path} needs 'labels', a whole number for each of its {len(descriptors)} descriptors")
    queries = arrays.get("queries", torch.arange(len(descriptors)))
    clusters = labels.long().unique(return_inverse=True)[1]
    return Clusters(descriptors, clusters, queries.long(), where=str(path))


def _part(data: Clusters, split: str) -> Clusters:
    """Splits by cluster: of every five, one for test, one for validation, three for training."""
    count = int(data.clusters.max()) + 1
    if count < 5:
        raise VergenceError(f"{data.where} has {count} clusters; 5 or more can be split into training and test")
    turn = data.clusters % 5
    kept = {"test": turn == 0, "val": turn == 1, "train": turn > 1}[split]
    places = kept.nonzero()[:, 0]
    new = torch.full((len(data.clusters),), -1).index_put_((places,), torch.arange(len(places)))
    queries = new[data.queries]
    return Clusters(data.descriptors[places], data.clusters[places], queries[queries >= 0], where=data.where)


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
    """One folder per cluster, either below ``train`` and ``test`` or split by cluster."""
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder with a folder of pictures for each cluster")
    folder_of_split = path / (split if split != "val" or (path / "val").is_dir() else "test")
    root = folder_of_split if folder_of_split.is_dir() else path
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
    pictures = [(picture, number) for number, folder in enumerate(folders) for picture in find_images(folder)]
    if not pictures:
        raise VergenceError(f"{root} holds no folders of pictures, one for each cluster")
    labels = torch.tensor([number for _, number in pictures])
    everything = Clusters(torch.zeros(len(pictures), 1), labels, torch.arange(len(pictures)), where=str(path))
    if root == path:
        kept = _part(replace(everything, descriptors=torch.arange(len(pictures))[:, None]), split)
        chosen = kept.descriptors[:, 0].tolist()
    else:
        kept, chosen = everything, list(range(len(pictures)))
    return Pictures([pictures[i][0] for i in chosen], lambda rows: replace(kept, descriptors=rows))


# The public benchmarks ------------------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    """Decodes the byte strings of a Python 2 pickle."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, dict):
        return {_text(k): _text(v) for k, v in value.items()}
    return [_text(v) for v in value] if isinstance(value, list | tuple) else value


def _with(content: Any, names: Sequence[str], path: Path) -> dict[str, Any]:
    """Checks that part of a ground-truth file has these keys."""
    if not isinstance(content, dict) or not set(names) <= set(content):
        raise VergenceError(f"{path} is not the published ground truth: expected {', '.join(names)}")
    return content


def _positions(values: Any, path: Path) -> Tensor:
    try:
        return torch.tensor([int(v) for v in values], dtype=torch.int64)
    except (TypeError, ValueError) as error:
        raise VergenceError(f"{path} is damaged: {error}") from error


def _revisited(name: str) -> Callable[[Path, str], Any]:
    """Reader of ROxford5k or RParis6k. They have no training set, so every split is the whole data set."""

    def read(path: Path, split: str) -> Judged | Pictures:
        file = path / f"gnd_{name}.pkl"
        if not path.is_dir():
            raise VergenceError(f"{path} is not a folder with {file.name}")
        content = _with(_text(read_pickle(file)), ("imlist", "qimlist", "gnd"), file)
        answers = [_with(entry, ("bbx", "easy", "hard", "junk"), file) for entry in content["gnd"]]
        if len(answers) != len(content["qimlist"]) or not answers:
            raise VergenceError(f"{file} has {len(answers)} answers for {len(content['qimlist'])} queries")
        grades = {grade: [_positions(a[grade], file) for a in answers] for grade in ("easy", "hard", "junk")}
        count, queries = len(content["imlist"]), len(answers)
        if any(len(p) and int(p.max()) >= count for positions in grades.values() for p in positions):
            raise VergenceError(f"{file} names positions beyond its {count} pictures")
        ready = _ready(path)
        if ready is not None:
            return _graded(*ready, grades, (count, queries), path)
        paths = [path / "jpg" / f"{n}.jpg" for n in (*content["imlist"], *content["qimlist"])]
        boxes = [None] * count + [_box(a["bbx"], file) for a in answers]
        return Pictures(paths, lambda rows: _graded(rows[:count], rows[count:], grades, (count, queries), path), boxes)

    return read


def _box(values: Any, path: Path) -> tuple[float, float, float, float]:
    try:
        left, top, right, bottom = (float(v) for v in values)
    except (TypeError, ValueError) as error:
        raise VergenceError(f"{path} is damaged: a box is left, top, right, bottom ({error})") from error
    return left, top, right, bottom


def _ready(path: Path) -> tuple[Tensor, Tensor] | None:
    """Precomputed descriptors beside the ground truth: ``gallery`` and ``queries``, or ``X`` and ``Q`` (one column per
    picture) of the benchmark's own MATLAB files."""
    places = [path, path / "features"]
    files = [f for p in places if p.is_dir() for f in sorted(p.iterdir()) if f.suffix in (*FILES, ".mat")]
    if not files:
        return None
    if len(files) > 1:
        raise VergenceError(f"{path} has descriptors in {files[0].name} and in {files[1].name}; keep one of them")
    file = files[0]
    if file.suffix != ".mat":
        arrays = read_descriptors(file)
        return matrix(arrays, "gallery", file), matrix(arrays, "queries", file)
    content = read_mat(file, ("X", "Q"))
    with refusing(file, "a MATLAB file with X and Q"):
        arrays = {name: torch.from_numpy(np.ascontiguousarray(content[name].T)) for name in ("X", "Q")}
    return matrix(arrays, "X", file), matrix(arrays, "Q", file)


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
    """retrieval-SfM-120k; its validation set is also the test set."""
    file = path / "retrieval-SfM-120k.pkl"
    if not path.is_dir():
        raise VergenceError(f"{path} is not a folder with {file.name}")
    name = "train" if split == "train" else "val"
    whole = _with(_text(read_pickle(file)), ("train", "val"), file)
    content = _with(whole[name], ("cids", "cluster", "qidxs", "pidxs"), file)
    clusters = _positions(content["cluster"], file)
    pairs = torch.stack([_positions(content[side], file) for side in ("qidxs", "pidxs")], 1)
    queries = pairs[:, 0].unique()

    def become(rows: Tensor) -> Clusters:
        return Clusters(rows, clusters, queries, pairs, f"{name} of {path}")

    ready = next((path / f"{name}{s}" for s in FILES if (path / f"{name}{s}").is_file()), None)
    if ready is not None:
        return become(matrix(read_descriptors(ready), "descriptors", ready))
    cids = [str(cid) for cid in content["cids"]]
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
