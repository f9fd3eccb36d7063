"""Searching a user's cut-outs for those that fit a box in a picture, and the pictures that result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact, InMemory
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import find_images, read_image
from vergence.drawing.masks import write_picture
from vergence.reading.tables import read_records
from vergence.retrieval.cutouts import pasted, read_cutout
from vergence.retrieval.foregrounds import Box, shown_cutout, shown_query
from vergence.retrieval.fos_protocol import pattern_embeddings
from vergence.retrieval.fosearch import pictures
from vergence.retrieval.fosearch.model import FOSearch
from vergence.retrieval.fosearch.settings import Config, Facts, Inputs, Pictures
from vergence.search import Index
from vergence.search.index import descriptors_by

Ctx = Context[Config, Facts]
AT_ONCE = 32
"""Batch size."""
LONGEST = 2048
"""Pictures are reduced to about this many pixels while they are read."""
COMPOSED = 24
"""Results that are pasted into the picture, at most."""
PATTERNS, MEMBERS = 3, 3
"""Patterns that are shown, and cut-outs of each."""


@dataclass(frozen=True)
class Hit:
    """A cut-out of the gallery."""

    name: str
    """Its file."""
    similarity: float
    """Cosine with the query."""
    pattern: str
    """The pattern that it belongs to; empty if it is not known."""


@dataclass(frozen=True)
class Group:
    """A pattern of the gallery."""

    name: str
    similarity: float
    """Cosine of its centroid with the query."""
    members: int
    """Cut-outs of the gallery that belong to it."""
    best: tuple[Hit, ...]
    """Its best cut-outs."""


@dataclass(frozen=True, eq=False)
class Fits(Result):
    """Cut-outs that fit, best first."""

    hits: tuple[Hit, ...]
    """The best cut-outs: instance search."""
    patterns: tuple[Group, ...]
    """The best patterns, each with its best cut-outs: pattern search."""
    composites: tuple[Tensor, ...]
    """The picture with each of the first 24 hits in the box, (3, H, W) of bytes."""
    background: Tensor
    """The picture itself, (3, H, W) of bytes."""
    box: tuple[float, float, float, float]
    """Left, top, width and height in its pixels."""
    searched: int
    """The number of cut-outs in the gallery."""
    skipped: tuple[str, ...]
    """One sentence per file that could not be used."""

    def summary(self) -> Mapping[str, Any]:
        best = {
            f"{n}.": f"{Path(h.name).name}  {h.similarity:.3f}  {h.pattern}" for n, h in enumerate(self.hits[:5], 1)
        }
        return {"searched": self.searched} | ({"skipped": len(self.skipped)} if self.skipped else {}) | best


@dataclass(frozen=True)
class _Gallery:
    """An index of unit embeddings, the pattern of each cut-out, and how to read one by its name."""

    index: Index
    patterns: Sequence[str]
    read: Callable[[str], Tensor]
    skipped: tuple[str, ...] = ()
    gone: frozenset[int] = frozenset()
    """Places of cut-outs in a kept index whose files are no longer there."""


def search(ctx: Ctx, model: FOSearch, inputs: Inputs) -> Fits:
    """Rank the cut-outs of a gallery, and its patterns, for a box in a picture."""
    background, box = _query(ctx, inputs)
    paths = _files(inputs.gallery) if inputs.gallery is not None else []
    gallery = _opened(ctx, model, inputs, paths)
    query = _embedded_query(ctx, model, background, box, inputs.background)
    _, places = gallery.index.search(query, min(inputs.top + len(gallery.gone), len(gallery.index)))
    present = [place for place in places[0].tolist() if place >= 0 and place not in gallery.gone][: inputs.top]
    hits = tuple(_hit(gallery, place, query) for place in present)
    shown = tuple(pasted(background, gallery.read(hit.name), box) for hit in hits[:COMPOSED])
    searched = len(gallery.index) - len(gallery.gone)
    return Fits(hits, _groups(gallery, query), shown, background, box, searched, gallery.skipped)


def _query(ctx: Ctx, inputs: Inputs) -> tuple[Tensor, Box]:
    """The picture and the box in it, cut at the picture's borders."""
    assert inputs.background is not None
    whole = read_image(inputs.background)
    high, wide = whole.shape[-2:]
    x, y, w, h = (float(value) for value in inputs.box[0])
    if not all(map(math.isfinite, (x, y, w, h))) or w < 1 or h < 1:
        raise VergenceError(
            f"the box {_text((x, y, w, h))} is {w:g} x {h:g} pixels: expected a width and a height of at least 1"
        )
    left, top, right, bottom = max(x, 0.0), max(y, 0.0), min(x + w, float(wide)), min(y + h, float(high))
    if right - left < 1 or bottom - top < 1:
        raise VergenceError(
            f"the box {_text((x, y, w, h))} is outside {inputs.background}, which is {wide} x {high} pixels"
        )
    if (left, top, right, bottom) != (x, y, x + w, y + h):
        ctx.progress.say(f"the box reaches beyond {inputs.background} and is cut at its border")
    if float(whole.float().flatten(1).std(1).max()) < 1:
        ctx.progress.say(f"{inputs.background} has one colour: there is nothing in it but the box to go by")
    share = max(max(high, wide) / LONGEST, 1.0)
    small = whole if share == 1 else read_image(inputs.background, LONGEST)
    share = small.shape[-1] / wide
    return small, (left * share, top * share, (right - left) * share, (bottom - top) * share)


