"""BB-GM as a system: pairs of pictures with keypoints, training through the solver, and the field's protocol."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vergence.contract.config import override
from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read
from vergence.matching.bbgm import pictures, predict
from vergence.matching.bbgm.claims import CLAIMS
from vergence.matching.bbgm.model import BBGM, Costs, Graphs, build
from vergence.matching.bbgm.predict import Correspondences
from vergence.matching.bbgm.settings import SETTINGS, Config, Inputs, Pictures
from vergence.matching.keypoints import MEAN, STD, Listed, Pool, Sets, embedded, truth
from vergence.matching.marked import LAYOUTS, without_willow
from vergence.metrics.matching import by_class, counts
from vergence.ops.blackbox import through_solver
from vergence.ops.transport import log_sinkhorn

Ctx = Context[Config, NoFacts]
EDGES = 126
"""Directed edges of a Delaunay triangulation of 23 points, at most."""


class BBGMSystem(System[Config, NoFacts, BBGM, Sets, Correspondences]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Sets:
        asked = ctx.config.data
        pool = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split))
        if asked.clean and split == "train":
            pool = without_willow(pool)
        listed = isinstance(pool, Listed)
        count = len(pool) if listed else asked.pairs * len(pool.kinds)
        views = 2 if split == "train" else asked.views
        return Sets(pool, count, asked.side, views, asked.filter, asked.most, asked.outliers, ("sets", split))

    def slice(self, data: Sets) -> Any:
        return First(data, 16)

    def build(self, config: Config, facts: NoFacts) -> BBGM:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        count, side = 23, config.data.side
        place = torch.arange(count).div(count).mul(side).expand(batch, 2, count)
        start = torch.arange(EDGES) % count
        edges = torch.stack([start, (start + 1 + torch.arange(EDGES) // count) % count], -1)
        points = torch.stack([place, place.square() / side], -1)
        return torch.zeros(batch, 2, 3, side, side), points, edges.expand(batch, 2, EDGES, 2)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"mean": MEAN, "std": STD, "range": "0 to 1", "side": config.data.side, "edges": "Delaunay, both ways"}

    def load_pretrained(self, config: Config, model: BBGM, state: Mapping[str, Any]) -> str:
        own = model.state_dict()
        prefix = "" if any(name.startswith("trunk.") for name in state) else "trunk."
        named = {prefix + name: w for name, w in state.items()}
        fitting = {name: w for name, w in named.items() if name in own and own[name].shape == w.shape}
        if not any(name.startswith("trunk.features.") and name.endswith("weight") for name in fitting):
            raise VergenceError("these weights have no convolutions for the trunk: expected torchvision's vgg16_bn")
        model.load_state_dict(fitting, strict=False)
        return f"{len(fitting)} of {len(own)} tensors were loaded; the others are new"

    def losses(self, ctx: Ctx, model: BBGM, batch: Any) -> Mapping[str, Tensor]:
        """Hamming's loss of the matching that the solver finds, averaged over pairs; or cross-entropy of a plan."""
        costs = Costs(**model(batch["images"], batch["points"], batch["edges"]))
        costs = Costs(*(own.float() for own in costs))
        true = truth(batch["labels"], 0, 1)
        if ctx.config.model.matching == "sinkhorn":
            return {"hamming": cross_entropy(ctx.config, costs.nodes, true, batch["counts"])}
        graphs = Graphs.of(batch["edges"], batch["counts"], ctx.config.model)
        with_margin = costs.nodes + ctx.config.loss.margin * true
        found, _ = through_solver(graphs.solve, ctx.config.loss.strength, with_margin, costs.edges)
        return {"hamming": (found * (1 - true) + true * (1 - found)).sum((1, 2)).mean()}

    def evaluate(self, ctx: Ctx, model: BBGM, data: Sets) -> Mapping[str, float]:
        """Accuracy and F1 over all pairs of a kind, averaged over kinds. Of larger sets, the first pair is scored."""
        rows, other = [], []
        for batch in ctx.batches(data, 8, "sets"):
            true = truth(batch["labels"], 0, 1).cpu()
            sizes = batch["counts"].cpu()
            for row, (partner, proven) in enumerate(matched(ctx.config, model, batch)):
                found = (partner.unsqueeze(1) == torch.arange(true.shape[2])).float()
                rows.append((int(batch["kind"][row]), *counts(found, true[row, : len(partner)])))
                other.append((len(partner), int((partner < 0).sum()), int(proven), int(sizes[row].sum())))
        rows, other = ctx.gather(rows), ctx.gather(other)
        if not rows:
            raise VergenceError("there are no pairs to evaluate")
        accuracy, score = by_class(rows)
        points, alone, certain = (sum(row[part] for row in other) for part in range(3))
        unmatched = 100 * alone / max(points, 1)
        return {"f1": score, "accuracy": accuracy, "unmatched": unmatched, "proven": 100 * certain / len(rows)}

    def infer(self, ctx: Ctx, model: BBGM, inputs: Inputs) -> Correspondences:
        return predict.correspondences(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Correspondences) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, BBGM], data: Sets) -> Sequence[Artifact]:
        """Draws held-out pairs with the true lines and those of each network."""
        batch = ctx.to_device(data.collate([data[index] for index in range(min(4, len(data)))]))
        columns = {}
        for name, model in models.items():
            changed = self.settings.variants[name].changes if name in self.settings.variants else {}
            config = ctx.config if not changed else _as(ctx.config, changed)
            columns[self.settings.label(name)] = [partner for partner, _ in matched(config, model, batch)]
        return [pictures.pairs(ctx.folder / "matches.png", batch, columns)]


