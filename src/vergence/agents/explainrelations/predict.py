"""Relations in a user's picture: ranked triplets with what each rests on, written and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vergence.agents.detections import Detections, as_objects, read_detections
from vergence.agents.explaining import Reading, Relevance, pair_scores, ranked, relevance
from vergence.agents.explainrelations.model import RelationNetwork
from vergence.agents.explainrelations.pictures import Arrow, draw_result
from vergence.agents.explainrelations.settings import Config, Facts, Inputs
from vergence.agents.features import region_features
from vergence.agents.graphs import EDGE_NAMES, Batch, Objects, Sample, Truth, Wiring, collated
from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.result import Result
from vergence.core.errors import VergenceError
from vergence.core.files import write_json, write_table
from vergence.data.images import read_image
from vergence.drawing.figure import colours

Ctx = Context[Config, Facts]
PARTS = ("subject: shape", "subject: class", "subject: look", "object: shape", "object: class", "object: look",
         "pair: distance", "pair: direction", "pair: overlap", "pair: size ratio")  # fmt: skip
"""What a triplet can rest on."""
FAINT = 0.002
"""Triplets with a smaller share of the best one's score are listed but not drawn."""
BYTES_PER_PAIR = 4 * 12
"""Memory of a pair of objects, per unit of width: states and gradients."""


@dataclass(frozen=True, eq=False)
class Relations(Result):
    """Ranked relations between the objects of a picture."""

    picture: Tensor
    """(3, H, W), bytes."""
    boxes: Tensor
    """Objects, (n, 4): left, top, right, bottom in pixels."""
    names: tuple[str, ...]
    """Class of each object."""
    detected: Tensor
    """The detector's score of each object, (n,)."""
    predicates: tuple[str, ...]
    """All predicates that the weights know."""
    chances: Tensor
    """Probability that the picture shows each predicate, (K,)."""
    triplets: Tensor
    """(t, 3): subject, predicate, object; the best first. Subject and object number the boxes."""
    scores: Tensor
    """(t,)."""
    relevances: Tensor
    """(t, 3): relevance of the subject, of the pair and of the object (L1 norms of gradients of the logit)."""
    rests: Tensor
    """(t, 10): relevance of shape, class and look of the subject, of the object, and of distance, direction, overlap
    and size ratio of the pair."""

    def sentences(self) -> list[str]:
        """The triplets in words."""
        return [f"{self.names[s]} {self.predicates[k]} {self.names[o]}" for s, k, o in self.triplets.tolist()]

    def summary(self) -> Mapping[str, Any]:
        likely = {name: round(float(p), 3) for name, p in zip(self.predicates, self.chances, strict=True) if p > 0.5}
        rows = {
            sentence: round(float(score), 4) for sentence, score in zip(self.sentences()[:5], self.scores, strict=False)
        }
        return {"objects": len(self.names), "predicates": likely, "best triplets": rows}


def relations(ctx: Ctx, model: RelationNetwork, inputs: Inputs) -> Relations:
    """The best triplets of a picture with its detections."""
    picture = read_image(inputs.image)
    objects = _objects(inputs, picture, ctx)
    count = len(objects.labels)
    if count < 2:
        many = "no object" if not count else "only one object"
        raise VergenceError(
            f"{inputs.image.name} has {many} with a score of at least {inputs.score:g}: a relation needs two"
        )
    ctx.need(BYTES_PER_PAIR * ctx.config.model.width * count**2, f"relating {count:,} objects")
    wiring = Wiring(ctx.config.model.edges, ctx.facts.classes.index("person") if _human(ctx) else -1)
    empty = Truth(objects.boxes[:0], objects.labels[:0], torch.zeros(0, 3, dtype=torch.long))
    sample = Sample(objects, empty, torch.zeros(len(ctx.facts.predicates)), empty.triplets, torch.zeros(0))
    batch: Batch = ctx.to_device(collated([sample], wiring))
    if not len(batch.graphs.owner):
        raise VergenceError(f"{inputs.image.name} shows no person, and these weights relate people to things only")
    if model.supervised:
        raise VergenceError("these weights were trained on pairs: there is nothing to explain (variant supervised)")
    found = relevance(model, batch.graphs, inputs.predicates)
    scores = pair_scores(found, batch.graphs, Reading(inputs.mode))
    best = ranked(scores, found.chosen, batch, inputs.triplets, model.prior if inputs.prior == "frequency" else None)
    start, end = batch.graphs.ends[:, best.edge]
    shown = torch.stack([found.nodes[best.place, start], found.edges[best.place, best.edge],
                         found.nodes[best.place, end]], 1)  # fmt: skip
    return Relations(
        picture, objects.boxes, tuple(ctx.facts.classes[label] for label in objects.labels.tolist()), objects.scores,
        ctx.facts.predicates, found.logits[0].sigmoid().float().cpu(),
        torch.stack([start, best.predicate, end], 1).cpu(), best.score.float().cpu(), shown.float().cpu(),
        _rests(found, best.place, best.edge, start, end).float().cpu(),
    )  # fmt: skip


