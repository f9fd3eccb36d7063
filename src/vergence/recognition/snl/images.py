"""Pictures: what a class is, how well it is told, and what blocks look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data, Layout
from vergence.contract.inputs import Artifact, Point
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.images import read_image
from vergence.data.layouts import find
from vergence.drawing.grid import Panel, grid
from vergence.metrics import topk_accuracy
from vergence.recognition.data import LAYOUTS as PICTURES
from vergence.recognition.data import Viewed, read_cub
from vergence.recognition.snl.drawing import Look, labels_table, spectra
from vergence.recognition.snl.model import Network, attention
from vergence.recognition.snl.settings import Config, Facts, Inputs, Pictures
from vergence.recognition.synth import Relations, relations, sizes

Ctx = Context[Config, Facts]

JUDGED_BY = "top1"
LAYOUTS = PICTURES
PLAIN = "folder"
"""The layout of a plain path."""


def embedded(config: Config) -> str:
    told = (
        "Embedded: generated pictures with a coloured mark at the left and one at the right edge; the label says "
        "whether the two have the same colour. No cell of the network sees both, except through a nonlocal block."
    )
    sized = " One half of the pictures has small marks, the other half large ones."
    return told + (sized if cast(Pictures, config.data).scene == "sizes" else "")


def data(ctx: Ctx, split: str) -> Viewed:
    settings = cast(Pictures, ctx.config.data)
    found = find(settings.source, LAYOUTS)
    if found is not None:
        return Viewed(_read(ctx, *found, split), settings)
    count = settings.count if split == "train" else settings.count // 4
    make = relations if settings.scene == "relation" else sizes
    return Viewed(make(count, settings.size, settings.noise, split), settings)


def _read(ctx: Ctx, layout: Layout, path: Path, split: str) -> Any:
    if layout is not LAYOUTS["cub"]:
        return layout.read(path, split)
    read = read_cub(path, split, missing=cast(Pictures, ctx.config.data).missing)
    for sentence in read.skipped:
        ctx.progress.say(f"left out: {sentence}")
    return read


def facts(ctx: Ctx, data: Data) -> Facts:
    classes = cast(Viewed, data).data.classes
    return Facts(len(classes), tuple(classes))


def example(config: Config, batch: int) -> Tensor:
    size = cast(Pictures, config.data).size
    return torch.zeros(batch, 3, size, size)


def preprocessing(config: Config) -> Mapping[str, Any]:
    view = cast(Pictures, config.data)
    return {"range": [0, 1], "resize": view.resize, "crop": view.size, "mean": view.mean, "std": view.std}


def losses(ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
    pictures, labels = batch
    return {"cross_entropy": F.cross_entropy(model(pictures), labels, label_smoothing=ctx.config.objective.smoothing)}


def evaluate(ctx: Ctx, model: nn.Module, data: Data) -> Mapping[str, float]:
    raw = cast(Viewed, data).data
    ctx.facts.refuse_others(raw.classes)
    found = [(model(pictures).float(), labels) for pictures, labels in ctx.batches(data, 100)]
    logits, labels = (ctx.gather(torch.cat(part)) for part in zip(*found, strict=True))
    scores = {"top1": topk_accuracy(logits, labels)}
    if logits.shape[1] > 5:
        scores["top5"] = topk_accuracy(logits, labels, 5)
    large = raw.large if isinstance(raw, Relations) else None
    if large is not None:
        for name, some in (("large", large), ("small", ~large)):
            scores[name] = topk_accuracy(logits[some], labels[some])
    return scores


def predict(ctx: Ctx, model: nn.Module, inputs: Inputs) -> Sequence[Artifact]:
    if not inputs.images:
        raise VergenceError("no picture given to predict on")
    made, rows = [], []
    for path in ctx.progress.track(inputs.images, "pictures"):
        look = _look(ctx, model, read_image(path), inputs.points)
        best = look.best(ctx.facts, 5)
        rows.append((str(path), best))
        if look.maps:
            title = f"{best[0][0]} {best[0][1]:.0%}"
            target = grid(unused(ctx.folder / f"{path.stem}-attention.png"), [look.panels(title)], side=2.6)
            made.append(Artifact("image", target, f"{path.name}: what the circled points look at."))
    return [labels_table(ctx.folder / "labels.csv", rows), *made]


def pictures(ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
    """Held-out pictures, what one point of each looks at in every network with a block, and how the blocks filter."""
    raw = cast(Viewed, data).data
    rows = []
    for index in range(min(5, len(raw))):
        picture, label = raw[index]
        points = (Point(*raw.centre(index, 0)),) if isinstance(raw, Relations) else _middle(picture)[1:2]
        row = [Panel(picture, f"truth: {ctx.facts.name(label)}", points)]
        for name, model in models.items():
            look = _look(ctx, model, picture, points)
            row += look.panels("", f"{name}: {look.best(ctx.facts, 1)[0][0]}")[1:]
        rows.append(row)
    caption = (
        "Held-out pictures and, for every block, what the circled point looks at (dark: little, bright: much), "
        "with the network's answer above."
    )
    batch = torch.stack([data[index][0] for index in range(min(4, len(raw)))])
    return [
        Artifact("image", grid(ctx.folder / "attention.png", rows), caption),
        *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch)),
    ]


@torch.no_grad()
def _look(ctx: Ctx, model: nn.Module, picture: Tensor, points: Sequence[Point]) -> Look:
    view = cast(Pictures, ctx.config.data)
    left, top, side = view.region(*picture.shape[-2:])
    inside = [Point(p.x - left, p.y - top) for p in points or _middle(picture)]
    for given, point in zip(points, inside, strict=False):
        if not (0 <= point.x < side and 0 <= point.y < side):
            raise VergenceError(
                f"the point {given.x:g},{given.y:g} is outside what the network sees: "
                f"x from {left:g} to {left + side:g}, y from {top:g} to {top + side:g}"
            )
    shares = [(p.x / side, p.y / side) for p in inside]
    network = cast(Network, model.to(ctx.device).eval())
    logits, maps, _ = attention(network, ctx.to_device(view.middle(picture)[None]), shares)
    seen = picture[:, round(top) : round(top + side), round(left) : round(left + side)]
    return Look.of(seen, shares, logits[0], {place: heat[0] for place, heat in maps.items()})


def _middle(picture: Tensor) -> tuple[Point, ...]:
    """Three points along the middle of a picture."""
    height, width = picture.shape[-2:]
    side = min(height, width)
    return tuple(Point(width / 2 + share * side, height / 2) for share in (-0.25, 0.0, 0.25))
