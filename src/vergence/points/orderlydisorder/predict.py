"""Prediction on a user's cloud or mesh: its class with scores, or the part of every point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError, did_you_mean
from vergence.core.files import write_json, write_table
from vergence.core.seeding import generator
from vergence.data.clouds import write_ply
from vergence.data.meshes import read_surface
from vergence.drawing.figure import BLUE, figure, saved
from vergence.drawing.viewer import Layer, page
from vergence.ops.knn import nearest
from vergence.points.labelled import class_layers, draw_object, objects_picture
from vergence.points.orderlydisorder.model import Network, decompose
from vergence.points.orderlydisorder.settings import Config, Inputs
from vergence.points.shapedata import normalised, random_rows
from vergence.points.shapes import ShapeFacts

Ctx = Context[Config, ShapeFacts]
SURFACE = 8192
"""Points sampled on the faces of a mesh."""
LEAST = 16
"""Points that a cloud must have."""
COLOURS = (
    (59, 111, 182), (224, 138, 44), (47, 158, 99), (178, 58, 72), (122, 81, 149), (88, 169, 196), (150, 150, 60),
    (214, 110, 160),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Recognised(Result):
    """What an object is, or what its points belong to."""

    label: str
    """The likeliest class; for parts, the category whose parts they are."""
    score: float
    """Its probability; for parts, the mean probability of the parts that were chosen."""
    scores: Mapping[str, float]
    """Probabilities of all classes, the likeliest first; for parts, the share of points of each part."""
    agreement: float
    """Share of the random decompositions that agree with the result; for parts, the mean over points."""
    points: Tensor
    """The cloud, (P, 3) in the unit and axes of the input; of a mesh, points sampled on its faces."""
    parts: Tensor
    """The part of each point (P,), as an index into ``part_names``; all 0 for a classifier."""
    part_names: tuple[str, ...]
    """Names of the parts; empty for a classifier."""

    def summary(self) -> Mapping[str, Any]:
        shown = {name: f"{value:.1%}" for name, value in list(self.scores.items())[:4]}
        return {"class": self.label, "points": len(self.points), **shown}


def decomposed(model: Network, points: Tensor, category: Tensor, source: torch.Generator) -> dict[str, Tensor]:
    """The network's output for clouds (B, M, 3), each with a random decomposition of its own."""
    settings = model.settings
    split = None
    if settings.network == "pattern":
        split = decompose(len(points), points.shape[1], settings.clones, source, points.device)
        split = split[:, :1] if settings.alone else split
    out: dict[str, Tensor] = model(points, split, category)
    return out


def recognise(ctx: Ctx, model: Network, inputs: Inputs) -> Recognised:
    """Sample as many points as the weights were trained with, once for each vote, and average the scores."""
    points = read_surface(inputs.cloud, SURFACE, generator("surface"))
    clones = ctx.config.model.clones
    if len(points) < max(LEAST, 2 * clones):
        raise VergenceError(
            f"{inputs.cloud} has {len(points)} points: expected at least {max(LEAST, 2 * clones)} of one object"
        )
    upright = points if inputs.axes == "camera" else points[:, [1, 2, 0]]
    cloud = normalised(upright)
    if float(cloud.norm(dim=1).max()) < 0.5:
        raise VergenceError(f"{inputs.cloud} has all of its {len(points)} points in one place: expected an object")
    count = min(ctx.config.data.points, len(cloud))
    rows = [random_rows(len(cloud), count, generator("vote", vote)) for vote in range(inputs.votes)]
    batch = ctx.to_device(torch.stack([cloud[some] for some in rows]))
    return (_parts if ctx.facts.parts else _class)(ctx, model, inputs, points, batch, rows)


def _class(
    ctx: Ctx, model: Network, inputs: Inputs, points: Tensor, batch: Tensor, rows: Sequence[Tensor]
) -> Recognised:
    if inputs.category:
        raise VergenceError("--category is for weights that segment parts, and these classify")
    category = torch.zeros(len(batch), dtype=torch.long, device=batch.device)
    probabilities = decomposed(model, batch, category, ctx.generator)["logits"].float().softmax(1).cpu()
    mean = probabilities.mean(0)
    best = int(mean.argmax())
    order = mean.argsort(descending=True).tolist()
    return Recognised(
        ctx.facts.name(best),
        float(mean[best]),
        {ctx.facts.name(number): float(mean[number]) for number in order},
        float((probabilities.argmax(1) == best).double().mean()),
        points,
        torch.zeros(len(points), dtype=torch.long),
        (),
    )


