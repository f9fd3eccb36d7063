"""Classification of pictures, and the attention of blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact, Point
from vergence.contract.system import Task
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.imagenet import words
from vergence.data.images import fitted, read_image
from vergence.data.layouts import read, say_left_out, share
from vergence.drawing.classes import SAMPLES, classified
from vergence.drawing.grid import Panel, grid
from vergence.metrics import topk_accuracy
from vergence.metrics.topk import accuracies
from vergence.recognition.data import LAYOUTS, Viewed, middle, read_cub, read_lists
from vergence.recognition.settings import Facts, PictureView
from vergence.recognition.snl.model import Network, attention
from vergence.recognition.snl.pictures import Look, inside, spectra
from vergence.recognition.snl.predict import Labels, Shares, labels_table
from vergence.recognition.snl.settings import SETTINGS, Config, Inputs, Pictures
from vergence.recognition.snl.tasks import Ctx, asked, labelled
from vergence.recognition.snl.tasks.photographs import PLACE, looked, ready_network, shown_heat, whole_shares
from vergence.recognition.synth import Relations, relations, sizes

AT_ONCE = 32
"""Batch size."""


class PictureTask(Task[Config, Facts, Network, Viewed, Labels]):
    kind = Pictures
    takes = ("images", "points")
    layouts = LAYOUTS

    def embedded(self, config: Config) -> str:
        scene = (
            "Embedded: generated pictures with a coloured mark at the left and one at the right edge; the label is "
            "whether the two have the same colour. Only a nonlocal block has both in its receptive field."
        )
        sized = " One half of the pictures has small marks, the other half large ones."
        return scene + (sized if asked(config, Pictures).scene == "sizes" else "")

    def judged_by(self, config: Config) -> str:
        return "top1"

    def data(self, ctx: Ctx, split: str) -> Viewed:
        view = asked(ctx.config, Pictures)
        draw = relations if view.scene == "relation" else sizes
        listed = {
            name: replace(LAYOUTS[name], read=partial(reader, missing=view.missing))
            for name, reader in (("cub", read_cub), ("list", read_lists))
        }
        pictures = read(
            view.source,
            LAYOUTS | listed,
            split,
            embedded=lambda: draw(share(view.count, split), view.size, view.noise, split),
        )
        say_left_out(ctx.progress, getattr(pictures, "skipped", ()))
        return Viewed(pictures, view)

    def facts(self, ctx: Ctx, data: Viewed) -> Facts:
        return Facts(len(data.data.classes), tuple(data.data.classes))

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        size = asked(config, Pictures).size
        return (torch.zeros(batch, 3, size, size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = asked(config, Pictures)
        return {"range": [0, 1], "resize": view.resize, "crop": view.size, "mean": view.mean, "std": view.std}

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        pictures, labels = batch
        smoothing = ctx.config.objective.smoothing
        return {"cross_entropy": F.cross_entropy(model(pictures), labels, label_smoothing=smoothing)}

    def evaluate(self, ctx: Ctx, model: Network, data: Viewed) -> Mapping[str, float]:
        ctx.facts.refuse_others(data.data.classes)
        batches = [(model(pictures).float(), labels) for pictures, labels in ctx.batches(data, 100)]
        logits, labels = (ctx.gather(torch.cat(part)) for part in zip(*batches, strict=True))
        scores = accuracies(logits, labels)
        large = data.data.large if isinstance(data.data, Relations) else None
        if large is not None:
            for name, chosen in (("large", large), ("small", ~large)):
                scores[name] = topk_accuracy(logits[chosen], labels[chosen])
        return scores

    def infer(self, ctx: Ctx, model: Network | None, inputs: Inputs) -> Labels:
        if not inputs.images:
            raise VergenceError("no picture given to predict on")
        if model is None:
            return _without_weights(ctx, inputs)
        view, count = asked(ctx.config, Pictures), len(inputs.images)
        pictures = [read_image(path) for path in inputs.images]
        points = [_shares(view, picture, inputs.points) for picture in pictures]
        scores: list[Tensor] = [torch.empty(0)] * count
        looks: list[dict[str, Tensor]] = [{}] * count
        for batch in ctx.progress.track(_alike(points), "pictures"):
            seen = torch.stack([middle(view, pictures[i]) for i in batch])
            logits, maps, _ = attention(model, ctx.to_device(seen), points[batch[0]])
            for row, index in enumerate(batch):
                scores[index] = logits[row].float().cpu().softmax(0)
                looks[index] = {place: heat[row].float().cpu() for place, heat in maps.items()}
        return labelled(ctx, inputs.images, torch.stack(scores), points, looks)

    def render(self, ctx: Ctx, inputs: Inputs, result: Labels) -> Sequence[Artifact]:
        drawings = []
        for number, (path, shares, maps) in enumerate(zip(inputs.images, result.points, result.attention, strict=True)):
            label, p = result.best(number, 1)[0]
            picture = read_image(path)
            if result.whole:
                maps = {place: torch.stack([shown_heat(heat) for heat in heats]) for place, heats in maps.items()}
            look = Look.of(picture if result.whole else _seen(ctx, picture), shares, maps)
            target = grid(
                unused(ctx.folder / f"{path.stem}-attention.png"), [look.panels(f"{label} {p:.0%}")], side=2.6
            )
            drawings.append(Artifact("image", target, f"{path.name}: attention of the circled points."))
        return [labels_table(ctx.folder / "labels.csv", result), *drawings]

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Viewed) -> Sequence[Artifact]:
        """Draws held-out pictures, the attention of one point in every block, and the blocks' spectra."""
        rows = []
        for index in range(min(5, len(data))):
            picture, label = data.data[index]
            height, width = picture.shape[-2:]
            embedded = isinstance(data.data, Relations)
            point = Point(*data.data.centre(index, 0)) if embedded else Point(width / 2, height / 2)
            row = [Panel(picture, f"truth: {ctx.facts.name(label)}", [point])]
            shares = _shares(data.view, picture, [point])
            for name, model in models.items():
                logits, heats, _ = attention(model, ctx.to_device(data[index][0][None]), shares)
                answer = f"{name}: {ctx.facts.name(int(logits[0].argmax()))}"
                maps = {place: heat[0].float().cpu() for place, heat in heats.items()}
                row += Look.of(_seen(ctx, picture), shares, maps).panels("", answer)[1:]
            rows.append(row)
        caption = (
            "Held-out pictures and, for every block, the attention of the circled point (bright: high), with the "
            "network's answer above."
        )
        batch = torch.stack([data[index][0] for index in range(min(4, len(data)))])
        return [
            Artifact("image", grid(ctx.folder / "attention.png", rows), caption),
            *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch)),
            *_classified(ctx, models, data),
        ]


