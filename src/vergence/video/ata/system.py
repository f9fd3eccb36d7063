"""ATA as a system: video transformers with different temporal modelling, under one protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import Spread
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.data.classes import Classes
from vergence.data.layouts import read, share
from vergence.drawing.classes import SAMPLES
from vergence.nn.video_vit import VideoViT
from vergence.video.ata import predict
from vergence.video.ata.claims import CLAIMS
from vergence.video.ata.model import configured, load_image_weights, respond
from vergence.video.ata.pictures import followed, responses, shown
from vergence.video.ata.predict import Labels
from vergence.video.ata.settings import SETTINGS, Config, Inputs
from vergence.video.data import Clips, Sample, even_places, middle_clip
from vergence.video.examples import classified_clips
from vergence.video.layouts import LAYOUTS, folded
from vergence.video.protocol import SKIPPED, accuracy, mean_scores, say_damaged
from vergence.video.synth import turning

Ctx = Context[Config, Classes]


class ATASystem(System[Config, Classes, VideoViT, Clips, Labels]):
    settings = SETTINGS
    layouts = LAYOUTS
    claims = CLAIMS

    def data(self, ctx: Ctx, split: str) -> Clips:
        asked = ctx.config.data
        count = share(asked.count, split)
        videos = read(
            asked.source,
            folded(asked.fold),
            split,
            embedded=lambda: turning(count, asked.frames, asked.size, asked.scene, split),
        )
        return Clips(videos, asked, frozenset(SKIPPED[asked.damaged]))

    def facts(self, ctx: Ctx, data: Clips) -> Classes:
        return Classes(len(data.data.classes), tuple(data.data.classes))

    def build(self, config: Config, facts: Classes) -> VideoViT:
        return configured(config, facts.classes)

    def load_pretrained(self, config: Config, model: VideoViT, state: Mapping[str, Any]) -> str:
        drawn = load_image_weights(model, state, config.pretrained)
        new = ", ".join(drawn[:3]) + (", ..." if len(drawn) > 3 else "")
        return "the model starts from an image or video ViT" + (f"; new: {new}" if new else "")

    def example(self, config: Config, facts: Classes, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, config.data.frames, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        sampling = {"frames": data.frames, "sampling": data.sampling, "stride": data.stride, "rate": data.rate}
        pixels = {"range": [0, 1], "resize": data.resize, "crop": data.size, "mean": data.mean, "std": data.std}
        return sampling | pixels

    def losses(self, ctx: Ctx, model: VideoViT, batch: Any) -> Mapping[str, Tensor]:
        sample = Sample(*batch)
        say_damaged(ctx, sample)
        return {"cross_entropy": F.cross_entropy(model(sample.clips), sample.label)}

    def evaluate(self, ctx: Ctx, model: VideoViT, data: Clips) -> Mapping[str, float]:
        ctx.facts.refuse_others(data.data.classes)
        return accuracy(ctx, *mean_scores(ctx, _probabilities(model), data, data.view))

    def infer(self, ctx: Ctx, model: VideoViT, inputs: Inputs) -> Labels:
        return predict.label(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Labels) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, VideoViT], data: Clips) -> Sequence[Artifact]:
        """Draws matched patches and response maps of held-out clips."""
        first = models.get("ata") or next(iter(models.values()))
        names = [ctx.facts.name(number) for number in range(ctx.facts.classes)]
        artifacts = []
        for index in range(min(2, len(data))):
            video, label = data.data.video(index)
            clip = middle_clip(data.view, video, even_places(data.view, video)).to(ctx.device)
            frames, matches = shown(clip, data.view), first.matches(clip[None])[0].cpu()
            answers = {name: respond(model, clip) for name, model in models.items()}
            truth = f"truth: {names[label]}"
            artifacts.append(followed(ctx.folder / f"matches-{index}.png", frames, matches, truth))
            artifacts += responses(ctx.folder / f"responses-{index}", frames, answers, names)
        some = Spread(data, SAMPLES // 4)
        scored = {
            SETTINGS.label(name): mean_scores(ctx, _probabilities(model), some, data.view)
            for name, model in models.items()
        }
        return artifacts + classified_clips(ctx.folder, scored, some, ctx.facts.name)


def _probabilities(model: VideoViT) -> Callable[[Tensor], Tensor]:
    """As published for TimeSformer: softmax scores, to be averaged over clips and crops."""
    return lambda clips: model(clips).float().softmax(-1)


SYSTEM = ATASystem()