def _as(config: Config, changes: Mapping[str, Any]) -> Config:
    return override(config, {name: value for name, value in changes.items() if name.startswith("model.")})


def matched(config: Config, model: BBGM, batch: Mapping[str, Tensor]) -> list[tuple[Tensor, bool]]:
    """Partners in the second view of keypoints of the first, for each set of a batch, and whether they are proven to
    be the cheapest."""
    graphs = Graphs.of(batch["edges"], batch["counts"], config.model)
    encoded = model.encode(batch["images"], batch["points"], batch["edges"])
    views = batch["images"].shape[1]
    if views > 2:
        between = [model.costs(encoded, *pair) for pair in itertools.combinations(range(views), 2)]
        every = [graphs.together(row, between) for row in range(len(batch["images"]))]
        return [(one.partner(0, 1), one.optimal) for one in every]
    costs = model.costs(encoded, 0, 1)
    if config.model.matching == "sinkhorn":
        costs = costs._replace(nodes=agreement(config, costs.nodes, batch["counts"]))
    return [(one.partner, one.optimal) for one in graphs.matchings(costs)]


def plan_of(config: Config, cost: Tensor, size: tuple[int, int]) -> Tensor:
    """Sinkhorn's plan (n + 1, m + 1) for costs of one pair, with a last row and column for keypoints that stay alone,
    which costs nothing."""
    n, m = size
    cost = torch.nn.functional.pad(cost[:n, :m], (0, 1, 0, 1))
    rows, columns = cost.new_ones(n + 1), cost.new_ones(m + 1)
    rows[-1], columns[-1] = m, n
    loss = config.loss
    return log_sinkhorn(cost, loss.eps, iterations=loss.iterations, rows=rows, columns=columns)


def cross_entropy(config: Config, nodes: Tensor, true: Tensor, sizes: Tensor) -> Tensor:
    """The mean over pairs of the plan's surprise at true matches, and at keypoints that are truly alone."""
    total = nodes.new_zeros(())
    for cost, own, (n, m) in zip(nodes, true, sizes[:, :2].tolist(), strict=True):
        plan = plan_of(config, cost, (n, m)).clamp_min(1e-9).log()
        own = own[:n, :m]
        total = total - (own * plan[:n, :m]).sum()
        total = total - ((1 - own.sum(1)) * plan[:n, m]).sum() - ((1 - own.sum(0)) * plan[n, :m]).sum()
    return total / len(nodes)


def agreement(config: Config, nodes: Tensor, sizes: Tensor) -> Tensor:
    """Costs whose cheapest matching agrees with as much of the plan's mass as any can."""
    costs = torch.zeros_like(nodes)
    for row, (cost, (n, m)) in enumerate(zip(nodes.float(), sizes[:, :2].tolist(), strict=True)):
        plan = plan_of(config, cost, (n, m))
        costs[row, :n, :m] = plan[:n, m:] + plan[n:, :m] - plan[:n, :m]
    return costs


def _embedded(asked: Pictures, split: str) -> Pool:
    return embedded(asked.pool if split == "train" else max(asked.pool // 2, 4), asked.side, split)


SYSTEM = BBGMSystem()
