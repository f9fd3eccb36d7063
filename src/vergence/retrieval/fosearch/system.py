"""FOSearch as a system: its stages of training, the protocol, and search in a user's gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase, phases_of
from vergence.data.layouts import read
from vergence.metrics.topk import topk_accuracy
from vergence.retrieval.foregrounds import Backgrounds, Cutouts, Encoded, Pairs, Triplets, Views, judged
from vergence.retrieval.fos_layouts import LAYOUTS
from vergence.retrieval.fos_protocol import search_scores, similar_scores
from vergence.retrieval.fosearch import pictures, predict
from vergence.retrieval.fosearch.claims import CLAIMS
from vergence.retrieval.fosearch.model import FOSearch, build, load_encoders, triplet
from vergence.retrieval.fosearch.predict import Fits
from vergence.retrieval.fosearch.settings import SETTINGS, Config, Facts, Inputs
from vergence.retrieval.staged import staged

Ctx = Context[Config, Facts]
TEACHING = ("foreground", "classifier", "centre_loss")
"""The parts of the model that the first stage trains."""


class FOSearchSystem(System[Config, Facts, FOSearch, Pairs, Fits]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Any:
        asked = ctx.config.data
        pairs: Pairs = read(asked.source, self.layouts, split, embedded=lambda: _embedded(ctx.config, split))
        if split != "train" or not ctx.phase:
            return pairs
        if ctx.phase == "scenes":
            return Backgrounds(pairs, asked)
        if ctx.phase == "teacher":
            return Cutouts(pairs, asked, asked.copies)
        return Triplets(pairs, asked, asked.copies, asked.pairs == "instance")

    def facts(self, ctx: Ctx, data: Pairs) -> Facts:
        return Facts(len(data.names), data.names, data.scene_sizes)

    def build(self, config: Config, facts: Facts) -> FOSearch:
        return build(config.model, facts.patterns, facts.scenes)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        side = config.data.size
        return torch.zeros(batch, 3, side, side), torch.full((batch, 4), 0.5), torch.zeros(batch, 3, side, side)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = config.data
        layout = "centre x, centre y, width and height of the box as shares of the square's side, in steps of 0.01"
        return {"range": [0, 1], "size": view.size, "mean": view.mean, "std": view.std, "layout": layout,
                "background": "the largest square, as near to the box as possible",
                "foreground": "in the middle of a white square"}  # fmt: skip

    def load_pretrained(self, config: Config, model: FOSearch, state: Mapping[str, Any]) -> str:
        return load_encoders(model, state)

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        """Without those that have no length, no data (classes of scenes) or nothing to do."""
        model = config.model
        absent = {
            "scenes": bool(config.pretrained) or not facts.scenes or model.background != "own",
            "teacher": not model.taught,
            "joint": not model.multitask,
        }
        return {
            name: phase
            for name, phase in phases_of(config).items()
            if (phase.epochs or phase.steps) and not absent.get(name, False)
        }

    def start(self, ctx: Ctx, model: FOSearch) -> FOSearch:
        settings = ctx.config.model
        query = ("head",) if settings.frozen else ("head", "background")
        with_query = TEACHING if ctx.phase == "joint" else () if settings.taught else ("foreground",)
        stages = {"scenes": ("background", "scenes"), "teacher": TEACHING}
        model.learn(*stages.get(ctx.phase, query + with_query))
        return model

    def rebuild(self, ctx: Ctx, model: FOSearch, data: Any, epoch: int) -> Mapping[str, Tensor] | None:
        """Before the second stage: patterns that the teacher gives to cut-outs without one, and features of random
        views by encoders that stay as they are, if the config asks for these."""
        asked, settings = ctx.config.data, ctx.config.model
        if epoch or not isinstance(data, Triplets):
            return None
        state = {}
        if asked.pseudo:
            patterns = data.data.patterns.clone()
            logits = model.classifier(_embeddings(ctx, model.foreground, data.data).to(ctx.device))
            unknown = patterns < 0
            patterns[unknown] = logits.argmax(1).cpu()[unknown]
            state["patterns"] = patterns
        if asked.offline and settings.taught and ctx.phase == "train":
            state |= _encoded(ctx, model, data.data)
        return state or None

    def rebuilt(self, ctx: Ctx, data: Any, state: Mapping[str, Tensor]) -> Any:
        if "patterns" in state:
            data = replace(data, data=replace(data.data, patterns=state["patterns"]))
        if "foregrounds" in state:
            return Encoded(data, state["foregrounds"], state.get("backgrounds"), state.get("layouts"))
        return data

    def losses(self, ctx: Ctx, model: FOSearch, batch: Any) -> Mapping[str, Tensor]:
        objective = ctx.config.objective
        if ctx.phase == "scenes":
            shown, labels = batch
            pairs = zip(model.scene_logits(shown), labels.unbind(1), strict=True)
            return {"scene": torch.stack([F.cross_entropy(logits, values) for logits, values in pairs]).sum()}
        if ctx.phase == "teacher":
            shown, labels = batch
            return self._teaching(ctx, model, model.foreground(shown), labels)
        background, layout, near, far, labels = batch
        # Vectors are features of pictures that a frozen encoder has seen before.
        query = model.asked(background, layout) if background.dim() == 2 else model.query(background, layout)
        if near.dim() > 2:
            near, far = model.foreground(torch.cat([near, far])).chunk(2)
        losses = {"triplet": triplet(query, near, far, objective.margin, objective.sign == "printed")}
        if ctx.phase == "joint":
            losses |= self._teaching(ctx, model, near, labels)
        return losses

    def _teaching(self, ctx: Ctx, model: FOSearch, embeddings: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Eq. 1; the centres follow."""
        objective = ctx.config.objective
        losses = {"pattern": F.cross_entropy(model.classifier(embeddings), labels)}
        if objective.centre:
            losses["centre"] = objective.centre * model.centre_loss(embeddings, labels)
        model.centre_loss.follow(embeddings, labels, objective.centre_rate)
        return losses

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: FOSearch, data: Pairs) -> Mapping[str, float]:
        """mAP over queries and cut-outs, and the accuracy of the teacher."""
        embeddings = _embeddings(ctx, model.foreground, data)
        queries, scenes = [], []
        for batch, layout in ctx.batches(judged(data, ctx.config.data)[0], 64):
            queries.append(model.query(batch, layout).float().cpu())
            if data.scenes is not None and model.sizes == data.scene_sizes:
                scenes.append(torch.stack([logits.argmax(1) for logits in model.scene_logits(batch)], 1).cpu())
        metrics = search_scores(ctx.gather(torch.cat(queries)), embeddings, data)
        metrics["similar"] = similar_scores(embeddings, data.patterns)
        if ctx.config.model.frozen:  # this encoder has never seen a cut-out
            plain = _embeddings(ctx, model.background, data)
            metrics["similar_plain"] = similar_scores(plain, data.patterns)
        if data.scenes is not None and scenes:
            metrics["scene"] = float((ctx.gather(torch.cat(scenes)) == data.scenes).all(1).double().mean() * 100)
        return metrics | self._classified(ctx, model, embeddings, data)

    def _classified(self, ctx: Ctx, model: FOSearch, embeddings: Tensor, data: Pairs) -> dict[str, float]:
        """The teacher's accuracy on cut-outs of patterns that it knows, by its classifier and by the nearest centre."""
        places = {name: place for place, name in enumerate(ctx.facts.names)}
        labels = torch.tensor([places.get(data.names[p], -1) if p >= 0 else -1 for p in data.patterns.tolist()])
        known = labels >= 0
        if not ctx.config.model.taught or not bool(known.any()):
            return {}
        logits = model.classifier(embeddings[known].to(ctx.device)).float().cpu()
        centres = F.normalize(model.centre_loss.centres.float().cpu(), dim=1)
        return {
            "top1": topk_accuracy(logits, labels[known]),
            "top5": topk_accuracy(logits, labels[known], min(5, logits.shape[1])),
            "centre1": topk_accuracy(F.normalize(embeddings[known], dim=1) @ centres.mT, labels[known]),
        }

    def infer(self, ctx: Ctx, model: FOSearch, inputs: Inputs) -> Fits:
        return predict.search(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Fits) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, FOSearch], data: Pairs) -> Sequence[Artifact]:
        """Held-out queries with the best cut-outs of each variant in the box."""
        return pictures.of_variants(ctx, models, data, self.settings.label)