def _text(box: Sequence[float]) -> str:
    return ",".join(f"{value:g}" for value in box)


def _embedded_query(ctx: Ctx, model: FOSearch, background: Tensor, box: Box, name: Path | None) -> Tensor:
    shown, layout = shown_query(ctx.config.data, background, box)
    query = model.query(ctx.to_device(shown[None]), ctx.to_device(layout[None])).float().cpu()
    if not query.isfinite().all() or float(query.norm()) < 1e-12:
        raise VergenceError(f"these weights make nothing of {name} with this box: its embedding has no direction")
    return F.normalize(query, dim=1)


# The gallery ----------------------------------------------------------------------------------------------------------


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise VergenceError(f"{folder} is not a folder of cut-outs")
    paths = find_images(folder)
    if not paths:
        raise VergenceError(f"{folder} holds no pictures")
    return paths


def _opened(ctx: Ctx, model: FOSearch, inputs: Inputs, paths: Sequence[Path]) -> _Gallery:
    view = ctx.config.data
    made_by = f"fosearch {descriptors_by(list(model.foreground.state_dict().values()))} {view.size}"
    known = {str(path.resolve()): path for path in paths}

    def read(name: str) -> Tensor:
        return read_cutout(known.get(name, Path(name)), LONGEST)

    if inputs.gallery is None:
        return _kept(ctx, model, Path(inputs.index), made_by, read)
    named = _table(inputs.gallery, paths)
    skipped: list[str] = []
    embeddings, names = [torch.zeros(0, model.foreground.outputs)], []
    for batch, some in _batches(ctx, paths, view, skipped):
        embeddings.append(model.foreground(ctx.to_device(batch)).float().cpu())
        names += [str(path.resolve()) for path in some]
    if not names:
        raise VergenceError(f"{inputs.gallery} holds no cut-out that can be used; the first problem: {skipped[0]}")
    index = Index(F.normalize(torch.cat(embeddings), dim=1), tuple(names), made_by, inputs.kind)
    if inputs.index:
        index.save(Path(inputs.index))
        ctx.progress.say(f"the gallery is kept in {inputs.index}")
    patterns = [named[name] for name in names] if named else _named(ctx, model, index.descriptors)
    return _Gallery(index, patterns, read, tuple(skipped))


def _kept(ctx: Ctx, model: FOSearch, path: Path, made_by: str, read: Callable[[str], Tensor]) -> _Gallery:
    """A gallery from the index of an earlier call. Files that are gone are left out; newer ones are told."""
    index = Index.load(path, made_by)
    files = [Path(name) for name in index.names]
    gone = frozenset(place for place, file in enumerate(files) if not file.is_file())
    if len(gone) == len(files):
        raise VergenceError(f"none of the {len(files)} cut-outs of {path} is still there; the first was {files[0]}")
    skipped = tuple(f"{files[place]} is in {path}, but its file is gone" for place in sorted(gone))
    since = path.stat().st_mtime
    newer = sum(file.stat().st_mtime > since for place, file in enumerate(files) if place not in gone)
    for what in (*skipped, *([f"{newer} files are newer than {path}: give --gallery too to renew it"] * bool(newer))):
        ctx.progress.say(what)
    root = Path(os.path.commonpath([file.parent for file in files]))
    named = _table(root, [file for place, file in enumerate(files) if place not in gone])
    patterns = [named.get(str(file), "") for file in files] if named else _named(ctx, model, index.descriptors)
    return _Gallery(index, patterns, read, skipped, gone)


def _batches(
    ctx: Ctx, paths: Sequence[Path], view: Pictures, skipped: list[str]
) -> Iterator[tuple[Tensor, list[Path]]]:
    """Batches of cut-outs as the network sees them; files that cannot be used are reported and left out."""
    shown, some = [], []
    for number, path in enumerate(ctx.progress.track(paths, "gallery"), 1):
        try:
            shown.append(shown_cutout(view, read_cutout(path, 4 * view.size)))
            some.append(path)
        except VergenceError as error:
            skipped.append(str(error))
            ctx.progress.say(f"skipped: {error}")
        if some and (len(some) == AT_ONCE or number == len(paths)):
            yield torch.stack(shown), some
            shown, some = [], []


