"""Fine-grained classification of pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Missing
from vergence.contract.inputs import Artifact
from vergence.contract.system import Task
from vergence.data.layouts import read, say_left_out
from vergence.metrics.localisation import heat_box, localisation_errors
from vergence.metrics.topk import accuracies
from vergence.recognition import data as recognition
from vergence.recognition import finegrained
from vergence.recognition.data import LabelledFiles, read_cub, read_lists
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
            for name, reader in (("cub", _with_boxes), ("list", read_lists))
        }
        pictures = read(view.source, self.layouts | listed, split, embedded=lambda: embedded_birds(view, split))
        say_left_out(ctx.progress, getattr(pictures, "skipped", ()))
        boxes = getattr(pictures, "boxes", ())
        if isinstance(pictures, LabelledFiles):
            pictures = replace(pictures, boxes=())  # they are the truth, not crops
        return Viewed(pictures, [int(label) for label in pictures.labels], view, boxes)

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
        for pictures, labels, truth in ctx.batches(data, 64, "pictures"):
            logits, u, v, fields = model.look(pictures)
            centroids.add(u, v, fields)
            boxes = heat_boxes(model, u, labels, data.view.size) if len(data.boxes) else truth
            outputs.append((logits.float(), labels, boxes.to(labels.device), truth))
        logits, labels, boxes, truth = (ctx.gather(torch.cat(part)) for part in zip(*outputs, strict=True))
        found = accuracies(logits, labels) | centroids.scores(ctx.gather)
        return found | (localisation_errors(logits, labels, boxes, truth) if len(data.boxes) else {})

    def infer(self, ctx: Ctx, model: Network | None, inputs: Inputs) -> Bent:
        return predict.without_weights(ctx, inputs) if model is None else predict.classified(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Bent) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Viewed) -> Sequence[Artifact]:
        return report(ctx, models, data)


def _with_boxes(path: Path, split: str, missing: Missing) -> LabelledFiles:
    """CUB-200-2011, with the boxes of birds if they are there."""
    there = any((folder / "bounding_boxes.txt").is_file() for folder in (path, path / "CUB_200_2011"))
    return read_cub(path, split, "box" if there else "none", missing)


@torch.enable_grad()
def heat_boxes(model: Network, u: Tensor, labels: Tensor, size: int) -> Tensor:
    """Boxes (B, 4) in pixels of the input, by Grad-CAM for the given labels (B,) at the map *before* the warp
    (B, K, h, w): after it, places are not those of the picture any more."""
    u = u.detach().requires_grad_()
    logits = model.head(model.warp(u)).gather(1, labels[:, None])
    slope = torch.autograd.grad(logits.sum(), u)[0].mean((2, 3), keepdim=True)
    heat = F.relu((slope * u.detach()).sum(1, keepdim=True)).float()
    full = F.interpolate(heat, (size, size), mode="bilinear", align_corners=False)[:, 0]
    return torch.stack([heat_box(each) for each in full])
