"""pyramidflow as a system: optical flow with every switch of the paper, under one protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, share
from vergence.data.photographs import Share
from vergence.matching.flying import flying_pairs
from vergence.matching.motion import LAYOUTS, Augment, Drawn, Joined, Moving
from vergence.matching.pyramidflow import pictures, predict
from vergence.matching.pyramidflow.claims import CLAIMS
from vergence.matching.pyramidflow.model import PyramidFlow, build, flow_loss, flows, pseudo_labels
from vergence.matching.pyramidflow.predict import MEAN, STD, MotionVideo, OpticalFlow, pixels
from vergence.matching.pyramidflow.settings import SETTINGS, Config, Frames, Inputs
from vergence.metrics.displacement import distances
from vergence.ops.flow import occluded
from vergence.rendering.pairs import flow_pairs

Ctx = Context[Config, NoFacts]


class PyramidFlowSystem(System[Config, NoFacts, PyramidFlow, Moving, OpticalFlow | MotionVideo]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Moving:
        asked = ctx.config.data
        augment = Augment(asked.crop, asked.scales, asked.flips, asked.photometric)
        return Moving(read(asked.source, self.layouts, split, lambda: _embedded(asked, split)), augment)

    def prepare(self, ctx: Ctx, data: Any) -> Moving:
        """Distillation: labels the training pairs by the teacher beforehand."""
        moving: Moving = data
        teacher = ctx.config.data.teacher
        if not teacher or ctx.stage != "fit":
            return moving
        kept = ctx.keep("labels", lambda: _labelled(ctx, Path(teacher), moving))
        return replace(moving, data=Taught(moving.data, kept))

    def slice(self, data: Moving) -> Moving:
        return replace(data, data=First(data.data, 4))

    def build(self, config: Config, facts: NoFacts) -> PyramidFlow:
        return build(config.model)

    def load_pretrained(self, config: Config, model: PyramidFlow, state: Mapping[str, Any]) -> str:
        """From a network of this system, as the paper's sequence of trainings does; or the encoder from DLA-34."""
        given = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        own = model.state_dict()
        known = {name: value for name, value in given.items() if name in own and own[name].shape == value.shape}
        if known:
            model.load_state_dict(own | known)
            return f"the network starts from {len(known)} of {len(own)} tensors of another one; the rest is new"
        base = getattr(model.encoder, "base", None)
        if base is None:
            raise VergenceError("ImageNet weights of DLA-34 start the encoder dlaup only, not vgg")
        own = base.state_dict()
        known = {name: value for name, value in given.items() if name in own and own[name].shape == value.shape}
        if not known:
            raise VergenceError(f"{config.pretrained} holds no weights of DLA-34: expected base_layer.0.weight")
        base.load_state_dict(own | known)
        return f"the encoder starts from {len(known)} of {len(own)} tensors of DLA-34; the rest is new"

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        height, width = config.data.crop
        return torch.zeros(batch, 3, height, width), torch.zeros(batch, 3, height, width)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return {"range": [0, 1], "mean": MEAN, "std": STD, "multiple": 2 ** _depth(config)}

    def losses(self, ctx: Ctx, model: PyramidFlow, batch: Any) -> Mapping[str, Tensor]:
        first, second = (pixels(batch[name]) for name in ("first", "second"))
        both = bool(batch["backward_valid"].any())
        found = model.levels(first, second, both)
        flow, valid = batch["flow"], batch["valid"]
        if both or model.settings.cues:
            flow, valid = torch.cat([flow, batch["backward"]]), torch.cat([valid, batch["backward_valid"]])
        loss, head = ctx.config.loss, model.settings.head
        supervised = flow_loss(found, flow, valid, model.settings, loss.share, loss.in_reach)
        if "taught" not in batch:
            return {head: supervised}
        taught, believed = batch["taught"], batch["taught_valid"]
        if len(flow) > len(taught):
            taught = torch.cat([taught, torch.zeros_like(taught)])
            believed = torch.cat([believed, torch.zeros_like(believed)])
        distilled = flow_loss(found, taught, believed, model.settings, in_reach=True)
        return {head: loss.supervised * supervised, "distilled": (1 - loss.supervised) * distilled}

    def evaluate(self, ctx: Ctx, model: PyramidFlow, data: Moving) -> Mapping[str, float]:
        """Means over all pixels of all pairs, as the benchmarks do; zero motion is scored beside the network."""
        sums = torch.zeros(len(_SUMS), 2, dtype=torch.float64)
        for batch in ctx.batches(data, 1, "pairs"):
            flow, backward = flows(model, pixels(batch["first"]), pixels(batch["second"]))
            sums += _scored(flow.float(), backward.float(), batch).cpu()
        total = ctx.gather(sums.unsqueeze(0)).sum(0)
        if not total[0, 1]:
            raise VergenceError("no pair has a pixel whose flow is known: there is nothing to evaluate")
        means = {
            name: float(value / count) if count else math.nan
            for name, (value, count) in zip(_SUMS, total.tolist(), strict=True)
        }
        return {name: 100 * value if name in ("fl", "fl_seen", "occlusion") else value for name, value in means.items()}

    def infer(self, ctx: Ctx, model: PyramidFlow, inputs: Inputs) -> OpticalFlow | MotionVideo:
        return predict.optical_flow(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: OpticalFlow | MotionVideo) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, PyramidFlow], data: Moving) -> Sequence[Artifact]:
        return pictures.of_variants(ctx, models, data)


