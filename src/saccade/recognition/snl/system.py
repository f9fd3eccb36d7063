"""SNL as a system: image classifiers with and without nonlocal blocks, under one protocol."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import torch
import torch.nn.functional as F
import tyro
from torch import Tensor, nn

from saccade.context import Context
from saccade.data import images
from saccade.data.draw import Panel, fitted, grid, overlay
from saccade.data.layouts import EMBEDDED, find
from saccade.data.loader import Data
from saccade.errors import SaccadeError
from saccade.files import replacing
from saccade.inputs import Artifact, Images, Point, Points
from saccade.metrics import topk_accuracy
from saccade.nn.stages import Stages
from saccade.recognition.data import LAYOUTS, View, Viewed
from saccade.recognition.snl import ABOUT
from saccade.recognition.snl.claims import CLAIMS
from saccade.recognition.snl.model import Model, attention, build
from saccade.recognition.synth import LEAST, MARK, Relations, relations
from saccade.system import Learns, Metric, Published, Reported, System, Variant
from saccade.training import Optimiser, Schedule, Training


@dataclass(frozen=True)
class Pictures(View):
    """What is looked at, and how it is cut."""

    source: Annotated[str, tyro.conf.arg(aliases=["--data"])] = "embedded"
    """embedded, cifar10:PATH, cifar100:PATH, folder:PATH, or a plain PATH to class folders."""
    count: int = 4800
    """embedded: pictures to train on; a quarter as many to validate and to test."""
    noise: float = 0.15
    """embedded: grain of the ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count < 24 or not self.noise >= 0:
            raise SaccadeError(f"embedded data has count >= 24 and noise >= 0, got {self.count} and {self.noise}")
        if self.source == EMBEDDED and self.size < LEAST:
            raise SaccadeError(f"embedded pictures have a size of at least {LEAST}, got {self.size}")


@dataclass(frozen=True)
class Config:
    """SNL: network, pictures, training."""

    model: Model = Model()
    data: Pictures = Pictures()
    train: Training = Training()
    seed: int = 0
    """Decides everything random."""


@dataclass(frozen=True)
class Facts:
    """What the data decides."""

    classes: int
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.classes <= 1_000_000 or (self.labels and len(self.labels) != self.classes):
            raise SaccadeError(
                f"{self.classes} classes with {len(self.labels)} names are not the facts of a classifier"
            )


Ctx = Context[Config, Facts]


@dataclass(frozen=True)
class Inputs:
    """Pictures to label, and places whose attention to draw."""

    images: Images
    """Picture files."""
    points: Points = ()
    """Places to draw the attention of, as x,y in pixels of the picture; if none is given, three along its middle."""


def _cifar_training() -> Training:
    """300 epochs after 10 of warm-up (the tenth has the full rate already), tenths at 150 and 250 after it."""
    schedule = Schedule("multistep", unit="epoch", warmup=9, warmup_from=0.01, milestones=(160, 260))
    optimiser = Optimiser("sgd", lr=0.1, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=310, batch=128, evaluate_every=5, optimiser=optimiser)


def _imagenet_training() -> Training:
    schedule = Schedule("multistep", unit="epoch", warmup=9, warmup_from=0.01, milestones=(41, 71, 91))
    optimiser = Optimiser("sgd", lr=0.01, momentum=0.9, weight_decay=1e-4, schedule=schedule)
    return Training(epochs=110, batch=100, evaluate_every=1, optimiser=optimiser)


def _tiny_training() -> Training:
    schedule = Schedule("cosine", warmup=80)
    optimiser = Optimiser("adamw", lr=0.01, weight_decay=0.01, schedule=schedule)
    return Training(epochs=8, batch=48, evaluate_every=1, optimiser=optimiser)


PRESETS = {
    "tiny": Config(
        Model("preresnet-tiny", at=("layer3.0",), dropout=0.0),
        Pictures(size=56, resize=56, augment="flip"),
        _tiny_training(),
    ),
    "paper": Config(
        Model("preresnet56-bottleneck", at=("layer1.1",)),
        Pictures(mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010), source="cifar100:data"),
        _cifar_training(),
    ),
    "paper-imagenet": Config(
        Model("resnet50", at=("layer3.4",)),
        Pictures(
            size=224,
            resize=256,
            augment="area-flip",
            areas=(0.08, 1.25),
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            source="folder:imagenet",
        ),
        _imagenet_training(),
    ),
}


