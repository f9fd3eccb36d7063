"""Searching a user's own files, with and without expansion: pictures of a folder, or a matrix of descriptors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import find_images, read_image
from vergence.retrieval import page
from vergence.retrieval.describe import Describer, described
from vergence.retrieval.lattqe.model import classic
from vergence.retrieval.lattqe.settings import Config, Facts, Inputs
from vergence.retrieval.layouts import matrix, read_descriptors
from vergence.retrieval.settings import Extractor
from vergence.search import Index, Shards
from vergence.search.expansion import Method, expanded, normalised
from vergence.search.index import Kind

Ctx = Context[Config, Facts]


@dataclass(frozen=True)
class Trained:
    """The method of some weights, and the length of the descriptors that it expands."""

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
class _Search:
    """What to search: a gallery, and queries (Q, D) with their names."""

    index: Index | Shards
    names: Sequence[str]
    queries: Tensor
    skipped: Sequence[str] = ()


def search_files(
    ctx: Ctx, extractor: Extractor, neighbours: int, weights: Trained | None, inputs: Inputs
) -> list[Artifact]:
    """A page of ranked results before and after expansion, the same as a table, and a summary."""
    trained = weights if inputs.method == "weights" else None
    search = _from_file(inputs, trained) if inputs.descriptors else _from_pictures(ctx, extractor, inputs, trained)
    places = {name: place for place, name in enumerate(search.index.names)}
    itself = torch.tensor([places.get(name, -1) for name in search.names])
    inside = bool((itself >= 0).any())
    most = len(search.index) - inside
    wanted = inputs.neighbours or neighbours
    if wanted > most:
        ctx.progress.say(f"the gallery gives {most} neighbours, not the {wanted} that were asked for: all are used")
        wanted = most
    method = trained.method if trained else classic(inputs.method)
    better, counted, first = expanded(search.index, search.queries, method, wanted, itself if inside else None)
    lists = [_ranked(search.index, queries, itself, max(inputs.top, 100)) for queries in (search.queries, better)]
    answers = []
    for row, name in enumerate(search.names):
        by_name = {search.index.names[p]: float(w) for p, w in zip(first.places[row], counted[row, 1:], strict=True)}
        weighed = [page.Hit(n, 0.0, weight=w) for n, w in by_name.items()]
        before, after = ([replace(h, weight=by_name.get(h.name)) for h in hits[row]] for hits in lists)
        ranks = {hit.name: rank for rank, hit in enumerate(before, 1)}
        after = [replace(h, before=ranks.get(h.name)) for h in after][: inputs.top]
        answers.append((page.Answer(name, before[: inputs.top], after, weighed), float(counted[row, 0])))
    return _written(ctx, search, answers, inputs, wanted)


def _from_file(inputs: Inputs, trained: Trained | None) -> _Search:
    path = Path(inputs.descriptors).expanduser()
    arrays = read_descriptors(path)
    gallery, queries = matrix(arrays, "gallery", path), matrix(arrays, "queries", path)
    if gallery.shape[1] != queries.shape[1]:
        raise VergenceError(
            f"{path} mixes dimensions: its gallery has {gallery.shape[1]} numbers per row, its queries "
            f"{queries.shape[1]}"
        )
    if trained:
        trained.check(gallery.shape[1])
    index = Index(gallery, tuple(f"gallery {i}" for i in range(len(gallery))), f"{path}", inputs.kind)
    return _Search(index, [f"query {i}" for i in range(len(queries))], queries)


def _from_pictures(ctx: Ctx, extractor: Extractor, inputs: Inputs, trained: Trained | None) -> _Search:
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
    if trained:  # before a gallery of thousands is described
        trained.check(queries.shape[1])
    if inputs.gallery is not None:
        index, skipped = gallery_index(ctx, describer, inputs.gallery, inputs.kind, inputs.index)
    elif Path(inputs.index).is_dir():
        index = Shards(Path(inputs.index), describer.made_by)
    else:
        index = Index.load(Path(inputs.index), describer.made_by)
    resolved = [str(path.resolve()) for path in inputs.query]
    return _Search(index, resolved, normalised(queries, "queries"), skipped)


def gallery_index(
    ctx: Ctx, describer: Describer, folder: Path, kind: Kind, keep: str = ""
) -> tuple[Index | Shards, tuple[str, ...]]:
    """All pictures of a folder, kept in a file or in a folder of files; what cannot be read is named and left out."""
    if not folder.is_dir():
        raise VergenceError(f"{folder} is not a folder of pictures")
    paths = find_images(folder)
    if not paths:
        raise VergenceError(f"{folder} holds no pictures")
    skipped: list[str] = []

    def parts() -> Iterator[tuple[Tensor, list[str]]]:
        for path, descriptor in described(describer, ctx.progress.track(paths, "gallery")):
            if isinstance(descriptor, VergenceError):
                skipped.append(str(descriptor))
                ctx.progress.say(f"skipped: {descriptor}")
            else:
                yield normalised(descriptor[None], str(path)), [str(path.resolve())]
        if len(skipped) == len(paths):
            raise VergenceError(f"{folder} holds no picture that can be read; the first problem: {skipped[0]}")

    index: Index | Shards
    if keep.endswith("/"):
        index = Shards.build(Path(keep), parts(), describer.made_by, kind)
    else:
        vectors, names = zip(*parts(), strict=True)
        index = Index(torch.cat(vectors), tuple(name for part in names for name in part), describer.made_by, kind)
        if keep:
            index.save(Path(keep))
    if keep:
        ctx.progress.say(f"the gallery is kept in {keep}")
    return index, tuple(skipped)


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
    ctx: Ctx, search: _Search, answers: Sequence[tuple[page.Answer, float]], inputs: Inputs, count: int
) -> list[Artifact]:
    note = (
        f"The best of {len(search.index)} before and after expansion with {count} neighbours, by cosine. Green arrows "
        "say how many places a result has won, red ones how many it has lost; a weight is what it counted."
    )
    heading = ["query", "rank", "result", "similarity", "rank before", "weight"]
    rows = (_row(answer.name, rank, hit) for answer, _ in answers for rank, hit in enumerate(answer.after, 1))
    table = write_table(ctx.folder / "results.csv", heading, rows)
    summary = ctx.folder / "summary.json"
    counts = {"gallery": len(search.index), "queries": len(search.names), "neighbours": count, "method": inputs.method}
    write_json(summary, counts | {"skipped": len(search.skipped), "skipped_files": list(search.skipped)})
    shown = page.write_page(ctx.folder / "results.html", "Search results", note, answers, search.skipped)
    return [
        Artifact(
            "html", shown, "Ranked results of each query before and after expansion, and what neighbours counted."
        ),
        Artifact(
            "table", table, "The expanded ranking as a table: query, rank, result, similarity, rank before, weight."
        ),
        Artifact(
            "json", summary, f"What was searched; {len(search.skipped)} files could not be read and were skipped."
        ),
    ]


def _row(query: str, rank: int, hit: page.Hit) -> list[str | int]:
    weight = "" if hit.weight is None else f"{hit.weight:.6f}"
    return [query, rank, hit.name, f"{hit.similarity:.6f}", hit.before or "", weight]