class Taught:
    """Data with a teacher's flow beside the truth."""

    def __init__(self, data: Any, labels: Mapping[str, Tensor]) -> None:
        self.data, self.labels = data, labels

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        sample: dict[str, Tensor] = dict(self.data[index])
        taught = self.labels[f"flow_{index}"].float()
        return sample | {"taught": taught, "taught_valid": self.labels[f"valid_{index}"]}


def _labelled(ctx: Ctx, path: Path, data: Moving) -> dict[str, Tensor]:
    """The teacher's flow for every training pair, in half precision."""
    teacher, identity = ctx.load(path)
    if identity.system != "pyramidflow" or not isinstance(teacher, PyramidFlow):
        raise VergenceError(f"{path} holds weights of {identity.system}: a teacher is a network of pyramidflow")
    labels = {}
    with torch.no_grad():
        for index in ctx.progress.track(range(len(data)), "labels of the teacher"):
            sample = data[index]
            first, second = (pixels(sample[name][None].to(ctx.device)) for name in ("first", "second"))
            flow, good = believed_flow(teacher, first, second)
            labels[f"flow_{index}"], labels[f"valid_{index}"] = flow[0].half().cpu(), good[0].cpu()
    return labels


def believed_flow(teacher: PyramidFlow, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Pseudo-labels of pictures of any size: borders are repeated up to a multiple."""
    height, width = first.shape[-2:]
    padding = (0, -width % teacher.multiple, 0, -height % teacher.multiple)
    one, two = (torch.nn.functional.pad(picture, padding, mode="replicate") for picture in (first, second))
    flow, good = pseudo_labels(teacher, one, two)
    return flow[..., :height, :width], good[..., :height, :width]


_SUMS = ("epe", "fl", "epe_small", "epe_seen", "fl_seen", "epe_zero", "epe_small_zero", "occlusion")


def _scored(flow: Tensor, backward: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
    """Sums and counts (metrics, 2) of a batch, in the order of ``_SUMS``."""
    truth, valid = batch["flow"], batch["valid"]
    error, size = distances(flow, truth), distances(truth, torch.zeros_like(truth))
    bad = (error > 3) & (error > 0.05 * size)
    known, small = valid.flatten(), (valid & batch["small"]).flatten()
    seen = (valid & batch["visible"]).flatten()
    hidden, found = (valid & ~batch["visible"]).flatten(), occluded(flow, backward).flatten() & known
    rows = [(error, known), (bad, known), (error, small), (error, seen), (bad, seen), (size, known), (size, small)]
    sums = [(values[mask].double().sum(), mask.sum().double()) for values, mask in rows]
    sums.append((2 * (hidden & found).sum().double(), (hidden.sum() + found.sum()).double()))
    return torch.stack([torch.stack(pair) for pair in sums])


def _embedded(asked: Frames, split: str) -> Drawn | Joined:
    height, width = asked.size
    count = share(asked.pairs, split, of=12)
    kept: Share = "train" if split == "train" else "test"
    drawn: dict[str, Callable[..., dict[str, Tensor]]] = {"rendered": flow_pairs, "flying": flying_pairs}
    # Mixed data is judged on rendered pairs alone.
    kinds = list(drawn) if asked.scene == "mixed" and split == "train" else [asked.scene]
    kinds = ["rendered" if kind == "mixed" else kind for kind in kinds]
    parts = [Drawn(drawn[kind](count, height, width, asked.most, (split,), kept)) for kind in kinds]
    return parts[0] if len(parts) == 1 else Joined(parts)


def _depth(config: Config) -> int:
    return len(config.model.channels) - (config.model.encoder == "dlaup")


SYSTEM = PyramidFlowSystem()
