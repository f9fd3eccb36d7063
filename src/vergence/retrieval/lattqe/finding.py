"""Searching a user's own files, with and without expansion: pictures of a folder, or a matrix of descriptors."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, Folder, Images, Text
from vergence.core.errors import VergenceError
from vergence.core.files import replacing, write_json
from vergence.data.images import find_images, read_image
from vergence.retrieval import page
from vergence.retrieval.data import matrix, read_descriptors
from vergence.retrieval.describe import Describer, Extractor, described
from vergence.search import Alpha, Average, Decayed, Discriminative, Index, NoExpansion, Shards
from vergence.search.expansion import Method, expanded, normalised
from vergence.search.index import Kind

CLASSIC: dict[str, Method] = {
    "none": NoExpansion(),
    "aqe": Average(),
    "aqewd": Decayed(),
    "alpha": Alpha(),
    "dqe": Discriminative(),
}


@dataclass(frozen=True)
class Inputs:
    """Pictures to find, where to look, and how to expand."""

    query: Images = ()
    """Pictures of what to find."""
    gallery: Folder | None = None
    """A folder of pictures to look in."""
    index: Text = ""
    """A file that keeps the gallery for the next call; without --gallery it is read. A name that ends with a slash is a
    folder of files, for galleries that do not fit memory."""
    descriptors: Text = ""
    """Instead of pictures: an .npz or .safetensors file with 'gallery' (N, D) and 'queries' (Q, D)."""
    method: Literal["weights", "none", "aqe", "aqewd", "alpha", "dqe"] = "weights"
    """What expands: the weights' own method, or one that needs no training."""
    neighbours: int = 0
    """How many neighbours to expand with (0: as many as the weights were made for)."""
    top: int = 10
    """How many results to show of each query."""
    kind: Literal["flat", "ivf", "hnsw", "ivfpq"] = "flat"
    """How the index looks: at everything, or approximately."""
    backbone: Text = ""
    """What describes pictures; if not given, what the weights were trained with."""
    backbone_weights: Text = ""
    """Weights of the backbone."""


@dataclass(frozen=True)
class Own:
    """What some weights learnt: a method, for descriptors of so many numbers."""

    method: Method
    dimension: int

    def check(self, dimension: int) -> None:
        """Refuse descriptors of another length."""
        if dimension != self.dimension:
            raise VergenceError(
                f"these weights expand descriptors of {self.dimension} numbers, those to expand have {dimension}; "
                "train on descriptors like these (vergence train lattqe --data pictures:DIR), or give --method alpha"
            )


@dataclass(frozen=True)
class _Asked:
    index: Index | Shards
    names: Sequence[str]
    queries: Tensor
    skipped: Sequence[str] = ()


def find_files(
    ctx: Context[Any, Any], extractor: Extractor, neighbours: int, own: Own | None, inputs: Inputs
) -> list[Artifact]:
    """A page of ranked results before and after expansion, the same as a table, and a summary."""
    learnt = own if inputs.method == "weights" else None
    if inputs.top < 1 or inputs.neighbours < 0:
        raise VergenceError(
            f"at least one result is shown, got --top {inputs.top} and --neighbours {inputs.neighbours}"
        )
    asked = _from_file(inputs, learnt) if inputs.descriptors else _from_pictures(ctx, extractor, inputs, learnt)
    method = learnt.method if learnt else CLASSIC[inputs.method]
    places = {name: place for place, name in enumerate(asked.index.names)}
    itself = torch.tensor([places.get(name, -1) for name in asked.names])
    most = len(asked.index) - 1 if bool((itself >= 0).any()) else len(asked.index)
    wanted = inputs.neighbours or neighbours
    if wanted > most:
        ctx.progress.say(f"the gallery gives {most} neighbours, not the {wanted} that were asked for: all are used")
        wanted = most
    own_places = itself if bool((itself >= 0).any()) else None
    better, weights, first = expanded(asked.index, asked.queries, method, wanted, own_places)
    lists = [_ranked(asked.index, q, itself, max(inputs.top, 100)) for q in (asked.queries, better)]
    answers = []
    for row, name in enumerate(asked.names):
        given = {asked.index.names[p]: float(w) for p, w in zip(first.places[row], weights[row, 1:], strict=True)}
        weighed = [page.Hit(n, 0.0, weight=w) for n, w in given.items()]
        before, after = ([replace(h, weight=given.get(h.name)) for h in found[row]] for found in lists)
        ranks = {hit.name: rank for rank, hit in enumerate(before, 1)}
        after = [replace(h, before=ranks.get(h.name)) for h in after][: inputs.top]
        answers.append((page.Answer(name, before[: inputs.top], after, weighed), float(weights[row, 0])))
    return _written(ctx, asked, answers, inputs, wanted)


def _from_file(inputs: Inputs, learnt: Own | None) -> _Asked:
    path = Path(inputs.descriptors).expanduser()
    found = read_descriptors(path)
    gallery, queries = matrix(found, "gallery", path), matrix(found, "queries", path)
    if gallery.shape[1] != queries.shape[1]:
        raise VergenceError(
            f"{path} mixes dimensions: its gallery has {gallery.shape[1]} numbers a row, its queries {queries.shape[1]}"
        )
    if learnt:
        learnt.check(gallery.shape[1])
    index = Index(gallery, tuple(f"gallery {i}" for i in range(len(gallery))), f"{path}", inputs.kind)
    return _Asked(index, [f"query {i}" for i in range(len(queries))], queries)


