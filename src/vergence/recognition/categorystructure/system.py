"""CSKD as a system: a teacher is trained, then a student learns from it, by one of many losses under one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase, phases_of
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.metrics.topk import accuracies, topk_accuracy
from vergence.ops.category_structure import centre_cosines, class_centres
from vergence.recognition import data as room
from vergence.recognition.categorystructure import pictures, predict
from vergence.recognition.categorystructure.claims import CLAIMS
from vergence.recognition.categorystructure.model import Pair, SmallResNet, build
from vergence.recognition.categorystructure.settings import SETTINGS, Config, Inputs, Pictures
from vergence.recognition.data import Labelled, Viewed
from vergence.recognition.objects import objects
from vergence.recognition.settings import Facts
from vergence.recognition.tiny_imagenet import LAYOUT as TINY_IMAGENET

Ctx = Context[Config, Facts]
LAYOUTS = {name: room.LAYOUTS[name] for name in ("cifar10", "cifar100", "folder")} | {"tiny-imagenet": TINY_IMAGENET}
TEACHER = "teacher"
"""The phase that trains the teacher."""


class CategoryStructureSystem(System[Config, Facts, Pair, Viewed, predict.Placed]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Viewed:
        asked = ctx.config.data
        found = read(asked.source, self.layouts, split, lambda: _embedded(asked, split))
        if split == "train" and asked.each:
            return Balanced(found, asked, asked.each)
        return Viewed(found, asked)

    def facts(self, ctx: Ctx, data: Viewed) -> Facts:
        return Facts(len(data.data.classes), tuple(data.data.classes))

    def slice(self, data: Viewed) -> Viewed:
        return replace(data, data=First(data.data, 160))

    def build(self, config: Config, facts: Facts) -> Pair:
        return build(config, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = config.data
        return {"range": [0, 1], "resize": view.resize, "crop": view.size, "mean": view.mean, "std": view.std}

    def load_pretrained(self, config: Config, model: Pair, state: Mapping[str, Any]) -> str:
        """The teacher, from another run of this system (its teacher, or its student if it had none) or from a ResNet
        under torchvision's names."""
        if model.teacher is None:
            raise VergenceError("a student that learns from labels alone has no teacher to load")
        prefix = next((p for p in ("teacher.", "student.") if any(name.startswith(p) for name in state)), "")
        given = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        for name, own in model.teacher.state_dict().items():
            value = given.get(name)
            if not isinstance(value, Tensor):
                raise VergenceError(f"the weights have no {prefix + name!r}: expected those of the teacher")
            if value.shape != own.shape and name.startswith("fc."):
                raise VergenceError(f"the teacher knows {len(value)} classes, the data of the student has {len(own)}")
            if value.shape != own.shape:
                raise VergenceError(
                    f"the weights have {prefix + name!r} of shape {tuple(value.shape)}, the teacher {tuple(own.shape)}"
                )
        model.teacher.load_state_dict({name: given[name] for name in model.teacher.state_dict()})
        return f"the teacher is loaded from {len(given)} tensors and not trained; the student is new"

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        """The teacher is trained only if the student needs one and none is given."""
        ready = bool(config.pretrained) or not config.objective.taught
        return {name: phase for name, phase in phases_of(config).items() if name != TEACHER or not ready}

    def start(self, ctx: Ctx, model: Pair) -> Pair:
        model.teach(ctx.phase == TEACHER)
        batch, classes = ctx.config.train.batch, ctx.facts.classes
        if ctx.phase != TEACHER and ctx.config.objective.beta and batch < classes and not ctx.config.data.each:
            ctx.progress.say(
                f"a batch of {batch} has few classes with two of its samples (there are {classes} classes): the "
                "intra-category structure is nearly empty; use a larger batch, or --data.each 2"
            )
        return model

    def losses(self, ctx: Ctx, model: Pair, batch: Any) -> Mapping[str, Tensor]:
        images, labels = batch
        if ctx.phase == TEACHER and model.teacher is not None:
            return {TEACHER: F.cross_entropy(model.teacher(images), labels)}
        return model.losses(images, labels)

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Pair, data: Viewed) -> Mapping[str, float]:
        """Accuracy, how tight classes are, and how near the student is to its teacher; between the epochs of a
        teacher, it is the one that is judged."""
        ctx.facts.refuse_others(data.data.classes)
        if model.teacher is None:
            return _scores(*_seen(ctx, model.student, data)[:3])
        if ctx.phase == TEACHER:
            return _scores(*_seen(ctx, model.teacher, data)[:3])
        logits, pooled, labels, centres = _seen(ctx, model.student, data)
        answers, _, _, theirs = _seen(ctx, model.teacher, data)
        difference = centre_cosines(centres) - centre_cosines(theirs)
        return {
            **_scores(logits, pooled, labels),
            "structure": float(difference.square().mean().sqrt()),
            "agreement": topk_accuracy(logits, answers.argmax(1)),
            TEACHER: topk_accuracy(answers, labels),
        }

    def infer(self, ctx: Ctx, model: Pair, inputs: Inputs) -> predict.Placed:
        return predict.placed(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: predict.Placed) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Pair], data: Viewed) -> Sequence[Artifact]:
        return pictures.of_variants(ctx, models, data)


