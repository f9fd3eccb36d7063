"""Relations by explanation as a system: the explained graph network and its rivals, under one protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.agents import protocol
from vergence.agents.data import LAYOUTS, Collection
from vergence.agents.explaining import (
    Ranked,
    Reading,
    frequencies,
    heat_scores,
    pair_scores,
    ranked,
    relevance,
    supervised_scores,
)
from vergence.agents.explainrelations import predict
from vergence.agents.explainrelations.claims import CLAIMS
from vergence.agents.explainrelations.model import Model, PredicateCNN, RelationNetwork, build
from vergence.agents.explainrelations.pictures import draw_scenes
from vergence.agents.explainrelations.predict import Relations
from vergence.agents.explainrelations.settings import SETTINGS, Config, Facts, Inputs
from vergence.agents.features import SIDE
from vergence.agents.graphs import EDGES, Batch, Wiring
from vergence.agents.pool import Pool
from vergence.agents.protocol import Picture, Triplets
from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share

Ctx = Context[Config, Facts]
Pictures = Collection | Pool
AT_ONCE = 32
"""Graphs of one forward pass in evaluation."""
RARE = 10
"""Triplets with fewer training samples are HICO-DET's rare ones."""
OTHERS = {
    "paper": Reading("paper"),
    "logit": Reading("logit"),
    "normalised": Reading("normalised"),
    "frequency": Reading("normalised", prior=True),
    "nodes": Reading("normalised", "nodes"),
    "edges": Reading("normalised", "edges"),
    "random": Reading("normalised", "random"),
}
"""Other ways to score the triplets of the same network, each with metrics of its own."""


