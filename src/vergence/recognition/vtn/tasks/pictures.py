"""Fine-grained classification of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.system import Task
from vergence.data.layouts import read, say_left_out
from vergence.metrics.topk import accuracies
from vergence.recognition import data as recognition
from vergence.recognition import finegrained
from vergence.recognition.data import read_cub, read_lists
from vergence.recognition.settings import Facts
from vergence.recognition.vtn import predict
from vergence.recognition.vtn.model import Network
from vergence.recognition.vtn.pictures import report
from vergence.recognition.vtn.predict import Bent
from vergence.recognition.vtn.settings import Config, Inputs, Pictures
from vergence.recognition.vtn.tasks import Centroids, Ctx, Viewed, asked, consistency_loss, embedded_birds


class PictureTask(Task[Config, Facts, Network, Viewed, Bent]):
    kind = Pictures
    layouts = finegrained.LAYOUTS | {name: recognition.LAYOUTS[name] for name in ("cub", "list", "folder")}

    def embedded(self, config: Config) -> str:
        return (
            "Embedded: drawn birds in front of photographs, 16 kinds by the mark of the head and the plumage of the "
            "wing; birds stand anywhere, and head and wing move and turn independently."
        )

    def judged_by(self, config: Config) -> str:
        return "top1"

    def data(self, ctx: Ctx, split: str) -> Viewed:
        view = asked(ctx.config, Pictures)
        listed = {
            name: replace(self.layouts[name], read=partial(reader, missing=view.missing))
            for name, reader in (("cub", read_cub), ("list", read_lists))
        }
        pictures = read(view.source, self.layouts | listed, split, embedded=lambda: embedded_birds(view, split))
        say_left_out(ctx.progress, getattr(pictures, "skipped", ()))
        return Viewed(pictures, [int(label) for label in pictures.labels], view)

    def facts(self, ctx: Ctx, data: Viewed) -> Facts:
        return Facts(len(data.data.classes), tuple(data.data.classes))

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = asked(config, Pictures)
        return {
            "range": [0, 1], "resize": [view.resize] * 2 if view.square else view.resize, "crop": view.size,
            "mean": view.mean, "std": view.std,
        }  # fmt: skip

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        pictures, labels = batch
        warped = model.warp(model.backbone(pictures))
        return {
            "cross_entropy": F.cross_entropy(model.head(warped), labels), **consistency_loss(ctx, warped, labels)
        }  # fmt: skip

    def evaluate(self, ctx: Ctx, model: Network, data: Viewed) -> Mapping[str, float]:
        ctx.facts.refuse_others(data.data.classes)
        outputs, centroids = [], Centroids()
        for pictures, labels in ctx.batches(data, 64, "pictures"):
            logits, u, v, fields = model.look(pictures)
            centroids.add(u, v, fields)
            outputs.append((logits.float(), labels))
        logits, labels = (ctx.gather(torch.cat(part)) for part in zip(*outputs, strict=True))
        return accuracies(logits, labels) | centroids.scores(ctx.gather)

    def infer(self, ctx: Ctx, model: Network | None, inputs: Inputs) -> Bent:
        return predict.without_weights(ctx, inputs) if model is None else predict.classified(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Bent) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Viewed) -> Sequence[Artifact]:
        return report(ctx, models, data)