OTHERS = {
    "nl-gaussian": "NL, Gaussian",
    "nl-dot": "NL, dot product",
    "nl-concatenation": "NL, concatenation",
    "a2": "A2",
    "cgnl": "CGNL, RBF",
    "cgnl-dot": "CGNL, dot product",
    "cc": "CC",
    "cc-twice": "CC, twice",
    "gsnl": "gSNL",
    "chebysnl": "ChebySNL, order 2",
    "cayleysnl": "CayleySNL (Eq. 22)",
    "cayleysnl-relu": "CayleySNL (Eq. 22), ReLU affinity",
    "cayleyexact": "CayleyExact (Eq. 20)",
}
"""Blocks that `run` leaves out unless asked for all."""


class SNL(System[Config, Facts]):
    about = ABOUT
    config_type, facts_type, inputs_type = Config, Facts, Inputs
    presets = PRESETS
    variants = {
        "none": Variant("no block", {"model.block": "none"}),
        "nl": Variant("NL, embedded Gaussian", {"model.block": "nl"}),
        "ns": Variant("NS", {"model.block": "ns"}),
        "snl": Variant("SNL", {"model.block": "snl"}),
    } | {name: Variant(label, {"model.block": name}, headline=False) for name, label in OTHERS.items()}
    metrics = {"top1": Metric("Top-1", "%"), "top5": Metric("Top-5", "%")}
    embedded = (
        "Embedded: generated pictures with a coloured mark at the left and one at the right edge; the label says "
        "whether the two have the same colour. No cell of the network sees both, except through a nonlocal block."
    )
    layouts = LAYOUTS
    reported = (
        Reported(
            "Table 1: CIFAR-100, PreResNet-56 (bottlenecks)",
            {
                "none": {"top1": 75.33, "top5": 93.97},
                "nl": {"top1": 75.29, "top5": 94.07},
                "ns": {"top1": 75.39, "top5": 93.00},
                "a2": {"top1": 75.51, "top5": 92.90},
                "cgnl": {"top1": 74.71, "top5": 93.60},
                "snl": {"top1": 76.41, "top5": 94.38},
                "cayleysnl": {"top1": 76.72, "top5": 94.54},
            },
        ),
        Reported(
            "Table 4: CUB-200-2011, ResNet-50",
            {
                "none": {"top1": 85.43, "top5": 96.70},
                "nl": {"top1": 85.34, "top5": 96.77},
                "ns": {"top1": 85.54, "top5": 96.56},
                "a2": {"top1": 85.91, "top5": 96.56},
                "cgnl": {"top1": 86.14, "top5": 96.34},
                "snl": {"top1": 86.02, "top5": 96.65},
            },
        ),
    )
    published = {
        "paper": Published({"classes": 100}, (1, 100), parameters=969_076),
        "paper-imagenet": Published({"classes": 1000}, (1, 1000), parameters=28_180_520),
    }
    learns = Learns(
        "cross_entropy",
        steps=40,
        share=0.6,
        # The relation takes hundreds of steps to learn; a few pictures are learnt by heart in tens.
        changes={"data.count": 60, "train.batch": 30, "train.optimiser.schedule.warmup": 5},
    )
    claims = CLAIMS
    tiny_minutes = 2.0

    def data(self, ctx: Ctx, split: str) -> Viewed:
        settings = ctx.config.data
        found = find(settings.source, self.layouts)
        if found is not None:
            return Viewed(found[0].read(found[1], split), settings)
        count = settings.count if split == "train" else settings.count // 4
        return Viewed(relations(count, settings.size, settings.noise, split), settings)

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        classes = cast(Viewed, data).data.classes
        return Facts(len(classes), tuple(classes))

    def build(self, config: Config, facts: Facts) -> nn.Module:
        return build(config.model, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {"range": [0, 1], "resize": data.resize, "crop": data.size, "mean": data.mean, "std": data.std}

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        pictures, labels = batch
        return {"cross_entropy": F.cross_entropy(model(pictures), labels)}

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        assert model is not None
        own = cast(Viewed, data).data.classes
        if ctx.facts.labels and tuple(own) != ctx.facts.labels:
            raise SaccadeError(f"the weights know the classes {_some(ctx.facts.labels)}, the data has {_some(own)}")
        found = [(model(pictures).float(), labels) for pictures, labels in ctx.batches(data, 100)]
        logits, labels = (ctx.gather(torch.cat(part)) for part in zip(*found, strict=True))
        scores = {"top1": topk_accuracy(logits, labels)}
        return scores | ({"top5": topk_accuracy(logits, labels, 5)} if logits.shape[1] > 5 else {})

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        if not inputs.images:
            raise SaccadeError("no picture given to predict on")
        made, rows = [], []
        for path in ctx.progress.track(inputs.images, "pictures"):
            look = _look(ctx, cast(Stages, model), images.read_image(path), inputs.points)
            best = look.best(ctx.facts, 5)
            rows.append([str(path), *(value for name, chance in best for value in (name, f"{chance:.4f}"))])
            if look.maps:
                title = f"{best[0][0]} {best[0][1]:.0%}"
                target = grid(_unused(ctx.folder / f"{path.stem}-attention.png"), [look.panels(title)], side=2.6)
                made.append(Artifact("image", target, f"{path.name}: what the circled points look at."))
        table = ctx.folder / "labels.csv"
        heading = [f"{word} {rank}" for rank in range(1, len(rows[0]) // 2 + 1) for word in ("label", "probability")]
        with replacing(table) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["file", *heading], *rows])
        return [Artifact("table", table, "The most likely labels with their probabilities."), *made]

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """Held-out pictures, and what one point of each looks at in every network that has a block."""
        raw = cast(Viewed, data).data
        rows = []
        for index in range(min(5, len(raw))):
            picture, label = raw[index]
            points = (_left_mark(raw, index),) if isinstance(raw, Relations) else _middle(picture)[1:2]
            looks = {name: _look(ctx, cast(Stages, model), picture, points) for name, model in models.items()}
            row = [Panel(picture, f"truth: {ctx.facts.labels[label]}", points)]
            for name, look in looks.items():
                row += [panel for panel in look.panels("", f"{name}: {look.best(ctx.facts, 1)[0][0]}")[1:]]
            rows.append(row)
        caption = (
            "Held-out pictures and, for every block, what the circled point looks at (dark: little, bright: much), "
            "with the network's answer above."
        )
        return [Artifact("image", grid(ctx.folder / "attention.png", rows), caption)]


@dataclass(frozen=True)
class _Look:
    """A picture as a network saw it: the part it sees, the points in it, its answer, its blocks' attention."""

    seen: Tensor
    points: tuple[Point, ...]
    logits: Tensor
    maps: dict[str, Tensor]

    def best(self, facts: Facts, count: int) -> list[tuple[str, float]]:
        chances = self.logits.float().softmax(0)
        names = facts.labels or tuple(map(str, range(facts.classes)))
        return [(names[i], float(chances[i])) for i in chances.argsort(descending=True)[:count].tolist()]

    def panels(self, title: str, over: str = "") -> list[Panel]:
        """The picture with its points, then one panel for each block and point."""
        drawn = [Panel(self.seen, title, self.points)]
        for place, maps in self.maps.items():
            for number, (heat, point) in enumerate(zip(maps, self.points, strict=True), 1):
                drawn.append(Panel(overlay(self.seen, heat), over or f"{place}, point {number}", [point]))
        return drawn


@torch.no_grad()
def _look(ctx: Ctx, network: Stages, picture: Tensor, points: Sequence[Point]) -> _Look:
    view = ctx.config.data
    left, top, side = view.region(*picture.shape[-2:])
    inside = [Point(p.x - left, p.y - top) for p in points or _middle(picture)]
    for given, point in zip(points, inside, strict=False):
        if not (0 <= point.x < side and 0 <= point.y < side):
            raise SaccadeError(
                f"the point {given.x:g},{given.y:g} is outside what the network sees: "
                f"x from {left:g} to {left + side:g}, y from {top:g} to {top + side:g}"
            )
    network.to(ctx.device).eval()
    shares = [(p.x / side, p.y / side) for p in inside]
    logits, maps = attention(network, view.middle(picture)[None].to(ctx.device), shares)
    seen = picture[:, round(top) : round(top + side), round(left) : round(left + side)]
    shown = fitted(seen)
    scale = shown.shape[-1] / side
    marks = tuple(Point(p.x * scale, p.y * scale) for p in inside)
    return _Look(shown, marks, logits[0].cpu(), {place: heat[0].cpu() for place, heat in maps.items()})


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _middle(picture: Tensor) -> tuple[Point, ...]:
    """Three points along the middle of a picture."""
    height, width = picture.shape[-2:]
    side = min(height, width)
    return tuple(Point(width / 2 + share * side, height / 2) for share in (-0.25, 0.0, 0.25))


def _left_mark(data: Relations, index: int) -> Point:
    y, x = (data.corners[index, 0] + MARK // 2).tolist()
    return Point(x, y)


def _unused(path: Path) -> Path:
    """A name that no file has yet: two pictures of one name may come from two folders."""
    names = (path, *(path.with_stem(f"{path.stem}-{n}") for n in range(2, 10_000)))
    return next(name for name in names if not name.exists())


SYSTEM = SNL()