class ExplainRelations(System[Config, Facts, Model, Pictures, Relations]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Pictures:
        asked = ctx.config.data
        found: Pictures = read(asked.source, self.layouts, split, embedded=lambda: _embedded(ctx.config, split))
        if ctx.facts is not None and (found.classes, found.predicates) != (ctx.facts.classes, ctx.facts.predicates):
            raise VergenceError(f"{asked.source} has other classes or predicates than the weights were trained on")
        return found if isinstance(found, Pool) else _configured(found, ctx.config, split)

    def facts(self, ctx: Ctx, data: Pictures) -> Facts:
        return Facts(tuple(data.classes), tuple(data.predicates), data.channels)

    def build(self, config: Config, facts: Facts) -> Model:
        return build(config.model, facts)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        if config.model.network == "cnn":
            return (torch.zeros(batch, 3, *config.data.side),)
        objects = 3 * batch
        pairs = [(3 * g + a, 3 * g + b) for g in range(batch) for a in range(3) for b in range(3) if a != b]
        return (
            torch.zeros(objects, 3 + len(facts.classes)),
            torch.zeros(objects, facts.channels, SIDE, SIDE),
            torch.zeros(len(pairs), EDGES[config.model.edges]),
            torch.tensor(pairs).mT,
            torch.tensor([g for g in range(batch) for _ in range(6)]),
            torch.full((batch,), 3),
        )

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        if config.model.network == "cnn":
            return {"pixels": "0 to 1", "height and width": config.data.side}
        return {
            "nodes": "width / height, height / width, share of the picture, class probabilities",
            "visual": f"RoIAlign 7 x 7 of {config.data.features}",
            "edges": "distance / sqrt(W H), sine, cosine, IoU, area ratio, for every ordered pair (index)",
        }

    def start(self, ctx: Ctx, model: Model) -> Model:
        """The frequency prior comes from the validation pictures alone: no triplet of a training picture is used."""
        rows = [truth_triplets(truth).classes for truth in self.data(ctx, "val").truths()]
        table = frequencies(rows, len(ctx.facts.predicates), len(ctx.facts.classes))
        model.prior.copy_(table.to(model.prior))
        return model

    def losses(self, ctx: Ctx, model: Model, batch: Batch) -> Mapping[str, Tensor]:
        """Eq. 10, on pictures; full supervision has it on every pair."""
        if isinstance(model, PredicateCNN):
            return {
                "bce": F.binary_cross_entropy_with_logits(model(_pixels(batch, ctx.config.data.side)), batch.predicates)
            }
        if model.supervised:
            logits = model.edge_logits(*batch.graphs[:4])
            return {"bce": F.binary_cross_entropy_with_logits(logits, batch.relations)}
        return {"bce": F.binary_cross_entropy_with_logits(model(*batch.graphs), batch.predicates)}

    def evaluate(self, ctx: Ctx, model: Model, data: Pictures) -> Mapping[str, float]:
        asked = ctx.config.data
        rows: list[tuple[dict[str, list[Picture]], Tensor, Tensor]] = []
        for batch in ctx.batches(data, AT_ONCE, "pictures"):
            logits, found = candidates(model, batch, ctx.config, others=True)
            pictures = {name: _pictures(some, batch) for name, some in found.items()}
            rows.append((pictures, logits.float().cpu(), batch.predicates.float().cpu()))
        rows = ctx.gather(rows)
        if not rows:
            raise VergenceError("there is nothing to evaluate: no picture has objects")
        by_name = {name: [p for row in rows for p in row[0][name]] for name in rows[0][0]}
        own = by_name.pop("own")
        few, many = asked.at
        seen = data.seen()
        scores = {
            "recall": protocol.recall_at(own, few, threshold=asked.overlap),
            "recall_more": protocol.recall_at(own, many, threshold=asked.overlap),
            "unordered": protocol.recall_at(own, few, threshold=asked.overlap, ordered=False),
            "best": protocol.best_pair(own, threshold=asked.overlap),
            "best_unordered": protocol.best_pair(own, False, asked.overlap),
            "phrase": protocol.recall_at(own, few, "phrase", asked.overlap),
            "phrase_more": protocol.recall_at(own, many, "phrase", asked.overlap),
            "lenient": protocol.lenient_recall_at(own, few),
            "map_lenient": protocol.mean_precision(
                protocol.average_precisions(own, threshold=asked.overlap, lenient=True)
            ),
        }
        for name, kind in (("map", "relation"), ("map_phrase", "phrase"), ("map_subject", "subject")):
            precisions = protocol.average_precisions(own, kind, asked.overlap)  # type: ignore[arg-type]
            scores[name] = protocol.mean_precision(precisions)
            if name == "map" and seen:
                rare = {triplet for triplet in precisions if seen.get(triplet, 0) < RARE}
                scores["rare"] = protocol.mean_precision(precisions, rare)
                scores["nonrare"] = protocol.mean_precision(precisions, set(precisions) - rare)
                new = {triplet for triplet in precisions if triplet not in seen}
                scores["zero"] = protocol.recall_at(own, few, threshold=asked.overlap, among=new)
                scores["zero_more"] = protocol.recall_at(own, many, threshold=asked.overlap, among=new)
        # Of the pairs that are right but for their direction; a predicate that goes both ways is always right.
        scores["direction"] = 100 * scores["best"] / scores["best_unordered"] if scores["best_unordered"] else math.nan
        for name, some in by_name.items():
            if name in ("nodes", "edges", "random"):
                scores[f"pair_{name}"] = protocol.best_pair(some, False, asked.overlap)
            if name not in ("nodes", "edges"):
                scores[name] = protocol.recall_at(some, few, threshold=asked.overlap)
        return scores | _labels(torch.cat([row[1] for row in rows]), torch.cat([row[2] for row in rows]))

    def judged_by(self, config: Config) -> str:
        """As in the paper, the classifier is chosen by labels of pictures: relations are not known in training."""
        return "predicates"

    def slice(self, data: Pictures) -> Pictures:
        return First(data, 64)  # type: ignore[return-value]

    def infer(self, ctx: Ctx, model: Model, inputs: Inputs) -> Relations:
        if not isinstance(model, RelationNetwork):
            raise VergenceError(
                "prediction needs weights of a graph network: those of the variant gradcam have no graph"
            )
        return predict.relations(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Relations) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Model], data: Pictures) -> Sequence[Artifact]:
        """The best triplets of each variant, as arrows on held-out pictures."""
        return [draw_scenes(ctx, models, data, lambda model, batch: candidates(model, batch, ctx.config))]


