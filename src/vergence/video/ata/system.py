"""ATA as a system: video transformers that differ in what they do over time, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact
from vergence.contract.settings import Learns, Metric, Published, Reported
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.data.layouts import find, parse
from vergence.metrics import topk_accuracy
from vergence.nn.video_vit import VideoViT
from vergence.video.ata import ABOUT
from vergence.video.ata.claims import CLAIMS
from vergence.video.ata.drawing import followed, responses
from vergence.video.ata.models import build, load_image_weights
from vergence.video.ata.prediction import Prediction
from vergence.video.ata.settings import PRESETS, Config, Facts, Inputs, variants
from vergence.video.data import Clips, Sample, Videos, even_places
from vergence.video.layouts import FOLDED, LAYOUTS
from vergence.video.synth import turning

Ctx = Context[Config, Facts]

SKIPPED = {"refuse": (), "skip-training": ("train",), "skip": ("train", "test")}
AT_ONCE = 256
"""Frames that evaluation holds at a time."""


class ATA(System[Config, Facts]):
    about = ABOUT
    config_type, facts_type, inputs_type = Config, Facts, Inputs
    presets = PRESETS
    variants = variants()
    metrics = {
        "top1": Metric("Top-1", "%"),
        "top5": Metric("Top-5", "%"),
        "skipped": Metric("skipped", "videos", higher_is_better=False, digits=0),
    }
    embedded = (
        "Embedded: generated clips of textured objects that wander over cluttered ground and turn half-way; the class "
        "is by how much. It shows only to who compares an object with itself, and objects move from patch to patch."
    )
    layouts = LAYOUTS
    reported = (
        Reported(
            "Table 1: Kinetics-400, ViT-B",
            {
                "averaging": {"top1": 76.0, "top5": 92.6},
                "joint": {"top1": 77.4, "top5": 92.8},
                "factorised": {"top1": 78.0, "top5": 94.3},
                "ata": {"top1": 79.6, "top5": 94.3},
            },
        ),
        Reported(
            "Table 2: Kinetics-400, ViT-B, ATA in some blocks",
            {
                "factorised": {"top1": 78.0, "top5": 93.7},
                "ata-1": {"top1": 79.3, "top5": 94.4},
                "ata-2": {"top1": 79.2, "top5": 94.3},
                "ata-3": {"top1": 79.4, "top5": 94.4},
                "ata": {"top1": 79.6, "top5": 94.3},
            },
        ),
    )
    published = {
        "paper": Published({"classes": 400}, (1, 400), parameters=121_566_352),
        "paper-something": Published({"classes": 174}, (1, 174), parameters=121_392_558),
    }
    learns = Learns(
        "cross_entropy",
        steps=30,
        share=0.6,
        # Turning takes hundreds of steps to learn; a few clips are learnt by heart in tens.
        changes={"data.count": 16, "train.batch": 16, "train.optimiser.schedule.warmup": 3},
    )
    claims = CLAIMS
    tiny_minutes = 1.0

    def data(self, ctx: Ctx, split: str) -> Clips:
        settings = ctx.config.data
        return Clips(self.videos(ctx, split), settings, frozenset(SKIPPED[settings.damaged]))

    def videos(self, ctx: Ctx, split: str) -> Videos:
        settings = ctx.config.data
        found = find(settings.source, self.layouts)
        if found is None:
            count = settings.count if split == "train" else settings.count // 4
            return turning(count, settings.frames, settings.size, settings.scene, split)
        layout, path = found
        name = parse(settings.source)[0]
        return cast(Videos, FOLDED[name](path, split, settings.fold) if name in FOLDED else layout.read(path, split))

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        classes = cast(Clips, data).data.classes
        return Facts(len(classes), tuple(classes))

    def build(self, config: Config, facts: Facts) -> nn.Module:
        model, data = config.model, config.data
        chosen = {"aligned": model.blocks} if model.blocks else {}
        made = build(
            model.temporal,
            size=model.size,
            classes=facts.classes,
            frames=data.frames,
            image=data.size,
            tubelet=model.tubelet,
            drop_path=model.drop_path,
            dropout=model.dropout,
            **chosen,
        )
        return _scaled(made) if model.init == "scaled" else made

    def start(self, ctx: Ctx, model: nn.Module) -> nn.Module:
        if ctx.config.model.image_weights:
            drawn = load_image_weights(cast(VideoViT, model), Path(ctx.config.model.image_weights))
            new = ", ".join(drawn[:3]) + (", ..." if len(drawn) > 3 else "")
            ctx.progress.say(
                f"the model starts from {ctx.config.model.image_weights}" + (f"; new: {new}" if new else "")
            )
        return model

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, config.data.frames, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        sampling = {"frames": data.frames, "sampling": data.sampling, "stride": data.stride, "rate": data.rate}
        return sampling | {
            "range": [0, 1], "resize": data.resize, "crop": data.size, "mean": data.mean, "std": data.std
        }  # fmt: skip

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        sample = Sample(*batch)
        if sample.damaged:
            ctx.log(damaged=float(len(sample.damaged)))
            for sentence in sample.damaged:
                ctx.progress.say(f"left out: {sentence}")
        return {"cross_entropy": F.cross_entropy(model(sample.clips), sample.label)}

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        assert model is not None
        clips = cast(Clips, data)
        own = clips.data.classes
        if ctx.facts.labels and tuple(own) != ctx.facts.labels:
            raise VergenceError(f"the weights know the classes {_some(ctx.facts.labels)}, the data has {_some(own)}")
        view = clips.view
        size = max(AT_ONCE // (view.frames * view.clips * view.crops), 1)
        found, damaged = [], []
        for batch in ctx.batches(data, size):
            sample = Sample(*batch)
            # As published for the host network: softmax scores averaged over clips and crops.
            scores = model(sample.clips.flatten(0, 1)).float().softmax(-1)
            found.append((scores.unflatten(0, sample.clips.shape[:2]).mean(1), sample.label))
            damaged += sample.damaged
        scores, labels = (ctx.gather(torch.cat(part)) for part in zip(*found, strict=True))
        damaged = ctx.gather(damaged)
        for sentence in damaged:
            ctx.progress.say(f"left out: {sentence}")
        known = labels >= 0
        if not known.any():
            raise VergenceError(f"not one video can be read: {damaged[0]}")
        result = {"top1": topk_accuracy(scores[known], labels[known])}
        if scores.shape[1] > 5:
            result["top5"] = topk_accuracy(scores[known], labels[known], 5)
        return result | ({"skipped": float(len(damaged))} if damaged else {})

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        return Prediction(ctx, cast(VideoViT, model), inputs, self.build).files()

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        """Held-out clips: which patches follow which, and what the networks respond to."""
        clips = cast(Clips, data)
        networks = {name: cast(VideoViT, model).to(ctx.device).eval() for name, model in models.items()}
        made = []
        for index in range(min(2, len(clips))):
            video, label = clips.data.video(index)
            clip = clips.view.middle(video, even_places(clips.view, video)).to(ctx.device)
            truth = ctx.facts.name(label)
            first = networks.get("ata") or next(iter(networks.values()))
            made.append(followed(ctx.folder / f"matches-{index}.png", first, clip, clips.view, f"truth: {truth}"))
            made += responses(ctx.folder / f"responses-{index}", networks, clip, clips.view, ctx.facts)
        return made


def _scaled(model: nn.Module) -> nn.Module:
    """Weights drawn anew so that layers of any width pass on what they get; those that start at zero stay there."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d) and (module.weight.is_meta or module.weight.any()):
            nn.init.trunc_normal_(module.weight, std=module.weight[0].numel() ** -0.5)
    return model


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


SYSTEM = ATA()