def _from_pictures(ctx: Context[Any, Any], extractor: Extractor, inputs: Inputs, learnt: Own | None) -> _Asked:
    if not inputs.query:
        raise VergenceError("nothing to find: give --query FILE..., or --descriptors FILE")
    if inputs.gallery is None and not inputs.index:
        raise VergenceError("nowhere to look: give --gallery DIR, or --index FILE of an earlier call")
    for path in inputs.query:
        if not path.is_file():
            raise VergenceError(f"{path} {'is a folder, not a picture' if path.is_dir() else 'does not exist'}")
    chosen = replace(extractor, backbone=inputs.backbone, weights="") if inputs.backbone else extractor
    if inputs.backbone_weights:
        chosen = replace(chosen, weights=inputs.backbone_weights)
    describer = Describer(chosen, ctx.device)
    if describer.note:
        ctx.progress.say(describer.note)
    index: Index | Shards
    skipped: tuple[str, ...] = ()
    queries = torch.stack([describer(read_image(path)) for path in inputs.query])
    if learnt:  # before a gallery of thousands is described
        learnt.check(queries.shape[1])
    if inputs.gallery is not None:
        index, skipped = gallery_index(ctx, describer, inputs.gallery, inputs.kind, inputs.index)
    elif Path(inputs.index).is_dir():
        index = Shards(Path(inputs.index), describer.made_by)
    else:
        index = Index.load(Path(inputs.index), describer.made_by)
    resolved = [str(path.resolve()) for path in inputs.query]
    return _Asked(index, resolved, normalised(queries, "queries"), skipped)


def gallery_index(
    ctx: Context[Any, Any], describer: Describer, folder: Path, kind: Kind, keep: str = ""
) -> tuple[Index | Shards, tuple[str, ...]]:
    """All pictures of a folder, kept in a file or in a folder of files; what cannot be read is named and left out."""
    if not folder.is_dir():
        raise VergenceError(f"{folder} is not a folder of pictures")
    paths = find_images(folder)
    if not paths:
        raise VergenceError(f"{folder} holds no pictures")
    skipped: list[str] = []

    def parts() -> Iterator[tuple[Tensor, list[str]]]:
        for path, found in described(describer, ctx.progress.track(paths, "gallery")):
            if isinstance(found, VergenceError):
                skipped.append(str(found))
                ctx.progress.say(f"skipped: {found}")
            else:
                yield normalised(found[None], str(path)), [str(path.resolve())]
        if len(skipped) == len(paths):
            raise VergenceError(f"{folder} holds no picture that can be read; the first problem: {skipped[0]}")

    index: Index | Shards
    if keep.endswith("/"):
        index = Shards.build(Path(keep), parts(), describer.made_by, kind)
    else:
        vectors, names = zip(*parts(), strict=True)
        index = Index(torch.cat(vectors), tuple(name for some in names for name in some), describer.made_by, kind)
        if keep:
            index.save(Path(keep))
    if keep:
        ctx.progress.say(f"the gallery is kept in {keep}")
    return index, tuple(skipped)


def distractors(source: str) -> Tensor:
    """Descriptors that are right for nobody."""
    path = Path(source).expanduser()
    return matrix(read_descriptors(path), "descriptors", path)


def _ranked(index: Index | Shards, queries: Tensor, itself: Tensor, count: int) -> list[list[page.Hit]]:
    far, places = index.search(queries, min(count + 1, len(index)))
    lists = []
    for row in range(len(queries)):
        kept = [
            (p, d) for p, d in zip(places[row].tolist(), far[row].tolist(), strict=True) if p not in (-1, itself[row])
        ]
        lists.append([page.Hit(index.names[p], 1 - d * d / 2) for p, d in kept][:count])
    return lists


def _written(
    ctx: Context[Any, Any], asked: _Asked, answers: Sequence[tuple[page.Answer, float]], inputs: Inputs, count: int
) -> list[Artifact]:
    note = (
        f"The best of {len(asked.index)} before and after expansion with {count} neighbours, by cosine. Green arrows "
        "say how many places a result has won, red ones how many it has lost; a weight is what it counted."
    )
    table = ctx.folder / "results.csv"
    with replacing(table) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "rank", "result", "similarity", "rank before", "weight"])
        for answer, _ in answers:
            for rank, hit in enumerate(answer.after, 1):
                weight = "" if hit.weight is None else f"{hit.weight:.6f}"
                writer.writerow([answer.name, rank, hit.name, f"{hit.similarity:.6f}", hit.before or "", weight])
    summary = ctx.folder / "summary.json"
    counts = {"gallery": len(asked.index), "queries": len(asked.names), "neighbours": count, "method": inputs.method}
    write_json(summary, counts | {"skipped": len(asked.skipped), "skipped_files": list(asked.skipped)})
    shown = page.write_page(ctx.folder / "results.html", "Search results", note, answers, asked.skipped)
    return [
        Artifact(
            "html", shown, "Ranked results of each query before and after expansion, and what neighbours counted."
        ),
        Artifact(
            "table", table, "The expanded ranking as a table: query, rank, result, similarity, rank before, weight."
        ),
        Artifact("json", summary, f"What was searched; {len(asked.skipped)} files could not be read and were skipped."),
    ]