def _embeddings(ctx: Ctx, encoder: nn.Module, data: Pairs) -> Tensor:
    """Embeddings (F, D) of all cut-outs."""
    gallery = judged(data, ctx.config.data)[1]
    return ctx.gather(torch.cat([encoder(batch).float().cpu() for batch in ctx.batches(gallery, 64)]))


def _encoded(ctx: Ctx, model: FOSearch, data: Pairs) -> dict[str, Tensor]:
    """Embeddings of several random views of all cut-outs, and if the background encoder is frozen too, features and
    layouts of as many of all queries."""
    asked, rows = ctx.config.data, dict[str, list[Tensor]]()
    for view in range(asked.offline):
        seed = (ctx.config.seed, view)
        cutouts = ctx.batches(Views(data, asked, (*seed, "cut-outs"), cutouts=True), 64)
        found = {"foregrounds": [model.foreground(batch).float().cpu() for batch in cutouts]}
        if ctx.config.model.frozen:
            queries = ctx.batches(Views(data, asked, seed), 64)
            pairs = [(model.features(*batch).float().cpu(), batch[1].cpu()) for batch in queries]
            found |= {"backgrounds": [features for features, _ in pairs], "layouts": [layouts for _, layouts in pairs]}
        for name, parts in found.items():
            rows.setdefault(name, []).append(ctx.gather(torch.cat(parts)))
    return {name: torch.stack(views) for name, views in rows.items()}


def _embedded(config: Config, split: str) -> Pairs:
    asked = config.data
    count, each = {"train": (asked.scenes, asked.each)}.get(
        split, (max(asked.scenes // 12, 5), max(asked.each // 4, 1))
    )
    return staged(count, each, asked.size, split)


SYSTEM = FOSearchSystem()