def _parts(
    ctx: Ctx, model: Network, inputs: Inputs, points: Tensor, batch: Tensor, rows: Sequence[Tensor]
) -> Recognised:
    """Scores of the sampled points, averaged over the votes that saw them; the others take the part of the nearest."""
    chosen = _categories(ctx.facts, inputs.category)
    best: tuple[float, int, Tensor, Tensor] | None = None
    for label in chosen:
        first, count = ctx.facts.first_parts[label], ctx.facts.parts[label]
        category = torch.full((len(batch),), label, device=batch.device)
        logits = decomposed(model, batch, category, ctx.generator)["logits"].float().cpu()
        scores = logits.softmax(2)[:, :, first : first + count]
        confidence = float(scores.amax(2).mean())
        if best is None or confidence > best[0]:
            best = confidence, label, scores, logits
    assert best is not None
    confidence, label, scores, _ = best
    total = torch.zeros(len(points), scores.shape[2])
    for some, vote in zip(rows, scores, strict=True):
        total.index_add_(0, some, vote)
    seen = total.sum(1) > 0
    parts = total.argmax(1)
    agree = [float((vote.argmax(1) == parts[some]).double().mean()) for some, vote in zip(rows, scores, strict=True)]
    if not bool(seen.all()):
        near = nearest(points[seen][None], 1, points[~seen][None])[0, :, 0]
        parts[~seen] = parts[seen][near]
    first = ctx.facts.first_parts[label]
    own = tuple(ctx.facts.part_name(first + number) for number in range(scores.shape[2]))
    shares = {name: float((parts == number).double().mean()) for number, name in enumerate(own)}
    return Recognised(ctx.facts.name(label), confidence, shares, sum(agree) / len(agree), points, parts, own)


def _categories(facts: ShapeFacts, asked: str) -> Sequence[int]:
    if not asked:
        return range(facts.classes)
    by_name = {facts.name(number).lower(): number for number in range(facts.classes)}
    if asked.lower() not in by_name:
        raise VergenceError(f"the weights know no category {asked!r}{did_you_mean(asked.lower(), by_name)}")
    return [by_name[asked.lower()]]


def render(ctx: Ctx, inputs: Inputs, result: Recognised) -> Sequence[Artifact]:
    """Writes scores, the cloud (with its parts), a page in which it can be turned, and a picture."""
    stem = inputs.cloud.stem
    written: dict[str, Any] = {
        "label": result.label, "score": result.score, "scores": dict(result.scores), "agreement": result.agreement,
        "points": len(result.points), "votes": inputs.votes,
    }  # fmt: skip
    write_json(ctx.folder / f"{stem}.json", written)
    what = "part" if result.part_names else "class"
    value = "share of points" if result.part_names else "probability"
    rows = [(name, f"{score:.6f}") for name, score in result.scores.items()]
    table = write_table(ctx.folder / f"{stem}.csv", (what, value.replace(" ", "_")), rows)
    title = f"{result.label} {result.score:.0%}"
    note = f"{len(result.points)} points; {inputs.votes} decompositions agree to {result.agreement:.0%}"
    artifacts = [
        Artifact("json", ctx.folder / f"{stem}.json", "The result with all scores."),
        Artifact("table", table, f"The {value} of every {what}."),
    ]
    if result.part_names:
        shades = [COLOURS[number % len(COLOURS)] for number in range(len(result.part_names))]
        colours = torch.tensor(shades)[result.parts]
        labelled = write_ply(ctx.folder / f"{stem}.ply", result.points, colours, part=result.parts.int())
        artifacts.append(Artifact("cloud", labelled, "The cloud with the part of each point, as number and colour."))
        layers = class_layers(result.points, result.parts, result.part_names, shades)
        row = [(title, result.points, result.parts)], result.part_names
        shown = objects_picture(ctx.folder / f"{stem}.png", [row], shades, inputs.axes)
    else:
        layers = [Layer(inputs.cloud.name, result.points, BLUE)]
        shown = _with_bars(ctx, stem, inputs, result, title)
    turned = page(ctx.folder / f"{stem}.html", f"{inputs.cloud.name}: {title}", note, layers, inputs.axes)
    artifacts.append(Artifact("html", turned, "The cloud, to turn."))
    return [*artifacts, Artifact("image", shown, "The cloud with its parts." if result.part_names else note)]


def _with_bars(ctx: Ctx, stem: str, inputs: Inputs, result: Recognised, title: str) -> Path:
    """The cloud, and the likeliest classes as bars."""
    drawn = figure(7.2, 3.6)
    place, bars = drawn.subplots(1, 2)
    draw_object(place, result.points, result.parts, COLOURS, inputs.axes)
    place.set_title(inputs.cloud.name, fontsize=9)
    top = list(result.scores.items())[:6][::-1]
    bars.barh([name for name, _ in top], [100 * score for _, score in top], color=BLUE)
    bars.set(xlim=(0, 100), xlabel="probability, %")
    bars.set_title(title, fontsize=9)
    for side in ("top", "right"):
        bars.spines[side].set_visible(False)
    return saved(drawn, ctx.folder / f"{stem}.png")
