"""LAttQE as a system: query expansion, learned and not, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Data, First
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.retrieval.data import Clusters, Judged, Pictures, TupleData, hardest
from vergence.retrieval.describe import describe_once
from vergence.retrieval.evaluator import Evaluator, scores
from vergence.retrieval.lattqe import pictures, predict
from vergence.retrieval.lattqe.claims import CLAIMS
from vergence.retrieval.lattqe.model import Expansion, LAttQE, build, contrastive, method_of, relevance_loss
from vergence.retrieval.lattqe.predict import Rankings, Trained
from vergence.retrieval.lattqe.settings import KS, SETTINGS, Config, Facts, Inputs
from vergence.retrieval.layouts import LAYOUTS, distractors
from vergence.retrieval.synth import world

Ctx = Context[Config, Facts]
Prepared = Judged | TupleData
"""Data ready for use: an evaluation set, or training tuples."""


class LAttQESystem(System[Config, Facts, Expansion, Prepared, Rankings]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Data:
        asked = ctx.config.data
        samples: Data = read(
            asked.test if asked.test and split == "test" else asked.source,
            self.layouts,
            split,
            embedded=lambda: world(share(asked.classes, split, of=2), split, ctx.config.seed),
        )
        return _Training(samples, len(samples)) if split == "train" else samples

    def prepare(self, ctx: Ctx, data: Any) -> Prepared:
        """Computes descriptors of pictures; then finds neighbours for training, or adds distractors to the gallery."""
        asked, samples = ctx.config.data, data.data if isinstance(data, _Training) else data
        if isinstance(samples, Pictures):
            samples = samples.become(describe_once(ctx, ctx.config.extractor, samples))
        if isinstance(data, _Training):
            return _tuples(ctx, samples)
        if isinstance(samples, Clusters):
            return samples.judged()
        return samples.with_distractors(distractors(asked.distractors)) if asked.distractors else samples

    def facts(self, ctx: Ctx, data: Prepared) -> Facts:
        return Facts((data.data.descriptors if isinstance(data, TupleData) else data.gallery).shape[1])

    def build(self, config: Config, facts: Facts) -> Expansion:
        return build(config.model, facts.dimension, facts.tempered)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return torch.zeros(batch, facts.dimension), torch.zeros(batch, config.model.ranks, facts.dimension)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"descriptors": "length 1", "neighbours": "nearest first, without the query itself"}

    # Training ---------------------------------------------------------------------------------------------------------

    def start(self, ctx: Ctx, model: Expansion) -> Expansion:
        if ctx.phase == "temper" and isinstance(model, LAttQE):
            model.temper()
            ctx.facts = replace(ctx.facts, tempered=True)
        return model

    def rebuild(self, ctx: Ctx, model: Expansion, data: TupleData, epoch: int) -> Mapping[str, Tensor]:
        """Draws a new pool and mines the hardest negatives of every query."""
        asked = ctx.config.data
        source = torch.Generator().manual_seed(ctx.generator.initial_seed() & 0x7FFF_FFFF_FFFF_FFFF)  # a CPU generator
        pool = torch.randperm(len(data.data.clusters), generator=source)[: asked.pool]
        return {"negatives": hardest(data.data, data.queries, pool, asked.negatives, ctx.device)}

    def rebuilt(self, ctx: Ctx, data: TupleData, state: Mapping[str, Tensor]) -> TupleData:
        return replace(data, negatives=state["negatives"])

    def losses(self, ctx: Ctx, model: Expansion, batch: Any) -> Mapping[str, Tensor]:
        if not isinstance(model, LAttQE):
            raise self.not_offered(f"training of {ctx.config.model.method}")
        settings = ctx.config.model
        query, neighbours, padding, relevant, positive, negatives = batch
        if model.log_temperature is not None:  # the second phase
            augmented = model.augment(query, neighbours, padding)[0]
            if settings.output == "direct":  # the output does not depend on the temperature
                augmented = augmented + 0 * model.log_temperature
            return {"contrastive": contrastive(augmented, positive, negatives, settings.margin)}
        encoded = model.encoded(query, neighbours, padding)
        expanded = model.from_encoded(encoded, query, neighbours, padding)[0]
        losses = {"contrastive": contrastive(expanded, positive, negatives, settings.margin)}
        if model.classifier is not None:
            logits = model.classifier(encoded[:, 1:])[..., 0]
            losses["auxiliary"] = settings.auxiliary * relevance_loss(logits, relevant, padding)
        return losses

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Expansion, data: Prepared) -> Mapping[str, float]:
        """mAP at the protocol's number of neighbours; in the test also at several k and with an augmented database."""
        judged, method, protocol = _judged(data, ctx.facts.dimension), method_of(model), ctx.config.protocol
        evaluator = Evaluator(ctx, judged)
        metrics = scores(evaluator.precisions(method, protocol.neighbours))
        if ctx.stage == "test":
            for k in KS:
                metrics[f"map_{k}"] = scores(evaluator.precisions(method, k))["map"]
        if protocol.database and (ctx.stage == "test" or ctx.phase == "temper"):
            database = evaluator.augmented(method_of(model, database=True), protocol.database)
            # Queries stay as they are, even those that are in the database.
            augmented = Evaluator(ctx, replace(judged, gallery=database))
            metrics |= scores(augmented.precisions(method, protocol.augmented), "dba")
        return metrics

    def needs_model(self, inputs: Inputs) -> bool:
        """Whether ``inputs`` need trained weights; the classic methods do not."""
        return inputs.method == "weights"

    def infer(self, ctx: Ctx, model: Expansion | None, inputs: Inputs) -> Rankings:
        extractor, neighbours = ctx.config.extractor, ctx.config.protocol.neighbours
        if model is None:  # without weights: a pretrained backbone, and the usual ten neighbours
            ready = replace(extractor, backbone="efficientnet-lite0", longest=512, scales=(1.0,))
            return predict.search(ctx, ready, 10, None, inputs)
        learned = inputs.method in ("auto", "weights")
        trained = Trained(method_of(model), ctx.facts.dimension) if learned else None
        return predict.search(ctx, extractor, neighbours, trained, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Rankings) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Expansion], data: Prepared) -> Sequence[Artifact]:
        """Sensitivity to k (Figure 3), gains by regime (Figure 4), and the weights themselves."""
        evaluator = Evaluator(ctx, _judged(data, ctx.facts.dimension))
        methods = {name: method_of(model) for name, model in models.items()}
        labels = {name: self.settings.label(name) for name in methods}
        neighbours = {
            name: self.configure("tiny", name).protocol.neighbours for name in methods if name in self.variants
        }
        return [
            pictures.sensitivity(ctx.folder, evaluator, methods, labels),
            pictures.regimes(
                ctx.folder, evaluator, {n: methods[n] for n in neighbours if n != "none"}, labels, neighbours
            ),
            pictures.weights(ctx.folder, evaluator, methods, labels),
        ]


class _Training(First):
    """Data to train on, before it is prepared."""


def _tuples(ctx: Ctx, data: Clusters | Judged) -> TupleData:
    if not isinstance(data, Clusters):
        raise VergenceError(
            "this data set has queries and ground truth but nothing to train on; train on sfm120k:PATH or on "
            "descriptors with labels, and give this one to --data.test"
        )
    asked = ctx.config.data
    clusters = data if data.pairs is not None else data.with_positives()
    kept = ctx.keep("neighbours", lambda: {"neighbours": clusters.neighbours(asked.most)})
    return TupleData(
        clusters,
        kept["neighbours"],
        least=asked.least,
        drop=asked.drop,
        ranks=asked.ranks,
        updates=asked.updates,
    )


def _judged(data: Prepared, dimension: int) -> Judged:
    judged = data.data.judged() if isinstance(data, TupleData) else data
    if judged.gallery.shape[1] != dimension:
        raise VergenceError(
            f"the model was trained on descriptors of {dimension} numbers, these have {judged.gallery.shape[1]}"
        )
    if not len(judged):
        raise VergenceError("there is nothing to evaluate: the data has no queries")
    return judged


SYSTEM = LAttQESystem()