def _classified(ctx: Ctx, models: Mapping[str, Network], data: Viewed) -> list[Artifact]:
    """Draws confusion matrices, and the best and worst pictures of each network."""
    some, scores, labels = Spread(data, SAMPLES), {}, torch.empty(0)
    for name, model in models.items():
        parts = [(model(pictures).float().softmax(1).cpu(), y.cpu()) for pictures, y in ctx.batches(some, AT_ONCE)]
        scores[SETTINGS.label(name)], labels = (torch.cat(part) for part in zip(*parts, strict=True))

    def picture(number: int) -> Tensor:
        return fitted(_seen(ctx, data.data[some.place(number)][0]), 128)

    return classified(ctx.folder, scores, labels, ctx.facts.name, picture)


def _without_weights(ctx: Ctx, inputs: Inputs) -> Labels:
    """Labels of ImageNet, and the attention of a Gaussian block without parameters."""
    ctx.progress.say(
        "no weights of snl: EfficientNet-Lite0, trained on ImageNet, with a Gaussian nonlocal block without parameters"
    )
    pictures = [read_image(path) for path in inputs.images]
    points = [whole_shares(picture, inputs.points) for picture in pictures]
    network = ready_network().to(ctx.device)
    pairs = ctx.progress.track(list(zip(pictures, points, strict=True)), "pictures")
    looks = [looked(network, picture, shares) for picture, shares in pairs]
    scores = torch.stack([logits.softmax(0) for logits, _ in looks])
    labels = tuple(words()[i] for i in scores.argmax(1).tolist())
    maps = tuple({PLACE: heats} for _, heats in looks)
    return Labels(tuple(map(str, inputs.images)), words(), labels, scores, tuple(points), maps, whole=True)


def _shares(view: PictureView, picture: Tensor, points: Sequence[Point]) -> Shares:
    """Points of a picture as fractions of the network input; by default three along its middle."""
    along = [(0.5 + step * view.resize / view.size, 0.5) for step in (-0.25, 0.0, 0.25)]
    return inside(points, view.region(*picture.shape[-2:])) or along


def _alike(points: Sequence[Shares]) -> list[list[int]]:
    """Batches of indices of pictures with the same points, at most :data:`AT_ONCE` each."""
    alike: dict[tuple[tuple[float, float], ...], list[int]] = {}
    for index, shares in enumerate(points):
        alike.setdefault(tuple(shares), []).append(index)
    return [same[i : i + AT_ONCE] for same in alike.values() for i in range(0, len(same), AT_ONCE)]


def _seen(ctx: Ctx, picture: Tensor) -> Tensor:
    """The part of a picture that the network gets."""
    left, top, side = asked(ctx.config, Pictures).region(*picture.shape[-2:])
    return picture[:, round(top) : round(top + side), round(left) : round(left + side)]
