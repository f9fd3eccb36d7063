"""Retrieval: descriptors of pictures, trained to be near within a cluster, judged by mean average precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Artifact
from vergence.contract.system import Task
from vergence.core.errors import VergenceError
from vergence.data.images import fitted, normalised
from vergence.data.layouts import read
from vergence.metrics.ranking import distances
from vergence.recognition.birds import KINDS
from vergence.recognition.settings import Facts
from vergence.recognition.vtn import predict
from vergence.recognition.vtn.model import Network
from vergence.recognition.vtn.pictures import report
from vergence.recognition.vtn.predict import Bent
from vergence.recognition.vtn.settings import Config, Inputs, Landmarks
from vergence.recognition.vtn.tasks import Centroids, Ctx, Viewed, asked, consistency_loss, embedded_birds
from vergence.retrieval.data import Clusters, Judged
from vergence.retrieval.data import Pictures as PictureFiles
from vergence.retrieval.evaluator import scores
from vergence.retrieval.layouts import LAYOUTS
from vergence.retrieval.metrics import average_precision

HELD_OUT = (0, 5, 10, 15)
"""embedded: kinds of birds that no training sees; every mark of a head and every plumage is one of them once."""
AT_ONCE = 256
"""Queries that are ranked at a time."""


def contrastive(descriptors: Tensor, clusters: Tensor, apart: float) -> Tensor:
    """The contrastive loss over all pairs of a batch of descriptors (B, D): half the squared distance within a cluster,
    half the squared lack of distance below ``apart`` otherwise; the means of both are added."""
    squared = (descriptors[:, None] - descriptors).square().sum(-1)
    far = (squared + 1e-12).sqrt()  # the gradient of a root at zero is infinite
    same = clusters[:, None] == clusters
    pair = ~torch.eye(len(clusters), dtype=torch.bool, device=clusters.device)
    near, away = same & pair, ~same
    pull = (squared * near).sum() / near.sum().clamp(min=1)
    push = (F.relu(apart - far).square() * away).sum() / away.sum().clamp(min=1)
    return 0.5 * (pull + push)


@dataclass(frozen=True)
class Whole:
    """Whole pictures as network input, the longer side reduced to ``longest``."""

    data: Any
    view: Landmarks

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Tensor:
        item = self.data[index]
        return whole(self.view, item[0] if isinstance(item, tuple) else item)


def whole(view: Landmarks, picture: Tensor) -> Tensor:
    """A whole picture (3, H, W) as network input."""
    small = fitted(picture, view.longest)
    if min(small.shape[-2:]) < predict.LEAST:
        share = predict.LEAST / min(small.shape[-2:])
        small = F.interpolate(small[None], scale_factor=share, mode="bilinear", align_corners=False)[0]
    return normalised(small, view.mean, view.std)


class LandmarkTask(Task[Config, Facts, Network, Any, Bent]):
    kind = Landmarks
    layouts = {name: LAYOUTS[name] for name in ("sfm120k", "roxford5k", "rparis6k", "pictures")}

    def embedded(self, config: Config) -> str:
        return (
            "Embedded: drawn birds in front of photographs. Of 16 kinds, 12 train, and pictures of the 4 others are "
            "searched for pictures of the same kind."
        )

    def judged_by(self, config: Config) -> str:
        return "map"

    def data(self, ctx: Ctx, split: str) -> Any:
        view = asked(ctx.config, Landmarks)
        data = read(view.source, self.layouts, split, embedded=lambda: _birds(view, split))
        if not isinstance(data, PictureFiles) and not hasattr(data, "images"):
            raise VergenceError(f"{view.source} holds descriptors, expected pictures: a network is to describe them")
        if split != "train":
            return data
        clusters = data.labels if hasattr(data, "labels") else _become(data, torch.zeros(len(data), 1)).clusters
        return Viewed(data, clusters.tolist(), view)

    def facts(self, ctx: Ctx, data: Any) -> Facts:
        return Facts()

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = asked(config, Landmarks)
        return {"range": [0, 1], "longest": view.longest, "mean": view.mean, "std": view.std}

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        pictures, clusters = batch
        warped = model.warp(model.backbone(pictures))
        loss = contrastive(model.head(warped).float(), clusters, ctx.config.objective.apart)
        return {"contrastive": loss, **consistency_loss(ctx, warped, clusters)}

    def evaluate(self, ctx: Ctx, model: Network, data: Any) -> Mapping[str, float]:
        pictures = data.data if isinstance(data, Viewed) else data
        inputs, rows, centroids = Whole(pictures, asked(ctx.config, Landmarks)), [], Centroids()
        at_once = 64 if hasattr(pictures, "images") else 1  # files differ in size
        for batch in ctx.batches(inputs, at_once, "pictures"):
            descriptors, u, v, fields = model.look(batch)
            centroids.add(u, v, fields)
            rows.append(descriptors.float().cpu())
        judged = _judged(pictures, ctx.gather(torch.cat(rows)))
        parts: dict[str, list[Tensor]] = {name: [] for name in judged.truths}
        for queries in torch.arange(len(judged)).split(AT_ONCE):
            far = distances(judged.queries[queries], judged.gallery)
            for name, truth in judged.truths.items():
                parts[name].append(average_precision(far, truth, queries.tolist()))
        return scores({name: torch.cat(part) for name, part in parts.items()}) | centroids.scores(ctx.gather)

    def infer(self, ctx: Ctx, model: Network, inputs: Inputs) -> Bent:
        return predict.described(ctx, model, inputs, lambda picture: whole(asked(ctx.config, Landmarks), picture))

    def render(self, ctx: Ctx, inputs: Inputs, result: Bent) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Any) -> Sequence[Artifact]:
        view = asked(ctx.config, Landmarks)
        return report(ctx, models, Viewed(data, [0] * len(data), view)) if hasattr(data, "images") else ()


def _birds(view: Landmarks, split: str) -> Any:
    others = torch.tensor([n for n in range(KINDS) if (n in HELD_OUT) == (split != "train")])
    wanted = view.count if split == "train" else max(view.count // 2, 16)
    return embedded_birds(view, split, wanted * KINDS // len(others)).of_kinds(others)


def _become(data: PictureFiles, rows: Tensor) -> Clusters:
    made = data.become(rows)
    if not isinstance(made, Clusters):
        raise VergenceError("these pictures are for evaluation only: there are no clusters to train on")
    return made


def _judged(pictures: Any, rows: Tensor) -> Judged:
    if isinstance(pictures, PictureFiles):
        made = pictures.become(rows)
        return made.judged() if isinstance(made, Clusters) else made
    return Clusters(rows, pictures.labels, torch.arange(len(rows)), where="embedded").judged()
