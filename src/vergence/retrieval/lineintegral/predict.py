"""Searching a user's own shapes: masks, or photographs that are binarised first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.contract.settings import NoFacts
from vergence.core.errors import Cancelled, VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import find_images, read_image
from vergence.drawing.grid import Panel, grid
from vergence.drawing.inline import thumbnail
from vergence.drawing.page import write_page
from vergence.retrieval.lineintegral.model import describe, scales, shown
from vergence.retrieval.lineintegral.pictures import descriptor_map, ink, stacked
from vergence.retrieval.lineintegral.settings import METHODS, Config, Inputs, ModelConfig
from vergence.retrieval.masks import Binarised, read_shape
from vergence.search import Index

Ctx = Context[Config, NoFacts]


@dataclass(frozen=True)
class Hit:
    """One result: its name, and the L1 distance of its descriptor from the query's."""

    name: str
    distance: float


@dataclass(frozen=True)
class Answer:
    """A query and its results, nearest first."""

    name: str
    hits: tuple[Hit, ...]
    photograph: bool
    """Whether the query was binarised by Otsu's threshold, and cleaned of specks."""


@dataclass(frozen=True, eq=False)
class Rankings(Result):
    """Shapes of a gallery, ranked for each query."""

    answers: tuple[Answer, ...]
    """For each query its results, nearest first."""
    gallery: int
    """The number of shapes that were searched."""
    method: str
    """The descriptor."""
    descriptors: Tensor
    """The descriptors of the queries (Q, D); for the line integral transform D is 18 x 90."""
    masks: tuple[Tensor, ...]
    """The shape of each query, (H, W) of booleans."""
    skipped: tuple[str, ...]
    """One sentence per file that could not be read, or that holds no shape."""

    def summary(self) -> Mapping[str, Any]:
        best = {
            Path(answer.name).name: ", ".join(f"{Path(h.name).name} {h.distance:.3g}" for h in answer.hits[:3])
            for answer in self.answers
        }
        counts = {"gallery": self.gallery, "descriptor": self.method}
        return counts | ({"skipped": len(self.skipped)} if self.skipped else {}) | best


def search(ctx: Ctx, inputs: Inputs) -> Rankings:
    """Rank a gallery for every query."""
    config = replace(ModelConfig(), method=inputs.method)
    for path in inputs.query:
        if not path.is_file():
            raise VergenceError(f"{path} {'is a folder, not a picture' if path.is_dir() else 'does not exist'}")
    shapes = [read_shape(path, inputs.foreground) for path in inputs.query]
    queries = torch.stack([describe(shape.mask.to(ctx.device), config).cpu() for shape in shapes])
    index, skipped = _gallery(ctx, inputs, config)
    scale = scales(config.method, index.descriptors)
    if bool((scale != 1).any()):
        index = replace(index, descriptors=index.descriptors / scale)
    names = [str(path.resolve()) for path in inputs.query]
    far, places = index.search(queries / scale, min(inputs.top + 1, len(index)))  # one more: the query itself
    answers = []
    for name, shape, distances, found in zip(names, shapes, far.tolist(), places.tolist(), strict=True):
        hits = [Hit(index.names[p], d) for p, d in zip(found, distances, strict=True) if index.names[p] != name]
        answers.append(Answer(name, tuple(hits[: inputs.top]), shape.photograph))
    label = METHODS[config.method]
    return Rankings(tuple(answers), len(index), label, queries, tuple(s.mask for s in shapes), skipped)


