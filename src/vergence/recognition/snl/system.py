"""SNL as a system: networks with and without nonlocal blocks, on pictures, videos and tracklets.

What a task is (its data, losses, evaluation, prediction and pictures) is a module of its own; the config's data says
which one is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data, Layout
from vergence.contract.inputs import Artifact
from vergence.contract.settings import Learns, Metric, Published
from vergence.contract.system import System
from vergence.core.errors import VergenceError
from vergence.recognition.snl import ABOUT, images, reid, video
from vergence.recognition.snl.claims import CLAIMS
from vergence.recognition.snl.model import build, load_backbone
from vergence.recognition.snl.presets import PRESETS
from vergence.recognition.snl.reported import REPORTED
from vergence.recognition.snl.settings import Config, Facts, Footage, Inputs, Pictures, Tracklets, variants

Ctx = Context[Config, Facts]


class Task(Protocol):
    """What a module of a task has."""

    JUDGED_BY: str
    LAYOUTS: Mapping[str, Layout]
    embedded: Callable[[Config], str]
    data: Callable[[Ctx, str], Data]
    facts: Callable[[Ctx, Data], Facts]
    example: Callable[[Config, int], Tensor]
    preprocessing: Callable[[Config], Mapping[str, Any]]
    losses: Callable[[Ctx, nn.Module, Any], Mapping[str, Tensor]]
    evaluate: Callable[[Ctx, nn.Module, Data], Mapping[str, float]]
    predict: Callable[[Ctx, nn.Module, Inputs], Sequence[Artifact]]
    pictures: Callable[[Ctx, Mapping[str, nn.Module], Data], Sequence[Artifact]]


TASKS: Mapping[type, Task] = {Pictures: cast(Task, images), Footage: cast(Task, video), Tracklets: cast(Task, reid)}


def _task(config: Config) -> Task:
    return TASKS[type(config.data)]


class SNL(System[Config, Facts]):
    about = ABOUT
    config_type, facts_type, inputs_type = Config, Facts, Inputs
    presets = PRESETS
    variants = variants()
    metrics = {
        "top1": Metric("Top-1", "%"),
        "top5": Metric("Top-5", "%"),
        "large": Metric("Top-1, large marks", "%"),
        "small": Metric("Top-1, small marks", "%"),
        "rank1": Metric("Rank-1", "%"),
        "rank5": Metric("Rank-5", "%"),
        "rank10": Metric("Rank-10", "%"),
        "map": Metric("mAP", "%"),
        "skipped": Metric("skipped", "videos", higher_is_better=False, digits=0),
        "unmatched": Metric("queries without a match", higher_is_better=False, digits=0),
    }
    layouts = {name: layout for task in TASKS.values() for name, layout in task.LAYOUTS.items()}
    reported = REPORTED
    published = {
        "paper": Published({"classes": 100}, (1, 100), parameters=969_076),
        "paper-cifar10": Published({"classes": 10}, (1, 10), parameters=277_370),
        "paper-imagenet": Published({"classes": 1000}, (1, 1000), parameters=28_180_520),
        "paper-cub": Published({"classes": 200}, (1, 200), parameters=26_541_320),
        "paper-ucf101": Published({"classes": 101}, (1, 101), parameters=49_029_413),
        "paper-ucf101-p3d": Published({"classes": 101}, (1, 101), parameters=25_788_965),
        "paper-ucf101-mars": Published({"classes": 101}, (1, 101), parameters=48_384_549),
        "paper-ucf101-vtn": Published({"classes": 101}, (1, 101), parameters=32_369_061),
        "paper-mars": Published({"classes": 625}, (1, 625), parameters=27_412_145),
        "paper-ilids-vid": Published({"classes": 150}, (1, 150), parameters=26_438_870),
        "paper-prid2011": Published({"classes": 89}, (1, 89), parameters=26_313_881),
    }
    learns = Learns(
        "cross_entropy",
        steps=40,
        share=0.6,
        # The relation takes hundreds of steps to learn; a few pictures are learnt by heart in tens.
        changes={"data.count": 60, "train.batch": 30, "train.optimiser.schedule.warmup": 5},
    )
    claims = CLAIMS
    tiny_minutes = 2.0

    def judged_by(self, config: Config) -> str:
        return _task(config).JUDGED_BY

    def embedded_data(self, config: Config) -> str:
        return _task(config).embedded(config)

    def data(self, ctx: Ctx, split: str) -> Data:
        return _task(ctx.config).data(ctx, split)

    def facts(self, ctx: Ctx, data: Data) -> Facts:
        return _task(ctx.config).facts(ctx, data)

    def build(self, config: Config, facts: Facts) -> nn.Module:
        return build(config.model, facts.classes)

    def start(self, ctx: Ctx, model: nn.Module) -> nn.Module:
        if ctx.config.pretrained:
            path = Path(ctx.config.pretrained).expanduser()
            if not path.exists():
                raise VergenceError(
                    f"{path} does not exist: the published recipe starts from trained weights of the backbone; "
                    "give --pretrained FILE, or --pretrained '' to start from nothing"
                )
            ctx.progress.say(load_backbone(model, path))
        return model

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        return (_task(config).example(config, batch),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        return _task(config).preprocessing(config)

    def losses(self, ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
        return _task(ctx.config).losses(ctx, model, batch)

    def evaluate(self, ctx: Ctx, model: nn.Module | None, data: Data) -> Mapping[str, float]:
        assert model is not None
        return _task(ctx.config).evaluate(ctx, model, data)

    def predict(self, ctx: Ctx, model: nn.Module | None, inputs: Any) -> Sequence[Artifact]:
        assert model is not None
        return _task(ctx.config).predict(ctx, model, inputs)

    def pictures(self, ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
        return _task(ctx.config).pictures(ctx, models, data)


SYSTEM = SNL()
