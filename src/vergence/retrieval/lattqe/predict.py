"""Searching a user's own files, with and without expansion: pictures of a folder, or a matrix of descriptors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import find_images, fitted, pictures_by_name
from vergence.drawing.grid import Panel, grid
from vergence.retrieval import page
from vergence.retrieval.describe import Describer, described, read_picture
from vergence.retrieval.lattqe.model import classic
from vergence.retrieval.lattqe.settings import Config, Facts, Inputs
from vergence.retrieval.layouts import matrix, read_descriptors
from vergence.retrieval.page import Answer, Hit
from vergence.retrieval.settings import Extractor
from vergence.search import Index, Shards
from vergence.search.expansion import Method, expanded, normalised
from vergence.search.index import Kind

Ctx = Context[Config, Facts]


@dataclass(frozen=True)
class Trained:
    """A trained method, and the dimension of the descriptors that it expands."""

    method: Method
    dimension: int

    def check(self, dimension: int) -> None:
        """Raises an error for descriptors of another dimension."""
        if dimension != self.dimension:
            raise VergenceError(
                f"these weights are for descriptors of {self.dimension} numbers, but these have {dimension}; "
                "train on descriptors like these (vergence train lattqe --data pictures:DIR), or give --method alpha"
            )


@dataclass(frozen=True)
class _Query:
    """A gallery, and queries (Q, D) with their names."""

    index: Index | Shards
    names: Sequence[str]
    queries: Tensor
    skipped: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Rankings(Result):
    """Search results before and after expansion."""

    answers: tuple[Answer, ...]
    """For each query its results before and after expansion, best first, and the weight of each neighbour."""
    gallery: int
    """The number of items that were searched."""
    neighbours: int
    """The number of neighbours used in the expansion."""
    method: str
    """The expansion method."""
    skipped: tuple[str, ...]
    """One sentence per file that could not be read."""

    def summary(self) -> Mapping[str, Any]:
        best = {
            Path(a.name).name: ", ".join(f"{Path(h.name).name} {h.similarity:.3f}" for h in a.after[:3])
            for a in self.answers
        }
        counts = {"gallery": self.gallery, "neighbours": self.neighbours, "method": self.method}
        return counts | ({"skipped": len(self.skipped)} if self.skipped else {}) | best


def search(ctx: Ctx, extractor: Extractor, neighbours: int, trained: Trained | None, inputs: Inputs) -> Rankings:
    """Search a user's gallery with and without expansion; without trained weights, by a classic method."""
    query = _from_file(inputs, trained) if inputs.descriptors else _from_pictures(ctx, extractor, inputs, trained)
    places = {name: place for place, name in enumerate(query.index.names)}
    itself = torch.tensor([places.get(name, -1) for name in query.names])
    inside = bool((itself >= 0).any())
    most = len(query.index) - inside
    wanted = inputs.neighbours or neighbours
    if wanted > most:
        ctx.progress.say(f"the gallery has only {most} neighbours, not the {wanted} asked for: all are used")
        wanted = most
    name = "alpha" if inputs.method == "auto" else inputs.method
    method = trained.method if trained else classic(name)
    better, counted, first = expanded(query.index, query.queries, method, wanted, itself if inside else None)
    lists = [_ranked(query.index, queries, itself, max(inputs.top, 100)) for queries in (query.queries, better)]
    answers = []
    for row, asked in enumerate(query.names):
        by_name = {query.index.names[p]: float(w) for p, w in zip(first.places[row], counted[row, 1:], strict=True)}
        weighed = [Hit(n, 0.0, weight=w) for n, w in by_name.items()]
        before, after = ([replace(h, weight=by_name.get(h.name)) for h in hits[row]] for hits in lists)
        ranks = {hit.name: rank for rank, hit in enumerate(before, 1)}
        after = [replace(h, before=ranks.get(h.name)) for h in after][: inputs.top]
        answers.append(Answer(asked, before[: inputs.top], after, weighed, float(counted[row, 0])))
    label = "the weights' own" if trained else name
    return Rankings(tuple(answers), len(query.index), wanted, label, tuple(query.skipped))


def _from_file(inputs: Inputs, trained: Trained | None) -> _Query:
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
    return _Query(index, [f"query {i}" for i in range(len(queries))], queries)