def _gallery(ctx: Ctx, inputs: Inputs, config: ModelConfig) -> tuple[Index, tuple[str, ...]]:
    """The descriptors of the gallery: of its pictures, or as an earlier call kept them."""
    made_by = f"lineintegral {config} {inputs.foreground}"
    if inputs.gallery is None:
        return Index.load(Path(inputs.index).expanduser(), made_by), ()
    folder = inputs.gallery
    if not folder.is_dir():
        raise VergenceError(f"{folder} is not a folder of pictures")
    paths = find_images(folder)
    if not paths:
        raise VergenceError(f"{folder} holds no pictures")
    skipped: list[str] = []
    rows = list(_described(ctx, paths, inputs, config, skipped))
    if not rows:
        raise VergenceError(f"{folder} holds no shape that can be read; the first problem: {skipped[0]}")
    names = tuple(name for name, _ in rows)
    index = Index(torch.stack([row for _, row in rows]), names, made_by, metric="l1")
    if inputs.index:
        index.save(Path(inputs.index).expanduser())
        ctx.progress.say(f"the gallery is kept in {inputs.index}")
    return index, tuple(skipped)


def _described(
    ctx: Ctx, paths: Sequence[Path], inputs: Inputs, config: ModelConfig, skipped: list[str]
) -> Iterator[tuple[str, Tensor]]:
    for path in ctx.progress.track(paths, "gallery"):
        if ctx.cancelled():
            raise Cancelled("cancelled")
        try:
            mask = read_shape(path, inputs.foreground).mask
        except VergenceError as error:
            skipped.append(str(error))
            ctx.progress.say(f"skipped: {error}")
            continue
        yield str(path.resolve()), describe(mask.to(ctx.device), config).cpu()


# Files ----------------------------------------------------------------------------------------------------------------

_STYLE = """
.query figure { width: 11rem; } .row figure { width: 11rem; margin-bottom: .6rem; }
.pair { display: flex; gap: 4px; margin-top: 4px; } .row figure .pair img { width: calc(50% - 2px); }
.key { display: flex; justify-content: space-between; font-size: .65rem; color: #777; }
"""
_BODY = """
{% if skipped %}<p><b>{{ skipped|length }} files were skipped:</b></p><ul>
{% for why in skipped %}<li>{{ why }}</li>{% endfor %}</ul>{% endif %}
{% for answer in answers %}
<h2 title="{{ answer.name }}">{{ answer.short }}</h2>
<ol class="row query">{% if answer.picture %}
<li><figure><img src="{{ answer.picture }}" alt="the photograph"><figcaption>the picture</figcaption></figure></li>
{% endif %}<li><figure><img src="{{ answer.mask }}" alt="its shape"><figcaption><b>query</b>{{ answer.how }}
</figcaption></figure></li></ol>
<h3>Nearest shapes</h3><ol class="row">{% for hit in answer.hits %}
<li><figure>{% if hit.mask %}<img src="{{ hit.mask }}" alt="{{ hit.name }}">
{% else %}<div class="gone"></div>{% endif %}
{% if hit.map %}<div class="pair"><img src="{{ answer.map }}" alt="the query's descriptor">
<img src="{{ hit.map }}" alt="the descriptor of {{ hit.name }}"></div>
<div class="key"><span>query</span><span>this shape</span></div>{% endif %}
<figcaption><b>{{ loop.index }}. {{ hit.distance }}</b><br>
<span title="{{ hit.name }}">{{ hit.short }}</span></figcaption></figure></li>{% endfor %}</ol>
{% endfor %}
"""


@dataclass(frozen=True)
class _Drawn:
    """The picture of a shape and of its descriptor; None for a file that is gone."""

    mask: Tensor | None
    map: Tensor | None


