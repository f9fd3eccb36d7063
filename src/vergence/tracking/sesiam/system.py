"""SE-SiamFC as a system: Siamese trackers with and without scale-convolutions, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact
from vergence.contract.settings import Learns, Metric, NoFacts, Published, Reported, Variant
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.core.files import load_tensors
from vergence.data.layouts import find
from vergence.tracking.crops import MEAN, STD
from vergence.tracking.data import LAYOUTS, Track, Tracks
from vergence.tracking.metrics import Pass, Supervised, got10k, one_pass, ope, vot
from vergence.tracking.pairs import Pairs, balanced_logistic, targets
from vergence.tracking.protocol import follow, followed_with_restarts
from vergence.tracking.sesiam import ABOUT, networks
from vergence.tracking.sesiam.claims import CLAIMS
from vergence.tracking.sesiam.networks import SiameseNetwork
from vergence.tracking.sesiam.settings import PRESETS, VARIANTS, Config, Inputs, Model
from vergence.tracking.sesiam.tracker import Tracker, together
from vergence.tracking.synth import World, moving_digits, natural

Ctx = Context[Config, NoFacts]
WORLDS: Mapping[World, str] = {"t-mnist": "_t", "s-mnist": "_s"}
"""Worlds of digits, and how their metrics end."""
AT_ONCE = 10
"""Sequences that are tracked side by side."""


@dataclass(frozen=True)
class Clips:
    """Sequences to judge on, by index, in one or two worlds."""

    worlds: Mapping[str, Tracks]
    """By the ending of their metrics."""

    @property
    def tracks(self) -> list[Track]:
        return [track for tracks in self.worlds.values() for track in tracks.sequences]

    def __len__(self) -> int:
        return sum(len(tracks.sequences) for tracks in self.worlds.values())

    def __getitem__(self, index: int) -> int:
        return range(len(self))[index]

    @property
    def bounded(self) -> bool:
        """Whether only what is within the frame is judged."""
        return any(tracks.protocol == "got10k" for tracks in self.worlds.values())

    def only(self, count: int) -> Clips:
        """The first few of each world."""
        return Clips({k: replace(t, sequences=t.sequences[:count]) for k, t in self.worlds.items()})


def made(world: World, config: Config, split: str, count: int) -> Tracks:
    """Sequences of an embedded world."""
    scene = config.data.scene
    return natural(count, split, scene) if world == "natural" else moving_digits(world, count, split, scene)


class SESiam(System[Config, NoFacts]):
    about = ABOUT
    config_type, inputs_type = Config, Inputs
    presets = PRESETS
    variants: Mapping[str, Variant] = VARIANTS
    metrics = {
        "auc": Metric("AUC", "%"),
        "auc_t": Metric("AUC on T", "%"),
        "auc_s": Metric("AUC on S", "%"),
        "precision": Metric("precision at 20 px", "%"),
        "precision_t": Metric("precision on T", "%"),
        "precision_s": Metric("precision on S", "%"),
        "ao": Metric("AO", "%"),
        "sr50": Metric("SR 0.5", "%"),
        "sr75": Metric("SR 0.75", "%"),
        "accuracy": Metric("accuracy", "%"),
        "robustness": Metric("failures a sequence", higher_is_better=False),
        "eao": Metric("EAO", "%"),
    }
    embedded = (
        "Embedded: up to eight digits wander over a coloured ground, and one of them is followed. In T nothing changes "
        "its size; in S everything swings between two thirds and one and a half of it. The digits that are judged on "
        "are none of those trained on."
    )
    layouts = LAYOUTS
    reported = (
        Reported(
            "T/S-MNIST, main paper (quoted from memory)",
            {
                "siamfc-t": {"auc_t": 64.0, "auc_s": 62.0},
                "se-siamfc-t": {"auc_t": 76.0, "auc_s": 69.0},
                "siamfc-s": {"auc_t": 64.0, "auc_s": 63.0},
                "se-siamfc-s": {"auc_t": 77.0, "auc_s": 70.0},
            },
        ),
        Reported("OTB-2013", {"siamfc": {"auc": 67.0}, "se-siamfc": {"auc": 68.0}}),
        Reported("OTB-2015", {"siamfc": {"auc": 64.0}, "se-siamfc": {"auc": 66.0}}),
        Reported("VOT2016", {"siamfc": {"eao": 30.0}, "se-siamfc": {"eao": 36.0}}),
        Reported("VOT2017", {"siamfc": {"eao": 23.0}, "se-siamfc": {"eao": 27.0}}),
    )
    published = {
        "paper": Published({}, (1, 17, 17), 1_449_024),
        "paper-mnist": Published({}, (1, 17, 17), 998_880),
    }
    learns = Learns(
        "logistic",
        steps=12,
        share=0.9,
        variant="siamfc-t",
        changes={
            "data.sequences": 4,
            "data.tests": 1,
            "data.scene.frames": 4,
            "data.scene.size": 96,
            "data.scene.digit": 20,
            "data.pairs.pairs": 48,
            "train.batch": 4,
            "train.optimiser.schedule.warmup": 2,
        },
    )
    claims = CLAIMS
    tiny_minutes = 1.5

    # Data and model ---------------------------------------------------------------------------------------------------

    def data(self, ctx: Ctx, split: str) -> Pairs | Clips:
        config = ctx.config
        settings = config.data
        found = find(settings.source, self.layouts)
        if split == "train":
            tracks = (
                made(settings.world, config, split, settings.sequences)
                if found is None
                else found[0].read(found[1], split)
            )
            plan = networks.SIZES[config.model.size]
            return Pairs(tracks, plan.template_size, plan.search_size, settings.pairs)
        if found is not None:
            clips = Clips({"": found[0].read(found[1], split)})
            return clips.only(settings.most) if settings.most else clips
        count = settings.tests if split == "test" else max(settings.tests // 2, 1)
        if settings.world == "natural":
            return Clips({"": made("natural", config, split, count)})
        return Clips({ending: made(world, config, split, count) for world, ending in WORLDS.items()})

    def slice(self, data: Data) -> Clips:
        return cast(Clips, data).only(2)

    def build(self, config: Config, facts: NoFacts) -> nn.Module:
        return build(config.model)

    def example(self, config: Config, facts: NoFacts, batch: int = 1) -> tuple[Tensor, ...]:
        plan = networks.SIZES[config.model.size]
        return tuple(torch.zeros(batch, 3, side, side) for side in (plan.template_size, plan.search_size))

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        plan = networks.SIZES[config.model.size]
        return {"range": [0, 1], "mean": MEAN, "std": STD, "template": plan.template_size, "search": plan.search_size}

    # Training ---------------------------------------------------------------------------------------------------------

    def start(self, ctx: Ctx, model: nn.Module) -> nn.Module:
        if ctx.config.model.start_from:
            path = Path(ctx.config.model.start_from).expanduser()
            take_over(cast(SiameseNetwork, model), ctx.config.model, path)
            ctx.progress.say(f"starting from the ordinary network in {path}")
        return model

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        response = model(batch["template"], batch["search"])
        height, width = response.shape[-2:]
        labels = targets(batch["offset"], height, width, SiameseNetwork.stride, ctx.config.model.radius)
        return {"logistic": balanced_logistic(response, labels.to(response.dtype))}

    # Use --------------------------------------------------------------------------------------------------------------

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        clips, network = cast(Clips, data), cast(SiameseNetwork, model)
        for tracks in clips.worlds.values():
            if tracks.whole > len(tracks.sequences):
                ctx.progress.say(f"judged on {len(tracks.sequences)} of the {tracks.whole} sequences of the data set")
        passes = run_passes(ctx, network, clips)
        scores: dict[str, float] = {}
        first = 0
        for ending, tracks in clips.worlds.items():
            part = passes[first : first + len(tracks.sequences)]
            first += len(part)
            scores |= {f"{name}{ending}": value for name, value in ope(part).items()}
        if len(clips.worlds) > 1:
            for name in ("auc", "precision"):
                scores[name] = sum(scores[f"{name}{ending}"] for ending in clips.worlds) / len(clips.worlds)
        tracks = next(iter(clips.worlds.values()))
        if tracks.protocol == "got10k":
            scores |= got10k(passes)
        elif tracks.protocol == "vot":
            scores |= vot(run_restarts(ctx, network, clips), tracks.lengths)
        return {name: scores[name] for name in self.metrics if name in scores}

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        from vergence.tracking.sesiam.prediction import follow_video

        return follow_video(ctx, cast(SiameseNetwork, model), inputs)

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        from vergence.tracking.sesiam.pictures import draw

        return draw(ctx, cast("Mapping[str, SiameseNetwork]", models), cast(Clips, data), self.variants)


def build(model: Model) -> SiameseNetwork:
    """The network that settings name."""
    name = "siamfc" if model.name == "siamfc+" and model.size != "otb" else model.name
    kept = {}
    if model.outer_pooling == "none":  # sizes along a scale axis that is kept are whole steps of it
        scales = networks.SIZES[model.size].scales
        kept["targets"] = (scales[0] / scales[1], 1.0, scales[1] / scales[0])
    return networks.build(
        name,
        size=model.size,
        connection=None if model.connection == "own" else model.connection,
        width=model.width,
        outer_pooling=model.outer_pooling,
        extent=model.extent,
        stem_size=model.stem_size,
        borders=model.borders,
        **kept,
    )


def take_over(network: SiameseNetwork, model: Model, path: Path) -> None:
    """Start a scale-equivariant network from an ordinary one's weights file."""
    if model.name != "se-siamfc":
        raise VergenceError(f"only se-siamfc starts from an ordinary network; this is {model.name}")
    plain = build(replace(model, name="siamfc+", connection="own", start_from=""))
    weights = load_tensors(path)[0]
    try:
        plain.load_state_dict(weights)
    except RuntimeError:
        raise VergenceError(f"{path} does not hold an ordinary network of the size {model.size!r} and width") from None
    network.start_from(plain)


def run_passes(ctx: Ctx, network: SiameseNetwork, clips: Clips) -> list[Pass]:
    """Every sequence tracked in one pass, and judged."""
    tracks, found = clips.tracks, []
    for batch in ctx.batches(clips, AT_ONCE, "sequences"):
        some = [tracks[int(index)] for index in batch]
        made = follow(some, lambda: Tracker(network, ctx.config.inference), together, ctx.cancelled)
        for track, followed in zip(some, made, strict=True):
            bounds = followed.size if clips.bounded else None
            found.append(one_pass(followed.boxes, track.boxes, track.visible, bounds))
    return ctx.gather(found)


def run_restarts(ctx: Ctx, network: SiameseNetwork, clips: Clips) -> list[Supervised]:
    """Every sequence tracked by VOT's protocol."""
    tracks, found = clips.tracks, []
    for batch in ctx.batches(clips, 1, "sequences, with restarts"):
        found += [followed_with_restarts(tracks[int(i)], Tracker(network, ctx.config.inference)) for i in batch]
    return ctx.gather(found)


SYSTEM = SESiam()