def _from_pictures(ctx: Ctx, extractor: Extractor, inputs: Inputs, trained: Trained | None) -> _Query:
    for path in inputs.query:
        if not path.is_file():
            raise VergenceError(f"{path} {'is a folder, not a picture' if path.is_dir() else 'does not exist'}")
    chosen = replace(extractor, backbone=inputs.backbone, weights="") if inputs.backbone else extractor
    if inputs.backbone_weights:
        chosen = replace(chosen, weights=inputs.backbone_weights)
    # All that can be refused is refused before a network is built.
    pictures = [read_picture(path, chosen) for path in inputs.query]
    paths = _pictures_in(inputs.gallery) if inputs.gallery is not None else []
    describer = Describer(chosen, ctx.device)
    if describer.note:
        ctx.progress.say(describer.note)
    index: Index | Shards
    skipped: tuple[str, ...] = ()
    queries = torch.stack([describer(picture) for picture in pictures])
    if trained:  # before a gallery of thousands is described
        trained.check(queries.shape[1])
    if inputs.gallery is not None:
        index, skipped = _gallery_index(ctx, describer, inputs.gallery, paths, inputs.kind, inputs.index)
    elif Path(inputs.index).is_dir():
        index = Shards(Path(inputs.index), describer.made_by)
    else:
        index = Index.load(Path(inputs.index), describer.made_by)
    resolved = [str(path.resolve()) for path in inputs.query]
    return _Query(index, resolved, normalised(queries, "queries"), skipped)


def _pictures_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise VergenceError(f"{folder} is not a folder of pictures")
    paths = find_images(folder)
    if not paths:
        raise VergenceError(f"{folder} holds no pictures")
    return paths


def _gallery_index(
    ctx: Ctx, describer: Describer, folder: Path, paths: Sequence[Path], kind: Kind, keep: str = ""
) -> tuple[Index | Shards, tuple[str, ...]]:
    """Indexes the pictures of a folder, saved to a file or a folder of files if ``keep`` is set; unreadable pictures
    are reported and left out."""
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


def _ranked(index: Index | Shards, queries: Tensor, itself: Tensor, count: int) -> list[list[Hit]]:
    far, places = index.search(queries, min(count + 1, len(index)))
    lists = []
    for row in range(len(queries)):
        kept = [
            (p, d) for p, d in zip(places[row].tolist(), far[row].tolist(), strict=True) if p not in (-1, itself[row])
        ]
        lists.append([Hit(index.names[p], 1 - d * d / 2) for p, d in kept][:count])
    return lists


def render(ctx: Ctx, inputs: Inputs, result: Rankings) -> list[Artifact]:
    """Writes the results before and after expansion as a page, a table and a picture, and a summary."""
    files = [*inputs.query, *(find_images(inputs.gallery) if inputs.gallery is not None else [])]
    picture = pictures_by_name(files, resolved=True)
    note = (
        f"The best of {result.gallery} before and after expansion with {result.neighbours} neighbours, by cosine. "
        "Green arrows say how many places a result has won, red ones how many it has lost."
    )
    heading = ["query", "rank", "result", "similarity", "rank before", "weight"]
    rows = (_row(answer.name, rank, hit) for answer in result.answers for rank, hit in enumerate(answer.after, 1))
    table = write_table(ctx.folder / "results.csv", heading, rows)
    summary = ctx.folder / "summary.json"
    counts = {"gallery": result.gallery, "queries": len(result.answers), "neighbours": result.neighbours}
    skipped = {"skipped": len(result.skipped), "skipped_files": list(result.skipped)}
    write_json(summary, counts | {"method": result.method} | skipped)
    shown = page.write_page(
        ctx.folder / "results.html", "Search results", note, result.answers, result.skipped, picture
    )
    return [
        Artifact(
            "html", shown, "Ranked results of each query before and after expansion, and the weights of its neighbours."
        ),
        *_strips(ctx.folder / "results.png", result.answers[:4], picture),
        Artifact(
            "table", table, "The expanded ranking as a table: query, rank, result, similarity, rank before, weight."
        ),
        Artifact(
            "json", summary, f"What was searched; {len(result.skipped)} files could not be read and were skipped."
        ),
    ]


def _strips(path: Path, answers: Sequence[Answer], picture: Callable[[str], Tensor | None]) -> list[Artifact]:
    """Two rows per query, before and after expansion; nothing if the input is descriptors instead of pictures."""
    rows = []
    for answer in answers:
        query = picture(answer.name)
        if query is None:
            return []
        for title, hits in (("before", answer.before), ("after", answer.after)):
            seen = [(hit, picture(hit.name)) for hit in hits[:6]]
            panels = [Panel(fitted(p, 256), f"{hit.similarity:.3f}") for hit, p in seen if p is not None]
            rows.append([Panel(fitted(query, 256), f"query, {title}"), *panels])
    caption = "Queries (left) and their best results, before and after expansion, with cosines."
    return [Artifact("image", grid(path, rows, side=1.5), caption)] if rows else []


def _row(query: str, rank: int, hit: Hit) -> list[str | int]:
    weight = "" if hit.weight is None else f"{hit.weight:.6f}"
    return [query, rank, hit.name, f"{hit.similarity:.6f}", hit.before or "", weight]