def _human(ctx: Ctx) -> bool:
    return ctx.config.data.graph == "human" and "person" in ctx.facts.classes


def _objects(inputs: Inputs, picture: Tensor, ctx: Ctx) -> Objects:
    """Detections of the file, or boxes with their classes, with region features."""
    if inputs.detections.strip():
        found = read_detections(Path(inputs.detections.strip()).expanduser(), inputs.image.name)
    else:
        corners = np.array([[b.x, b.y, b.x + b.width, b.y + b.height] for b in inputs.boxes], float)
        found = Detections("the boxes given", corners, np.ones(len(corners)), tuple(inputs.names()))
    height, width = picture.shape[-2:]
    objects = as_objects(found, ctx.facts.classes, height, width, inputs.score, inputs.unknown)
    channels = objects.features.shape[1]
    if ctx.config.data.features == "file":
        if channels != ctx.facts.channels:
            raise VergenceError(
                f"{found.source} has region features of {channels} channels: these weights need {ctx.facts.channels} "
                "(an .npz file with 'features' (n, channels, 7, 7))"
            )
        return objects
    # Weights that were trained on our own features get them, whatever the file has.
    return objects._replace(features=region_features(picture, objects.boxes, ctx.config.data.features))


def _rests(found: Relevance, place: Tensor, edge: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Relevance (t, 10) of the parts of triplets. Ten numbers per edge, as in the authors' code, are summed by kind."""
    numbers = found.edge_parts[place, edge]
    kinds = ("distance", "direction", "overlap", "size ratio")
    names = EDGE_NAMES if numbers.shape[1] == len(EDGE_NAMES) else (
        "distance", *["direction"] * 6, "overlap", *["size ratio"] * 2)  # fmt: skip
    own = torch.tensor([kinds.index(name) for name in names], device=numbers.device)
    pair = numbers.new_zeros(len(numbers), len(kinds)).index_add(1, own, numbers)
    return torch.cat([found.node_parts[place, start], found.node_parts[place, end], pair], 1)


def render(ctx: Ctx, inputs: Inputs, result: Relations) -> Sequence[Artifact]:
    """Writes the triplets as JSON and CSV, and draws them."""
    stem = inputs.image.stem
    boxes = [[round(v, 2) for v in box] for box in result.boxes.tolist()]
    shares = result.rests / result.rests.sum(1, keepdim=True).clamp(min=1e-30)
    rows = []
    for number, ((s, k, o), words) in enumerate(zip(result.triplets.tolist(), result.sentences(), strict=True)):
        subject, pair, other = result.relevances[number].tolist()
        rows.append({
            "rank": number + 1, "triplet": words, "score": float(result.scores[number]),
            "predicate": result.predicates[k], "probability": float(result.chances[k]),
            "subject": {"object": s, "class": result.names[s], "box": boxes[s], "relevance": subject},
            "pair": {"relevance": pair},
            "object": {"object": o, "class": result.names[o], "box": boxes[o], "relevance": other},
            "rests on": dict(zip(PARTS, (round(v, 4) for v in shares[number].tolist()), strict=True)),
        })  # fmt: skip
    document = ctx.folder / f"{stem}-relations.json"
    write_json(document, {
        "image": inputs.image.name, "score": inputs.mode, "prior": inputs.prior,
        "predicates": dict(zip(result.predicates, result.chances.tolist(), strict=True)),
        "objects": [{"class": n, "box": b, "score": float(d)}
                    for n, b, d in zip(result.names, boxes, result.detected, strict=True)],
        "triplets": rows,
    })  # fmt: skip
    heading = ["rank", "subject", "predicate", "object", "score", "probability", "subject_box", "object_box",
               "relevance_subject", "relevance_pair", "relevance_object"]  # fmt: skip
    table = write_table(ctx.folder / f"{stem}-relations.csv", heading, [
        [row["rank"], row["subject"]["class"], row["predicate"], row["object"]["class"], f"{row['score']:.6g}",
         f"{row['probability']:.4f}", *(" ".join(map(str, row[end]["box"])) for end in ("subject", "object")),
         *(f"{value:.6g}" for value in result.relevances[number].tolist())]
        for number, row in enumerate(rows)
    ])  # fmt: skip
    tints = dict(zip(result.predicates, colours(len(result.predicates)), strict=True))
    arrows = [Arrow(s, result.predicates[k], o, tints[result.predicates[k]]) for s, k, o in result.triplets.tolist()]
    shown = max(int((result.scores >= FAINT * result.scores.max()).sum()), 1) if len(rows) else 0
    drawn = draw_result(ctx.folder / f"{stem}-relations.png", result.picture, boxes, result.names, arrows[:shown],
                        result.scores.tolist()[:shown], [row["rests on"] for row in rows[:shown]])  # fmt: skip
    return [
        Artifact("image", drawn, "The best relations as arrows from subject to object, and what each rests on."),
        Artifact("json", document, "Triplets with scores, boxes and relevances."),
        Artifact("table", table, "The same as a table."),
    ]
