"""Temporal transformations as a system: pre-training on videos without labels, transfer, and what features know."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.context import Context
from vergence.contract.data import First, Spread
from vergence.contract.inputs import Artifact
from vergence.contract.system import System
from vergence.contract.training import Phase
from vergence.core.errors import VergenceError
from vergence.data.layouts import read, say_left_out, share
from vergence.video import tampered
from vergence.video.data import Sample
from vergence.video.laws import Lawful, lawful
from vergence.video.probes import AT_ONCE, described, neighbours_and_probes, time_tasks
from vergence.video.protocol import SKIPPED, accuracy, say_damaged
from vergence.video.tampered import Ask, Puzzle, Tampered, Timed
from vergence.video.temporaltransforms import pictures, predict
from vergence.video.temporaltransforms.claims import CLAIMS
from vergence.video.temporaltransforms.model import TemporalNet, build, pretext_losses
from vergence.video.temporaltransforms.predict import Playback
from vergence.video.temporaltransforms.settings import SETTINGS, Config, Facts, Inputs
from vergence.video.unlabelled import UNLABELLED, unlabelled

Ctx = Context[Config, Facts]
RATED = 16
"""Videos whose frame rate is looked up."""


class TemporalTransformsSystem(System[Config, Facts, TemporalNet, Timed, Playback]):
    settings = SETTINGS
    layouts = UNLABELLED
    claims = CLAIMS

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Any:
        """Clips with labels; in pre-training, those of the pretext task."""
        asked = ctx.config.data
        if split == "train" and ctx.phase == "pretrain":
            return self._tampered(ctx, self._videos(ctx, split, asked.unlabelled or asked.source))
        return Timed(self._videos(ctx, split, asked.source), asked, frozenset(SKIPPED[asked.damaged]))

    def _videos(self, ctx: Ctx, split: str, source: str) -> Any:
        asked = ctx.config.data
        own = "train" if split == "train" else "test"  # as for public data, validation is the test
        count = share(asked.count, own)
        return read(source, unlabelled(asked.fold), split, lambda: _embedded(count, asked.length, asked.resize, own))

    def _tampered(self, ctx: Ctx, videos: Any) -> Tampered:
        return Tampered(videos, ctx.config.data, frozenset(SKIPPED[ctx.config.data.damaged]), ask=_asked(ctx.config))

    def slice(self, data: Timed) -> Timed:
        return replace(data, data=First(data.data, 36))

    def facts(self, ctx: Ctx, data: Timed) -> Facts:
        videos = data.data
        if ctx.config.pretext.kind == "labels" and not videos.classes:
            raise VergenceError("supervised pre-training needs labels: expected class folders of videos")
        rates = []
        for number in range(len(some := Spread(videos, RATED))):
            try:
                rates.append(videos.video(some.place(number))[0].fps)
            except VergenceError:
                if ctx.config.data.damaged == "refuse":
                    raise
        rate = sorted(rates)[len(rates) // 2] if rates else 25.0
        return Facts(len(videos.classes), tuple(videos.classes), rate)

    def build(self, config: Config, facts: Facts) -> TemporalNet:
        return build(config, facts)

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (torch.zeros(batch, config.data.frames, 3, config.data.size, config.data.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        data = config.data
        return {"frames": data.frames, "range": [-1, 1], "resize": data.resize, "crop": data.size}

    def load_pretrained(self, config: Config, model: TemporalNet, state: Mapping[str, Any]) -> str:
        """Layers of another run, without its head and classifier."""
        own = model.state_dict()
        wanted = [name for name in own if name.startswith(("trunk.", "top."))]
        for name in wanted:
            if not isinstance(state.get(name), Tensor) or state[name].shape != own[name].shape:
                raise VergenceError(
                    f"the weights have no {name!r} of shape {tuple(own[name].shape)}: expected those of a run of "
                    "temporaltransforms with the same network"
                )
        model.load_state_dict({name: state[name] for name in wanted}, strict=False)
        return f"{len(wanted)} tensors are loaded; head and classifier are new"

    # Training ---------------------------------------------------------------------------------------------------------

    def phases(self, config: Config, facts: Facts) -> Mapping[str, Phase]:
        pretrain = not config.pretrained and config.pretext.kind != "none"
        first = {"pretrain": config.pretrain} if pretrain and (config.pretrain.epochs or config.pretrain.steps) else {}
        return first | ({"transfer": config.transfer} if _transfers(config, facts) else {})

    def start(self, ctx: Ctx, model: TemporalNet) -> TemporalNet:
        if ctx.phase == "transfer" and model.frozen:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name.startswith("classifier."))
        return model

    def losses(self, ctx: Ctx, model: TemporalNet, batch: Any) -> Mapping[str, Tensor]:
        if ctx.phase == "pretrain":
            puzzle = Puzzle(*batch)
            say_damaged(ctx, puzzle)
            return pretext_losses(model, puzzle.clips, puzzle.target, puzzle.kappa)
        sample = Sample(*batch)
        say_damaged(ctx, sample)
        if model.frozen:
            model.trunk.eval()  # their statistics are frozen too
            model.top.eval()
        return {"cross_entropy": F.cross_entropy(model.classify(sample.clips), sample.label)}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: TemporalNet, data: Timed) -> Mapping[str, float]:
        """Accuracy of the classifier, of the pretext task, nearest neighbours, and what probes on features find."""
        labelled = bool(data.data.classes) and bool(ctx.facts.classes)
        if labelled:
            ctx.facts.refuse_others(data.data.classes)
        found: dict[str, float] = {"top1": math.nan}
        if ctx.phase != "pretrain" and labelled:
            if model.classifier is not None:
                found |= self._classified(ctx, model, data)
            found |= self._known(ctx, model, data)
        if model.head is not None and model.frozen:
            found |= self._told(ctx, model, data)
        return found

    def _classified(self, ctx: Ctx, model: TemporalNet, data: Timed) -> dict[str, float]:
        answers = described(ctx, lambda c: model.classify(c).float().softmax(-1), data, data.view.clips,
                            data.view.frames)  # fmt: skip
        return accuracy(ctx, answers.features.mean(1), answers.labels, answers.damaged)

    def _told(self, ctx: Ctx, model: TemporalNet, data: Timed) -> dict[str, float]:
        """Accuracy in the pretext task, on clips drawn anew from these videos."""
        puzzles = self._tampered(ctx, data.data)
        rows: dict[str, list[Tensor]] = {"told": [], "told_speed": []}
        for batch in ctx.batches(puzzles, max(AT_ONCE // (4 * data.view.frames), 1)):
            puzzle = Puzzle(*batch)
            say_left_out(ctx.progress, puzzle.damaged)
            if not len(puzzle.clips):
                continue
            logits = model.pretext(puzzle.clips)
            name = next((key for key in logits if key != "speed"), None)
            if name is not None:
                rows["told"].append((logits[name].argmax(1) == puzzle.target).double())
            if "speed" in logits:
                asked = puzzle.kappa >= 0
                rows["told_speed"].append((logits["speed"].argmax(1) == puzzle.kappa)[asked].double())
        return {name: float(ctx.gather(torch.cat(parts)).mean() * 100) for name, parts in rows.items() if parts}

    def _known(self, ctx: Ctx, model: TemporalNet, data: Timed) -> dict[str, float]:
        """Nearest neighbours and probes, learnt from the training videos."""
        measures, found = ctx.config.measures, dict[str, float]()
        known: Timed = replace(self.data(ctx, "train"), skip=data.skip)
        probe = {"hidden": measures.hidden, "steps": measures.steps}
        if measures.retrieval or measures.probes:
            both = (known.data, data.data)
            things = [d.things[: len(d)] for d in both if isinstance(d, Lawful)]
            found |= neighbours_and_probes(ctx, model.trunk, known, data, ctx.facts.classes,
                                           things if len(things) == 2 else (), measures.probes, **probe)  # fmt: skip
        if measures.time:
            found |= time_tasks(ctx, model.trunk.maps, known.data, data.data, data.view, measures.draws, **probe)
        return found

    def infer(self, ctx: Ctx, model: TemporalNet, inputs: Inputs) -> Playback:
        return predict.examine(ctx, model, inputs)

    def render(self, ctx: Ctx, inputs: Inputs, result: Playback) -> Sequence[Artifact]:
        return predict.render(ctx, inputs, result)

    def pictures(self, ctx: Ctx, models: Mapping[str, TemporalNet], data: Timed) -> Sequence[Artifact]:
        """The four transformations of a held-out video, what each network looks at, and the ablation."""
        return pictures.of_variants(ctx, models, data)


@lru_cache(maxsize=2)
def _embedded(count: int, length: int, shorter: int, split: str) -> Lawful:
    """Rendered videos, read and scaled once for all phases of a run."""
    videos = lawful(count, length, split)
    height, width = videos.pixels.shape[-2:]
    if shorter == height:
        return videos
    size = (shorter, round(shorter * width / height))
    scaled = [F.interpolate(film.float(), size, mode="bilinear", antialias=True).round().clamp(0, 255).byte()
              for film in videos.pixels]  # fmt: skip
    return replace(videos, pixels=torch.stack(scaled))


def _transfers(config: Config, facts: Facts) -> bool:
    return bool(facts.classes) and config.transfer.mode != "none"


def _asked(config: Config) -> Ask:
    """The clips of the pretext task that a config names."""
    frames, speed = config.data.frames, config.data.speed
    return {
        "order": partial(tampered.ask_order, frames=frames),
        "rotation": partial(tampered.ask_rotation, speed=speed, frames=frames),
        "labels": partial(tampered.ask_label, speed=speed, frames=frames),
    }.get(config.pretext.kind, partial(tampered.ask_temporal, transforms=config.pretext.transforms, frames=frames))


SYSTEM = TemporalTransformsSystem()