def render(ctx: Ctx, inputs: Inputs, result: Rankings) -> list[Artifact]:
    """Writes the ranked shapes as a page, a picture and a table; the queries' masks, and a summary."""
    config = replace(ModelConfig(), method=inputs.method)
    files = [*inputs.query, *(find_images(inputs.gallery) if inputs.gallery is not None else [])]
    paths = {str(path.resolve()): path for path in files}
    drawn: dict[str, list[_Drawn]] = {}
    for answer, mask, descriptor in zip(result.answers, result.masks, result.descriptors, strict=True):
        most = float(shown(descriptor, config).abs().quantile(0.98))
        drawn[answer.name] = [
            _Drawn(ink(mask), descriptor_map(shown(descriptor, config), most)),
            *(_of_file(paths.get(hit.name, Path(hit.name)), inputs, config, most) for hit in answer.hits),
        ]
    heading = ["query", "rank", "result", "distance"]
    rows = [(a.name, rank, h.name, f"{h.distance:.6g}") for a in result.answers for rank, h in enumerate(a.hits, 1)]
    table = write_table(ctx.folder / "results.csv", heading, rows)
    summary = ctx.folder / "summary.json"
    counts = {"gallery": result.gallery, "queries": len(result.answers), "descriptor": result.method}
    write_json(summary, counts | {"skipped": len(result.skipped), "skipped_files": list(result.skipped)})
    note = (
        f"The nearest of {result.gallery} shapes by the L1 distance of their descriptors ({result.method}). Below each "
        "shape the query's descriptor and its own: rows from the centre line to the border, frequencies to the right."
    )
    page = write_page(
        ctx.folder / "results.html", "Shapes found", note, _BODY, _STYLE, skipped=result.skipped,
        answers=[_entry(answer, drawn[answer.name], paths) for answer in result.answers],
    )  # fmt: skip
    return [
        Artifact("html", page, "Ranked shapes of each query, with its descriptor and theirs beside each other."),
        _strips(ctx.folder / "results.png", result.answers[:4], drawn),
        Artifact("table", table, "The rankings as a table: query, rank, result, distance."),
        _masks(ctx.folder / "masks", result),
        Artifact("json", summary, f"What was searched; {len(result.skipped)} files were skipped."),
    ]


def _of_file(path: Path, inputs: Inputs, config: ModelConfig, most: float) -> _Drawn:
    """A result, drawn anew from its file: a gallery may hold more masks than memory."""
    try:
        shape: Binarised = read_shape(path, inputs.foreground)
    except VergenceError:  # an index outlives its files
        return _Drawn(None, None)
    return _Drawn(ink(shape.mask), descriptor_map(shown(describe(shape.mask, config), config), most))


def _entry(answer: Answer, drawn: Sequence[_Drawn], paths: Mapping[str, Path]) -> dict[str, Any]:
    """Template values of a query."""
    query, *hits = drawn

    def uri(picture: Tensor | None, height: int = 220) -> str:
        return "" if picture is None else thumbnail(picture, height, 330)

    def card(hit: Hit, its: _Drawn) -> dict[str, str]:
        texts = {"name": hit.name, "short": Path(hit.name).name, "distance": f"{hit.distance:.3g}"}
        return texts | {"mask": uri(its.mask), "map": uri(its.map, 144)}

    return {
        "name": answer.name,
        "short": Path(answer.name).name,
        "picture": uri(read_image(paths[answer.name])) if answer.photograph else "",
        "mask": uri(query.mask),
        "map": uri(query.map, 144),
        "how": ", binarised by Otsu's threshold" if answer.photograph else "",
        "hits": [card(hit, its) for hit, its in zip(answer.hits, hits, strict=True)],
    }


def _strips(path: Path, answers: Sequence[Answer], drawn: Mapping[str, Sequence[_Drawn]]) -> Artifact:
    """One row per query: shapes, and below each its descriptor."""
    rows = []
    for answer in answers:
        titles = ["query", *(f"{hit.distance:.3g}" for hit in answer.hits)]
        whole = zip(titles, drawn[answer.name], strict=True)
        panels = [Panel(stacked(d.mask, d.map), t) for t, d in whole if d.mask is not None and d.map is not None]
        rows.append(panels[:7])
    caption = "Queries (left) and their nearest shapes with distances; below each shape its descriptor."
    return Artifact("image", grid(path, rows, side=1.5), caption)


def _masks(folder: Path, result: Rankings) -> Artifact:
    folder.mkdir()
    for number, (answer, mask) in enumerate(zip(result.answers, result.masks, strict=True), 1):
        pixels = mask.cpu().numpy().astype(np.uint8) * 255
        Image.fromarray(pixels).save(folder / f"{number:03d}-{Path(answer.name).stem}.png")
    return Artifact("folder", folder, "The shape that was found in each query, white on black.")