def candidates(model: Model, batch: Batch, config: Config, others: bool = False) -> tuple[Tensor, dict[str, Ranked]]:
    """Logits (G, K) and the ranked triplets of a batch: ``own`` by the config, and by the ``others`` ways if asked."""
    explain = config.explain
    prior = model.prior if explain.prior == "frequency" else None
    if isinstance(model, PredicateCNN):
        logits, heat = model.heat(_pixels(batch, config.data.side))
        scores, chosen = heat_scores(heat, logits, batch, explain.predicates)
        return logits, {"own": ranked(scores, chosen, batch, explain.keep, prior)}
    if model.supervised:
        logits = model(*batch.graphs)
        scores, chosen = supervised_scores(model.edge_logits, batch.graphs, logits, explain.predicates)
        return logits, {"own": ranked(scores, chosen, batch, explain.keep, prior)}
    found = relevance(model, batch.graphs, explain.predicates)
    readings = {"own": Reading(explain.mode, explain.rests, prior is not None)} | (OTHERS if others else {})
    source = torch.Generator(batch.boxes.device).manual_seed(len(batch.graphs.owner))
    return found.logits, {
        name: ranked(
            pair_scores(found, batch.graphs, reading, source), found.chosen, batch, explain.keep,
            model.prior if reading.prior else None,
        )
        for name, reading in readings.items()
    }  # fmt: skip


def _pixels(batch: Batch, side: tuple[int, int]) -> Tensor:
    """Pictures for a network that looks at them, from 0 to 1."""
    if not batch.images.numel():
        raise VergenceError("this data has no pictures for a network of pixels")
    return F.interpolate(batch.images.to(batch.boxes.dtype) / 255, side, mode="area")


def _pictures(found: Ranked, batch: Batch) -> list[Picture]:
    """What was found in every picture of a batch, and the truth, on the processor."""
    start, end = (side[found.edge].cpu() for side in batch.graphs.ends)
    boxes, labels = batch.boxes.float().cpu(), batch.labels.cpu()
    classes = torch.stack([labels[start], found.predicate.cpu(), labels[end]], 1)
    every = Triplets(boxes[start], boxes[end], classes, found.score.float().cpu())
    lengths = torch.bincount(found.graph.cpu(), minlength=len(batch.truths)).tolist()
    parts = zip(*(part.split(lengths) for part in every), strict=True)
    return [(Triplets(*part), truth_triplets(truth)) for part, truth in zip(parts, batch.truths, strict=True)]


def truth_triplets(truth: Any) -> Triplets:
    """The annotated relations of a picture."""
    subject, predicate, other = truth.triplets.cpu().unbind(1)
    boxes, labels = truth.boxes.float().cpu(), truth.labels.cpu()
    classes = torch.stack([labels[subject], predicate, labels[other]], 1)
    return Triplets(boxes[subject], boxes[other], classes, torch.ones(len(subject)))


def _labels(logits: Tensor, known: Tensor) -> dict[str, float]:
    """How well predicates of whole pictures are told: the share of those that occur among the five most likely, and of
    all yes-or-no labels that are right."""
    top = torch.zeros_like(known).scatter(1, logits.topk(min(5, logits.shape[1]), 1).indices, 1.0)
    found = 100 * float((top * known).sum() / known.sum().clamp(min=1))
    return {"predicates": found, "accuracy": 100 * float(((logits > 0) == (known > 0)).float().mean())}


def _embedded(config: Config, split: str) -> Pool:
    if config.data.features == "file":
        raise VergenceError("embedded pictures have no feature files: --data.features is channels or lite0")
    person = 0 if config.data.graph == "human" else -1
    wiring = Wiring(config.model.edges, person)
    noisy = split != "train" and config.data.objects == "detected"
    return Pool(split, share(config.data.scenes, split), wiring, config.data.features, noisy)


def _configured(found: Collection, config: Config, split: str) -> Collection:
    """A data set as the config asks for it."""
    asked = config.data
    wiring = Wiring(config.model.edges, found.person() if asked.graph == "human" else -1)
    return replace(
        found,
        wiring=wiring,
        features=None if asked.features == "file" else asked.features,
        truth_only=split != "test" or asked.objects == "truth",
        side=asked.side if config.model.network == "cnn" else None,
    )


SYSTEM = ExplainRelations()