def _table(folder: Path, paths: Sequence[Path]) -> dict[str, str]:
    """Patterns by resolved name from ``patterns.csv`` in the gallery, if there is one."""
    if isinstance(folder, InMemory) or not (table := folder / "patterns.csv").is_file():
        return {}
    rows = read_records(table, ("file",), "a table of patterns")
    texts = {row["file"]: ", ".join(v.strip() for k, v in row.items() if k != "file" and v.strip()) for row in rows}
    names = {str(path.resolve()): path.relative_to(folder).as_posix() for path in paths}
    if not any(name in texts for name in names.values()):
        raise VergenceError(
            f"{table} names none of the pictures beside it: expected rows like {next(iter(names.values()))},..."
        )
    return {path: texts.get(name, "") for path, name in names.items()}


def _named(ctx: Ctx, model: FOSearch, embeddings: Tensor) -> list[str]:
    """The pattern whose centre is nearest to each embedding (N, D), by cosine; none if the model learned none."""
    centres = model.centre_loss.centres.float().cpu()
    if not bool(centres.any()):
        return [""] * len(embeddings)
    names = ctx.facts.names or tuple(f"pattern {n}" for n in range(len(centres)))
    units = F.normalize(centres, dim=1)
    places = torch.cat([(part @ units.mT).argmax(1) for part in embeddings.split(8192)])
    return [names[place] for place in places.tolist()]


def _hit(gallery: _Gallery, place: int, query: Tensor) -> Hit:
    similarity = float(gallery.index.vectors(torch.tensor([place]))[0] @ query[0])
    return Hit(gallery.index.names[place], similarity, gallery.patterns[place])


def _groups(gallery: _Gallery, query: Tensor) -> tuple[Group, ...]:
    """The patterns whose centroids are nearest to the query, with the best cut-outs of each."""
    kinds = sorted({name for place, name in enumerate(gallery.patterns) if name and place not in gallery.gone})
    if not kinds:
        return ()
    places = {name: number for number, name in enumerate(kinds)}
    numbers = torch.tensor([places.get(name, -1) for name in gallery.patterns])
    numbers[list(gallery.gone)] = -1
    known = (numbers >= 0).nonzero()[:, 0]
    vectors = gallery.index.vectors(known)
    centroids, present = pattern_embeddings(vectors, numbers[known])
    near = centroids @ query[0]
    groups = []
    for best in near.argsort(descending=True, stable=True)[:PATTERNS].tolist():
        own = known[numbers[known] == present[best]]
        order = (gallery.index.vectors(own) @ query[0]).argsort(descending=True, stable=True)[:MEMBERS]
        hits = tuple(_hit(gallery, place, query) for place in own[order].tolist())
        groups.append(Group(kinds[int(present[best])], float(near[best]), len(own), hits))
    return tuple(groups)


# Files ----------------------------------------------------------------------------------------------------------------


def render(ctx: Ctx, inputs: Inputs, result: Fits) -> list[Artifact]:
    """Write a page, a picture, the composites, and the ranking as a table and as JSON."""
    known = {str(p.resolve()): p for p in (find_images(inputs.gallery) if inputs.gallery is not None else [])}

    def cutout(name: str) -> Tensor:
        return read_cutout(known.get(name, Path(name)), LONGEST)

    folder = ctx.folder / "composites"
    folder.mkdir(parents=True, exist_ok=True)
    for number, picture in enumerate(result.composites, 1):
        write_picture(folder / f"{number:02d}.png", picture)
    rows = [[n, h.name, f"{h.similarity:.6f}", h.pattern] for n, h in enumerate(result.hits, 1)]
    table = write_table(ctx.folder / "results.csv", ["rank", "cut-out", "similarity", "pattern"], rows)
    summary = ctx.folder / "results.json"
    plain = result.to_json()
    write_json(summary, {key: plain[key] for key in ("box", "searched", "skipped", "hits", "patterns")})
    page = pictures.page(ctx.folder / "results.html", result, cutout)
    sheet = pictures.sheet(ctx.folder / "results.png", result)
    return [
        Artifact("html", page, "The best cut-outs in the picture, ranked, and the best patterns with their cut-outs."),
        Artifact("image", sheet, "The picture with its box, and the best cut-outs in it with their patterns."),
        *([Artifact("folder", folder, "The picture with each of the best cut-outs.")] if result.composites else []),
        Artifact("table", table, "The ranking: rank, cut-out, cosine and pattern."),
        Artifact("json", summary, f"Ranking and patterns as data; files not used: {len(result.skipped)}."),
    ]
