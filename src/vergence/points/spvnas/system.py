"""SPVNAS as a system: voxels with and without points beside them, the supernet and its search, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase, phases_of
from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.data.layouts import read
from vergence.metrics.segmentation import confusion, mean_iou
from vergence.points import scans
from vergence.points.architecture import Architecture, Sizes, macs, scaled
from vergence.points.batches import Augmentation, ScanSamples
from vergence.points.evolution import Candidate, Search, sample
from vergence.points.pointvoxel import Geometry
from vergence.points.scans import LAYOUTS, Labelled
from vergence.points.spvnas import predict
from vergence.points.spvnas.claims import CLAIMS
from vergence.points.spvnas.model import (
    Network,
    Supernet,
    build,
    calibrate,
    published,
)
from vergence.points.spvnas.pictures import compared
from vergence.points.spvnas.settings import SETTINGS, Config, Facts, Inputs, Sweeps
from vergence.points.sweeps import RenderedSweeps, Scanner, rendered_sweeps

Ctx = Context[Config, Facts]
Model = Network | Supernet
COUNTED = 100
"""Training scans whose classes are counted at most."""
RARE = 1e-4
"""Added to frequencies, so that classes that never occur have a finite weight."""
SMALL = (
    "person", "bicycle", "motorcycle", "bicyclist", "motorcyclist", "pole", "traffic-sign", "trunk", "pedestrian",
    "traffic_cone",
)  # fmt: skip
"""Classes of small things, whose mean is the metric ``small``."""


class SPVNASSystem(System[Config, Facts, Model, ScanSamples, Labelled]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> ScanSamples:
        asked = ctx.config.data
        data = read(asked.source, self.layouts, split, embedded=lambda: _embedded(asked, split))
        held = _held_out(ctx.config, len(data)) if split == "train" else 0
        how = Augmentation(most=asked.most, sector=asked.sector, drop=asked.drop, shine=asked.shine)
        return ScanSamples(data, how, stop=len(data) - held)

    def facts(self, ctx: Ctx, data: ScanSamples) -> Facts:
        if not ctx.config.balance:
            return Facts(data.classes.names)
        counts = torch.zeros(len(data.classes), dtype=torch.long)
        some = Spread(data, COUNTED)
        for index in range(len(some)):
            counts += some[index]["labels"].bincount(minlength=len(counts))
        counts[0] = 0
        return Facts(data.classes.names, tuple((counts / counts.sum().clamp(min=1)).tolist()))

    def build(self, config: Config, facts: Facts) -> Model:
        return build(config.model, len(facts.names) - 1, facts.architecture)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        points = 1000  # of each cloud
        return torch.zeros(batch * points, 4), torch.arange(batch).repeat_interleave(points)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"unit": "metres", "axes": "forward, left, up", "features": "x, y, z, intensity from 0 to 1"}

    def load_published(self, path: Path) -> tuple[Config, Facts, dict[str, Tensor]]:
        return published(path)

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        if config.model.kind != "spvnas":
            return {"train": config.train}
        return {name: phase for name, phase in phases_of(config).items() if phase.epochs or phase.steps}

    def start(self, ctx: Ctx, model: Model) -> Model:
        """Before the last phase: the search, and the network that it found."""
        if ctx.phase != "tune" or isinstance(model, Network):
            return model
        model = model.to(ctx.device)
        seen, known = self._calibration(ctx, model), self._held_out(ctx, model)
        found = _search(ctx, model, seen, [batch for batch, _ in known], [labels for _, labels in known])
        ctx.progress.say(
            f"found: mIoU {found.score:.1f} % on held-out scans with {found.macs / 1e9:.3g} G multiply-adds"
        )
        ctx.facts = replace(ctx.facts, architecture=found.arch, score=found.score)
        return calibrate(model.extract(found.arch), seen).train()

    def losses(self, ctx: Ctx, model: Model, batch: Any) -> Mapping[str, Tensor]:
        """Cross-entropy over the labelled points; of a random network of the supernet, where there is one."""
        points, cloud, labels = batch["points"], batch["cloud"], batch["labels"]
        if ctx.config.model.kind == "spvnas" and ctx.phase != "tune":
            space = ctx.config.model.space
            deep = ctx.phase == "train" and space.progressive
            stem = scaled(ctx.config.model.widths, ctx.config.model.cr)[0]
            logits = model(points, cloud, arch=sample(space, stem, ctx.generator, deep))
        else:
            logits = model(points, cloud)
        weights = _weights(ctx).to(logits.device)
        total = F.cross_entropy(logits.float(), labels - 1, weights[1:], ignore_index=-1, reduction="sum")
        return {"entropy": total / weights[labels].sum().clamp(min=1e-6)}

    def _calibration(self, ctx: Ctx, model: Model) -> list[Batch]:
        """Training batches, augmented as in training."""
        data, plan = self.data(ctx, "train"), ctx.config.search
        size = min(phases_of(ctx.config)["train"].batch, len(data))
        batches = []
        for number in range(plan.calibrate):
            source = generator(ctx.config.seed, "calibrate", number)
            chosen = torch.randperm(len(data), generator=source)[:size].tolist()
            batches.append(_prepared(ctx, model, data.collate([data.draw(index, source) for index in chosen])))
        return batches

    def _held_out(self, ctx: Ctx, model: Model) -> list[tuple[Batch, Tensor]]:
        """The training scans that architectures are scored on."""
        data = self.data(ctx, "train")
        rest = replace(data, start=len(data), stop=None)
        samples = [rest.collate([rest[index]]) for index in range(len(rest))]
        return [(_prepared(ctx, model, batch), ctx.to_device(batch["labels"])) for batch in samples]

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: Model, data: ScanSamples) -> Mapping[str, float]:
        """Intersection over union by class, over all points of the split; a supernet stands for its largest network."""
        network = model
        if isinstance(model, Supernet):
            network = calibrate(model.extract(model.full.arch), self._calibration(ctx, model))
        assert isinstance(network, Network)
        counts = torch.zeros(len(data.classes), len(data.classes), dtype=torch.long)
        sizes = []
        for batch in ctx.batches(data, 1, "scans"):
            geometry = network.geometry(batch["points"], batch["cloud"])
            logits = network(batch["points"], batch["cloud"], geometry)
            counts += confusion(logits.argmax(1) + 1, batch["labels"], len(counts)).cpu()
            sizes.append(geometry.sizes())
        counts = ctx.gather(counts.unsqueeze(0)).sum(0)
        if not counts.sum():
            raise VergenceError("no point of the scans has a label: there is nothing to evaluate")
        parts = _parts(network, _mean(sizes))
        total = sum(parts.values())
        small = [share for name, share in scans.by_class(counts, data.classes).items() if name in SMALL]
        return {
            **scans.scores(counts, data.classes),
            "small": sum(small) / len(small) if small else float("nan"),
            "gmacs": total / 1e9,
            "up": 100 * sum(value for name, value in parts.items() if name.startswith("up")) / total,
            "params": sum(p.numel() for p in network.parameters()) / 1e6,
            "found": ctx.facts.score,
        }

    def infer(self, ctx: Ctx, model: Model, inputs: Inputs) -> Labelled:
        network = model if isinstance(model, Network) else model.full
        return predict.labelled(ctx, network, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Labelled) -> Sequence[Artifact]:
        return scans.render(ctx, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, Model], data: ScanSamples) -> Sequence[Artifact]:
        return compared(ctx, models, data)


Batch = tuple[Tensor, Tensor, Geometry]
"""Points, the cloud of each, and where they lie."""


def _prepared(ctx: Ctx, model: Model, batch: dict[str, Tensor]) -> Batch:
    points, cloud = ctx.to_device(batch["points"]), ctx.to_device(batch["cloud"])
    return points, cloud, model.geometry(points, cloud)


def _search(
    ctx: Ctx, model: Supernet, seen: Sequence[Batch], known: Sequence[Batch], truth: Sequence[Tensor]
) -> Candidate:
    sizes = _mean([geometry.sizes() for _, _, geometry in known])
    classes = len(ctx.facts.names)

    def cost(arch: Architecture) -> float:
        return sum(macs(arch, model.full.projected, sizes, classes - 1, True).values())

    def score(arch: Architecture) -> float:
        network = calibrate(model.extract(arch), seen)
        counts = torch.zeros(classes, classes, dtype=torch.long)
        with torch.no_grad(), ctx.autocast():
            for (points, cloud, geometry), labels in zip(known, truth, strict=True):
                counts += confusion(network(points, cloud, geometry).argmax(1) + 1, labels, classes).cpu()
        return mean_iou(counts)

    seed = (ctx.config.seed, "search")
    searching = Search(
        ctx.config.search, model.space, model.full.arch.stem, cost, score, seed, ctx.folder / "search.json"
    )
    found: Candidate = ctx.agree(searching.run(ctx.progress, ctx.cancelled))
    return found


def _weights(ctx: Ctx) -> Tensor:
    """The weight of each class in the loss, 0 for the one that is ignored."""
    frequencies = torch.tensor(ctx.facts.frequencies or [0.0, *[1.0] * (len(ctx.facts.names) - 1)])
    weights = (frequencies + RARE) ** -ctx.config.balance
    weights[0] = 0
    return weights


def _parts(network: Network, sizes: Sizes) -> dict[str, float]:
    return macs(network.arch, network.projected, sizes, network.classes, network.transforms is not None)


def _mean(sizes: Sequence[Sizes]) -> Sizes:
    count = len(sizes)
    voxels, pairs = (
        tuple(sum(getattr(each, name)[level] for each in sizes) / count for level in range(5))
        for name in ("voxels", "pairs")
    )
    return Sizes(sum(each.points for each in sizes) / count, voxels, pairs)


def _held_out(config: Config, count: int) -> int:
    """Training scans that only the search sees: at most a quarter of all."""
    return min(config.search.scans, count // 4) if config.model.kind == "spvnas" else 0


def _embedded(asked: Sweeps, split: str) -> RenderedSweeps:
    scanner = Scanner(asked.beams, asked.columns)
    return rendered_sweeps(asked.scans if split == "train" else asked.tested, (split,), scanner)


SYSTEM = SPVNASSystem()