@dataclass(frozen=True)
class Balanced(Viewed):
    """Batches with ``each`` pictures of each of their classes; a class with fewer pictures repeats them."""

    each: int = 2

    def batches(self, size: int, generator: torch.Generator) -> Iterator[list[int]]:
        """One epoch: groups of ``each`` pictures of a class in random order, ``size // each`` of them per batch."""
        if size < self.each or size % self.each:
            raise VergenceError(f"a batch of {size} cannot hold classes with {self.each} pictures each")
        labels = torch.as_tensor(self.data.labels)
        groups: list[list[int]] = []
        for label in labels.unique():
            own = (labels == label).nonzero()[:, 0]
            own = own.repeat(-(-self.each // len(own)))
            own = own[torch.randperm(len(own), generator=generator)].tolist()
            groups += [own[i : i + self.each] for i in range(0, len(own) - self.each + 1, self.each)]
        order, together = torch.randperm(len(groups), generator=generator).tolist(), size // self.each
        for first in range(0, max(len(order) - together, 0) + 1, together):
            yield [index for group in order[first : first + together] for index in groups[group]]


def _embedded(asked: Pictures, split: str) -> Labelled:
    return objects(share(asked.count, split, of=2 if split == "test" else 8), asked.size, split)


def _seen(ctx: Ctx, network: SmallResNet, data: Viewed) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Logits (N, K), pooled features (N, C), labels (N,), and class means (K', C h w) of the features as they are."""
    parts, sums = [], None
    for images, labels in ctx.batches(data, 100):
        told = network.told(images)
        features = told.features.float()
        parts.append((told.logits.float(), features.mean((2, 3)), labels))
        flat = features.flatten(1)
        sums = flat.new_zeros(ctx.facts.classes, flat.shape[1]) if sums is None else sums
        sums.index_add_(0, labels, flat)
    logits, pooled, labels = (ctx.gather(torch.cat(part)) for part in zip(*parts, strict=True))
    assert sums is not None
    counts = torch.bincount(labels, minlength=len(sums)).unsqueeze(1)
    centres = ctx.gather(sums.unsqueeze(0)).sum(0) / counts.clamp(min=1)
    return logits, pooled, labels, centres[counts[:, 0] > 0]


def _scores(logits: Tensor, pooled: Tensor, labels: Tensor) -> dict[str, float]:
    return {**accuracies(logits, labels), "tightness": tightness(pooled, labels)}


def tightness(features: Tensor, labels: Tensor) -> float:
    """The mean distance of samples (N, C) from the centre of their class, as a multiple of the mean distance between
    two centres; NaN for a single class."""
    centres = class_centres(features, labels)
    index = labels.unique(return_inverse=True)[1]
    spread = (features - centres[index]).norm(dim=1).mean()
    return float(spread / torch.pdist(centres).mean())


SYSTEM = CategoryStructureSystem()
