"""Classification of videos over several clips, and the attention of blocks across frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout, Spread
from vergence.contract.inputs import Artifact
from vergence.contract.system import Task
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.layouts import read, share
from vergence.data.video import Video, open_video
from vergence.drawing.classes import SAMPLES
from vergence.drawing.grid import grid
from vergence.recognition.settings import Facts
from vergence.recognition.snl.model import Network
from vergence.recognition.snl.pictures import Attended, attended, clip_rows, inside, spectra
from vergence.recognition.snl.predict import Labels, labels_table
from vergence.recognition.snl.settings import SETTINGS, Config, Footage, Inputs
from vergence.recognition.snl.tasks import Ctx, asked, labelled
from vergence.video.data import Clips, Sample, Videos, evaluation_clips, even_places, middle_clip
from vergence.video.examples import classified_clips
from vergence.video.layouts import FOLDED, LAYOUTS
from vergence.video.protocol import SKIPPED, accuracy, mean_scores, say_damaged
from vergence.video.settings import ClipView
from vergence.video.synth import Turning, turning

SHOWN = 4
"""Frames of a clip that a picture shows."""


class VideoTask(Task[Config, Facts, Network, Clips, Labels]):
    kind = Footage
    takes = ("videos", "points")
    layouts = {"ucf101": LAYOUTS["ucf101"], "hmdb51": LAYOUTS["hmdb51"], "videos": LAYOUTS["folder"]}

    def embedded(self, config: Config) -> str:
        return (
            "Embedded: generated clips of textured objects that move over a cluttered background and rotate half-way; "
            "the class is the angle. Only comparing an object with itself some frames later, at another position, "
            "reveals it."
        )

    def judged_by(self, config: Config) -> str:
        return "top1"

    def data(self, ctx: Ctx, split: str) -> Clips:
        view = asked(ctx.config, Footage)
        videos: Videos = read(
            view.source,
            {**self.layouts, "folder": LAYOUTS["folder"], **{name: _folded(name, view.fold) for name in FOLDED}},
            split,
            embedded=lambda: turning(share(view.count, split), view.frames, view.size, view.clip, split),
        )
        return Clips(videos, view, frozenset(SKIPPED[view.damaged]))

    def facts(self, ctx: Ctx, data: Clips) -> Facts:
        return Facts(len(data.data.classes), tuple(data.data.classes))

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        view = asked(config, Footage)
        return (torch.zeros(batch, view.frames, 3, view.size, view.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = asked(config, Footage)
        sampling = {"frames": view.frames, "sampling": view.sampling, "stride": view.stride, "rate": view.rate}
        pixels = {"range": [0, 1], "resize": view.resize, "crop": view.size, "mean": view.mean, "std": view.std}
        return sampling | pixels

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        sample = Sample(*batch)
        say_damaged(ctx, sample)
        smoothing = ctx.config.objective.smoothing
        return {"cross_entropy": F.cross_entropy(model(sample.clips), sample.label, label_smoothing=smoothing)}

    def evaluate(self, ctx: Ctx, model: Network, data: Clips) -> Mapping[str, float]:
        """Accuracy of the mean logits of a video's clips."""
        ctx.facts.refuse_others(data.data.classes)
        return accuracy(ctx, *mean_scores(ctx, _logits(model), data, data.view))

    def infer(self, ctx: Ctx, model: Network, inputs: Inputs) -> Labels:
        if not inputs.videos:
            raise VergenceError("no video given to predict on: give --videos FILE...")
        view = asked(ctx.config, Footage)
        scores, points, looks = [], [], []
        for path in ctx.progress.track(inputs.videos, "videos"):
            video = open_video(path)
            logits = model(ctx.to_device(evaluation_clips(view, video))).float().mean(0).cpu()
            height, width = video.size
            side = min(height, width) * view.size / view.resize
            region = ((width - side) / 2, (height - side) / 2, side)
            shares = inside(inputs.points, region, f" of {video.name}") or [(0.25, 0.5), (0.5, 0.5), (0.75, 0.5)]
            seen = attended(model, ctx.to_device(_clip(view, video)), shares, lambda place, _: place)
            scores.append(logits.softmax(0))
            points.append(shares)
            looks.append({look.heading: look.heats for look in seen})
        return labelled(ctx, inputs.videos, torch.stack(scores), points, looks)

    def render(self, ctx: Ctx, inputs: Inputs, result: Labels) -> Sequence[Artifact]:
        view, drawings = asked(ctx.config, Footage), []
        for number, (path, shares, maps) in enumerate(zip(inputs.videos, result.points, result.attention, strict=True)):
            label, p = result.best(number, 1)[0]
            looks = [Attended(place, heats) for place, heats in maps.items()]
            rows = clip_rows(view, _clip(view, open_video(path)), shares, SHOWN, f"{label} {p:.0%}", looks)
            target = grid(unused(ctx.folder / f"{path.stem}-attention.png"), rows, side=1.9)
            caption = f"{path.name}: attention of the circled points of the middle frame."
            drawings.append(Artifact("image", target, caption))
        return [labels_table(ctx.folder / "labels.csv", result), *drawings]

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Clips) -> Sequence[Artifact]:
        """Draws held-out clips, the attention of one point in all frames, and the blocks' spectra."""
        drawings = []
        for index in range(min(2, len(data))):
            video, label = data.data.video(index)
            shares, clip = [_point(ctx, data.data, index)], _clip(data.view, video)
            looks = [
                look
                for name, model in models.items()
                for look in attended(model, ctx.to_device(clip), shares, partial(_answer, ctx, name))
            ]
            view = asked(ctx.config, Footage)
            rows = clip_rows(view, clip, shares, SHOWN, f"truth: {ctx.facts.name(label)}", looks)
            caption = (
                "A held-out clip and, for every block, the attention of the circled point of the middle frame in all "
                "frames (bright: high), with the network's answer."
            )
            drawings.append(Artifact("image", grid(ctx.folder / f"attention-{index}.png", rows, side=1.5), caption))
        batch = torch.stack([data[index].clips[0] for index in range(min(4, len(data)))])
        some, scored = Spread(data, SAMPLES // 4), {}
        for name, model in models.items():
            logits, labels, damaged = mean_scores(ctx, _logits(model), some, data.view)
            scored[SETTINGS.label(name)] = logits.softmax(1), labels, damaged
        drawings += classified_clips(ctx.folder, scored, some, ctx.facts.name)
        return [*drawings, *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch))]


def _logits(model: Network) -> Callable[[Tensor], Tensor]:
    return lambda clips: model(clips).float()


def _folded(name: str, fold: int) -> Layout:
    """The layout of a data set with several splits, for one of them."""
    return Layout(lambda path, split: FOLDED[name](path, split, fold), LAYOUTS[name].about)


def _point(ctx: Ctx, videos: Videos, index: int) -> tuple[float, float]:
    """A point as fractions of the sides: on an object of a generated clip, else the centre."""
    if not isinstance(videos, Turning):
        return 0.5, 0.5
    view = asked(ctx.config, Footage)
    y, x = (videos.corners[index, view.frames // 2, 0] + view.clip.side / 2).tolist()
    return x / view.size, y / view.size


def _clip(view: ClipView, video: Video) -> Tensor:
    """The middle clip of a video, (T, 3, S, S)."""
    return middle_clip(view, video, even_places(view, video, view.clips // 2))


def _answer(ctx: Ctx, name: str, place: str, logits: Tensor) -> str:
    return f"{name}: {ctx.facts.name(int(logits.argmax()))}"
