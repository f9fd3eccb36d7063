"""MCAR as a system: pictures of two domains, adversarial training, one protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.data import EMBEDDED, First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase
from vergence.core.errors import VergenceError
from vergence.detection.adaptation import present_classes
from vergence.detection.data import Chosen, Pair, Paired, Rendered
from vergence.detection.dualmultilabel import predict
from vergence.detection.dualmultilabel.claims import CLAIMS
from vergence.detection.dualmultilabel.model import MCAR
from vergence.detection.dualmultilabel.pictures import draw
from vergence.detection.dualmultilabel.predict import Ctx
from vergence.detection.dualmultilabel.settings import SETTINGS, Config, Facts, Inputs
from vergence.detection.finding import Objects, render
from vergence.detection.layouts import LAYOUTS, read_domain
from vergence.detection.protocol import domain_probe, found_of, label_precision, precisions, truth_of

TOGETHER = 16
"""Small pictures that are judged at once."""
PROBED = 240
"""Pictures of each domain that a probe is fitted and tried on."""


class DualMultiLabel(System[Config, Facts, MCAR, Chosen, Objects]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Any:
        target = self._target(ctx, split)
        if split != "train":
            return self._chosen(ctx, target, self._classes(ctx, target))
        labelled = target if ctx.config.data.train_on == "target" else self._labelled(ctx, "train")
        classes = self._classes(ctx, target, labelled)
        adapts = ctx.config.model.adversary != "none" or ctx.config.weights.consistency > 0
        adapts = adapts and ctx.config.data.train_on == "labelled" and ctx.phase != "pretrain"
        source = self._chosen(ctx, labelled, classes, True)
        if not len(source):
            raise VergenceError(f"{ctx.config.data.labelled} has no picture with an object of {', '.join(classes)}")
        return Paired(source, self._chosen(ctx, target, classes, False, ctx.config.data.flip) if adapts else None)

    def _chosen(
        self, ctx: Ctx, data: Any, classes: tuple[str, ...], labelled: bool = False, flip: bool = False
    ) -> Chosen:
        asked = ctx.config.data
        multiple = 32 if ctx.config.model.detector.endswith("fpn") else 1
        return Chosen(data, classes, asked.shortest, asked.longest, multiple, flip or (labelled and asked.flip),
                      not labelled or asked.negatives)  # fmt: skip

    def _target(self, ctx: Ctx, split: str) -> Any:
        asked = ctx.config.data
        own = "train" if split == "train" else "test"  # as in the public protocol, validation is the test
        return read_domain(
            asked.source, split, asked.beta, lambda: Rendered("target", own, _count(asked.scenes, own), asked.style)
        )

    def _labelled(self, ctx: Ctx, split: str) -> Any:
        asked = ctx.config.data
        own = "train" if split == "train" else "test"
        return read_domain(
            asked.labelled, split, asked.beta, lambda: Rendered("source", own, _count(asked.scenes, own))
        )

    def _classes(self, ctx: Ctx, target: Any, labelled: Any = None) -> tuple[str, ...]:
        """The classes of the model, once they are known; before, those that both domains have."""
        if ctx.facts is not None and ctx.facts.classes:
            return ctx.facts.classes
        labelled = self._labelled(ctx, "train") if labelled is None else labelled
        shared = tuple(name for name in labelled.classes if not target.classes or name in target.classes)
        if not shared:
            raise VergenceError(
                f"{ctx.config.data.labelled} and {ctx.config.data.source} have no class in common: "
                f"{', '.join(labelled.classes[:5])} ... and {', '.join(target.classes[:5])} ..."
            )
        return shared

    def facts(self, ctx: Ctx, data: Any) -> Facts:
        return Facts(data.source.classes)

    def build(self, config: Config, facts: Facts) -> MCAR:
        return MCAR(config.model, len(facts.classes))

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        height, width = (64, 80) if config.model.detector == "small" else (600, 1000)
        boxes = torch.tensor([[8, 8, 40, 40], [0, 0, 64, 60], [20, 10, 50, 58], [30, 30, 60, 60]])
        return torch.zeros(batch, 3, height, width), boxes.expand(batch, -1, -1).clone()

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "shorter side": config.data.shortest, "longer side": config.data.longest,
                "normalisation": "inside the model"}  # fmt: skip

    def load_published(self, path: Path) -> tuple[Config, Facts, dict[str, Tensor]]:
        return predict.published(path)

    def load_pretrained(self, config: Config, model: MCAR, state: Mapping[str, Any]) -> str:
        return predict.pretrained(config.model, model, state)

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        begins = {"pretrain": config.pretrain} if config.pretrain.epochs or config.pretrain.steps else {}
        return begins | {"train": config.train}

    def losses(self, ctx: Ctx, model: MCAR, batch: Pair) -> Mapping[str, Tensor]:
        return model.losses(batch.source, batch.target, ctx.config.weights, ctx.generator)

    # Use --------------------------------------------------------------------------------------------------------------

    def slice(self, data: Chosen) -> Any:
        return First(data, 40)

    def evaluate(self, ctx: Ctx, model: MCAR, data: Chosen) -> Mapping[str, float]:
        found, truth, pooled, chances, present = [], [], [], [], []
        size = TOGETHER if model.config.detector == "small" else 1
        for batch in ctx.batches(data, size, "judging"):
            with ctx.autocast():
                detections = model.detect(batch.pictures, batch.sizes)
            found += [found_of(own, sample) for own, sample in zip(detections, batch.truth, strict=True)]
            truth += [truth_of(sample) for sample in batch.truth]
            vectors, labels = _described(model, batch)
            pooled.append(vectors)
            chances.append(labels)
            present += [present_classes(sample.labels, model.classes).cpu() for sample in batch.truth]
        found, truth = ctx.gather(found), ctx.gather(truth)
        values = precisions(found, truth, model.classes)
        if model.labels is not None:
            values["labels"] = label_precision(ctx.gather(torch.cat(chances)), ctx.gather(torch.stack(present)))
        if ctx.stage == "test":
            values["probe"] = self._probe(ctx, model, ctx.gather(torch.cat(pooled)), data)
        return values

    def _probe(self, ctx: Ctx, model: MCAR, target: Tensor, data: Chosen) -> float:
        """How well domains are told apart by mean features; not a number if there are no labelled pictures to
        compare with."""
        asked = ctx.config.data
        if (asked.labelled == EMBEDDED) != (asked.source == EMBEDDED):
            return math.nan
        try:
            labelled = First(self._chosen(ctx, self._labelled(ctx, "test"), data.classes), PROBED)
        except VergenceError:  # weights may travel without the pictures that they were trained on
            return math.nan
        size = TOGETHER if model.config.detector == "small" else 1
        source = ctx.gather(torch.cat([_described(model, batch)[0] for batch in ctx.batches(labelled, size)]))
        return domain_probe(source, target[:PROBED])

    def infer(self, ctx: Ctx, model: MCAR, inputs: Inputs) -> Objects:
        return predict.find(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Objects) -> Sequence[Artifact]:
        return render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, MCAR], data: Chosen) -> Sequence[Artifact]:
        return draw(ctx, models, data)


def _count(scenes: int, split: str) -> int:
    return scenes if split == "train" else max(2 * scenes // 5, 1)


def _described(model: MCAR, batch: Any) -> tuple[Tensor, Tensor]:
    """Mean features (B, C) of pictures, and probabilities (B, K) of their classes."""
    maps, _ = model.features(model.prepared(batch.pictures, batch.sizes))
    features = maps[len(maps) // 2]
    chances = model.labels(features).sigmoid() if model.labels is not None else features.new_zeros(len(features), 0)
    return features.mean((2, 3)).float().cpu(), chances.float().cpu()


SYSTEM = DualMultiLabel()
