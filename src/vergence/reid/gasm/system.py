"""GASM as a system: saliency learned from teachers, and rankings by matched locations, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import EMBEDDED
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.metrics.ranking import Ranked, distances, rank
from vergence.nn.resnet import load_imagenet
from vergence.nn.saliency import map_loss
from vergence.ops.triplet import batch_hard
from vergence.reid.crowds import Population, population
from vergence.reid.data import LAYOUTS, Balanced, Viewed, judged
from vergence.reid.gasm import predict
from vergence.reid.gasm.claims import CLAIMS
from vergence.reid.gasm.model import Described, SaliencyNetwork, build, described, pair_distances
from vergence.reid.gasm.pictures import draw
from vergence.reid.gasm.settings import COMPARED, SETTINGS, Config, Facts, Inputs, Matching, compared_by
from vergence.reid.protocol import rank_people, refuse_unmatched, scores_of
from vergence.reid.targets import FILES
from vergence.reid.taught import RenderedTeachers, Taught, TeacherFiles, Teachers

Ctx = Context[Config, Facts]
HELD = 4 << 30
"""Bytes of local features of queries that are held at a time; the gallery passes by once for each such group."""
BATCH = 64


class GASMSystem(System[Config, Facts, SaliencyNetwork, Viewed, predict.Compared]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Viewed:
        asked = ctx.config.data
        own = "train" if split == "train" else "test"  # as for public data, validation is the test
        people = max(share(asked.people, own, of=2), 2)
        pictures = read(
            asked.source,
            self.layouts,
            split,
            embedded=lambda: population(
                people, asked.height, asked.width, own, tuple(range(asked.cameras)), asked.shots, "queries"
            ),
        )
        if split != "train":
            return Viewed(pictures, asked)
        if not ctx.config.taught:
            return Balanced(pictures, asked, asked.each)
        cells = ctx.config.model.cells(asked.height, asked.width)
        return Taught(pictures, asked, asked.each, _teachers(ctx.config, pictures), cells)

    def facts(self, ctx: Ctx, data: Viewed) -> Facts:
        if (source := ctx.config.data.source) != EMBEDDED:
            refuse_unmatched(self.data(ctx, "val").data, source)
        return Facts(len(set(data.data.identities)))

    def build(self, config: Config, facts: Facts) -> SaliencyNetwork:
        return build(config.model, facts.classes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, 3, config.data.height, config.data.width),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {"range": [0, 1], "resize": [data.height, data.width], "mean": data.mean, "std": data.std}

    def load_pretrained(self, config: Config, model: SaliencyNetwork, state: Mapping[str, Any]) -> str:
        return load_imagenet(model.backbone, state)

    # Training ---------------------------------------------------------------------------------------------------------

    def losses(self, ctx: Ctx, model: SaliencyNetwork, batch: Any) -> Mapping[str, Tensor]:
        """Eq. 3: maps towards those of the teachers, cross-entropy, and triplets of the hardest examples."""
        weights, (pictures, labels) = ctx.config.losses, batch[:2]
        answers = model.answers(pictures)
        losses = {
            "identity": F.cross_entropy(answers.logits, labels, label_smoothing=weights.smoothing),
            "triplet": batch_hard(answers.pooled, labels, weights.margin),
        }
        if ctx.config.taught and answers.maps is not None:
            losses["mask"] = weights.mask * map_loss(answers.maps.mask, batch.mask)
            losses["pose"] = weights.pose * map_loss(answers.maps.parts, batch.parts)
        return losses

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: SaliencyNetwork, data: Viewed) -> Mapping[str, float]:
        config = ctx.config
        queries, gallery = judged(data.data)
        if config.protocol.rerank:
            pooled = torch.cat([described(model, batch[0]).pooled for batch in ctx.batches(data, BATCH)])
            ranked = rank_people(config.protocol, ctx.gather(pooled).cpu(), queries, gallery)
            return scores_of(ctx, ranked, data.data)
        ways = {"": config.matching}
        if config.matching.compare and config.model.saliency != "none":
            ways |= {name: compared_by(name, config.matching) for name in COMPARED}
        found = {
            name: rank(far, queries, gallery, config.protocol.area)
            for name, far in ranked_distances(ctx, model, data, ways).items()
        }
        scores = {**scores_of(ctx, found[""], data.data), **_by_hiding(found[""], data.data)}
        for name in found.keys() - {""}:
            scores |= {f"map_{name}": found[name].mean_precision, f"rank1_{name}": found[name].cmc(1)}
        return {name: scores[name] for name in self.metrics if name in scores}

    def infer(self, ctx: Ctx, model: SaliencyNetwork, inputs: Inputs) -> predict.Compared:
        return predict.find(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: predict.Compared) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, SaliencyNetwork], data: Viewed) -> Sequence[Artifact]:
        return draw(ctx, models, data)


def _teachers(config: Config, pictures: Any) -> Teachers:
    if isinstance(pictures, Population):
        return RenderedTeachers(pictures)
    if not config.data.teachers:
        raise VergenceError(
            "the saliency is learned from teachers of the training pictures: name their folder with --data.teachers "
            f"({FILES}), or train without them, --variant self-attention or baseline"
        )
    return TeacherFiles.of(Path(config.data.teachers), pictures.paths)


def _by_hiding(ranked: Ranked, data: Any) -> Mapping[str, float]:
    """Mean average precision of the queries of which less is hidden, and more: halves by the share of hidden joints."""
    if not isinstance(data, Population):
        return {}
    state = data.joints[: data.queries, :, 2]
    hidden = (state == 0).float().mean(1)
    much = torch.zeros(len(hidden), dtype=torch.bool).index_fill_(0, hidden.argsort(stable=True)[len(hidden) // 2 :], 1)
    halves = {"map_little": ~much & ranked.judged, "map_much": much & ranked.judged}
    return {name: float(ranked.precision[rows].mean() * 100) for name, rows in halves.items() if rows.any()}


@dataclass(frozen=True)
class _Part:
    """Some pictures of a test set, each with its place."""

    data: Viewed
    places: range

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.data[self.places[index]].picture, self.places[index]


def ranked_distances(
    ctx: Ctx, network: SaliencyNetwork, data: Viewed, ways: Mapping[str, Matching]
) -> dict[str, Tensor]:
    """Distances (queries, gallery) in several ways. Local features of the gallery are compared as they pass and not
    kept: 19,732 pictures of Market-1501 would take 31 GB."""
    count, matching = data.data.queries, ctx.config.matching
    gallery = _Part(data, range(count, len(data)))
    view = ctx.config.data
    rows, columns = ctx.config.model.cells(view.height, view.width)
    group = max(HELD // (4 * rows * columns * network.backbone.outputs), 1)
    pooled = None
    if len(gallery) > matching.full and any(way.local != "none" for way in ways.values()):
        pooled = ctx.gather(torch.cat([described(network, x).pooled for x, _ in ctx.batches(gallery, BATCH)]))
    parts: dict[str, list[Tensor]] = {name: [] for name in ways}
    for start in range(0, count, group):
        asked = _Part(data, range(start, min(start + group, count)))
        batches = [described(network, pictures) for pictures, _ in ctx.batches(asked, BATCH)]
        queries = Described(*(ctx.gather(torch.cat(tensors)) for tensors in zip(*batches, strict=True)))
        close = None if pooled is None else _nearest(distances(queries.pooled, pooled), matching.top)
        blocks: dict[str, list[Tensor]] = {name: [] for name in ways}
        for pictures, places in ctx.batches(gallery, BATCH):
            seen = described(network, pictures)
            near = None if close is None else close[:, places - count]
            for name, way in ways.items():
                blocks[name].append(pair_distances(way, queries, seen, near).mT)
        for name, found in blocks.items():
            parts[name].append(ctx.gather(torch.cat(found)).mT.cpu())
    return {name: torch.cat(found) for name, found in parts.items()}


def _nearest(far: Tensor, count: int) -> Tensor:
    """Which gallery pictures are among the nearest ``count`` of each query, (Q, G)."""
    nearest = far.topk(min(count, far.shape[1]), largest=False).indices
    return torch.zeros_like(far, dtype=torch.bool).scatter_(1, nearest, True)


SYSTEM = GASMSystem()
