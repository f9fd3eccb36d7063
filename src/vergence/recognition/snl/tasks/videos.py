"""Videos: their classes, judged over several clips, and what blocks look at across frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.data import Layout
from vergence.contract.inputs import Artifact
from vergence.contract.system import Task
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.classes import Classes
from vergence.data.layouts import read, share
from vergence.data.video import Video, open_video
from vergence.drawing.grid import Panel, grid
from vergence.recognition.snl.model import Network
from vergence.recognition.snl.pictures import Shares, clip_rows, inside, labels_table, likeliest, spectra
from vergence.recognition.snl.settings import Config, Footage, Inputs
from vergence.recognition.snl.tasks import Ctx, accuracies, asked, say_left_out
from vergence.video.data import Clips, Sample, Videos, evaluation_clips, even_places, middle_clip
from vergence.video.layouts import FOLDED, LAYOUTS
from vergence.video.synth import Turning, turning

SKIPPED = {"refuse": (), "skip-training": ("train",), "skip": ("train", "test")}
AT_ONCE = 256
"""Frames that evaluation holds at a time."""
SHOWN = 4
"""Frames of a clip that a picture shows."""


class VideoTask(Task[Config, Classes, Network, Clips]):
    kind = Footage
    layouts = {"ucf101": LAYOUTS["ucf101"], "hmdb51": LAYOUTS["hmdb51"], "videos": LAYOUTS["folder"]}

    def embedded(self, config: Config) -> str:
        return (
            "Embedded: generated clips of textured objects that wander over cluttered ground and turn half-way; the "
            "class is by how much. It shows only to a network that compares an object with itself some frames later, "
            "at another place."
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

    def facts(self, ctx: Ctx, data: Clips) -> Classes:
        return Classes(len(data.data.classes), tuple(data.data.classes))

    def example(self, config: Config, facts: Classes, batch: int = 1) -> tuple[Tensor, ...]:
        view = asked(config, Footage)
        return (torch.zeros(batch, view.frames, 3, view.size, view.size),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = asked(config, Footage)
        sampling = {"frames": view.frames, "sampling": view.sampling, "stride": view.stride, "rate": view.rate}
        pixels = {"range": [0, 1], "resize": view.resize, "crop": view.size, "mean": view.mean, "std": view.std}
        return sampling | pixels

    def losses(self, ctx: Ctx, model: Network, batch: Any) -> Mapping[str, Tensor]:
        sample = Sample(*batch)
        if sample.damaged:
            ctx.log(damaged=float(len(sample.damaged)))
            say_left_out(ctx, sample.damaged)
        smoothing = ctx.config.objective.smoothing
        return {"cross_entropy": F.cross_entropy(model(sample.clips), sample.label, label_smoothing=smoothing)}

    def evaluate(self, ctx: Ctx, model: Network, data: Clips) -> Mapping[str, float]:
        """By the mean of the logits of a video's clips."""
        ctx.facts.refuse_others(data.data.classes)
        view = data.view
        size = max(AT_ONCE // (view.frames * view.clips * view.crops), 1)
        batches, damaged = [], []
        for batch in ctx.batches(data, size):
            sample = Sample(*batch)
            logits = model(sample.clips.flatten(0, 1)).float()
            batches.append((logits.unflatten(0, sample.clips.shape[:2]).mean(1), sample.label))
            damaged += sample.damaged
        logits, labels = (ctx.gather(torch.cat(part)) for part in zip(*batches, strict=True))
        damaged = ctx.gather(damaged)
        say_left_out(ctx, damaged)
        known = labels >= 0
        if not known.any():
            raise VergenceError(f"not one video can be read: {damaged[0]}")
        scores = accuracies(logits[known], labels[known])
        return scores | ({"skipped": float(len(damaged))} if damaged else {})

    def predict(self, ctx: Ctx, model: Network, inputs: Inputs) -> Sequence[Artifact]:
        if not inputs.videos:
            raise VergenceError("no video given to predict on: give --videos FILE...")
        view = asked(ctx.config, Footage)
        drawings, rows = [], []
        for path in ctx.progress.track(inputs.videos, "videos"):
            video = open_video(path)
            logits = model(ctx.to_device(evaluation_clips(view, video))).float().mean(0).cpu()
            best = likeliest(logits, ctx.facts, 5)
            rows.append((str(path), best))
            height, width = video.size
            side = min(height, width) * view.size / view.resize
            region = ((width - side) / 2, (height - side) / 2, side)
            shares = inside(inputs.points, region, f" of {video.name}") or [(0.25, 0.5), (0.5, 0.5), (0.75, 0.5)]
            panels = _rows(ctx, {"": model}, video, shares, f"{best[0][0]} {best[0][1]:.0%}")
            if len(panels) > 1:
                target = grid(unused(ctx.folder / f"{path.stem}-attention.png"), panels, side=1.9)
                caption = f"{path.name}: what the circled points of the middle frame look at."
                drawings.append(Artifact("image", target, caption))
        return [labels_table(ctx.folder / "labels.csv", rows), *drawings]

    def pictures(self, ctx: Ctx, models: Mapping[str, Network], data: Clips) -> Sequence[Artifact]:
        """Held-out clips, what one point looks at in all frames, and how the blocks filter."""
        drawings = []
        for index in range(min(2, len(data))):
            video, label = data.data.video(index)
            rows = _rows(ctx, models, video, [_point(ctx, data.data, index)], f"truth: {ctx.facts.name(label)}")
            caption = (
                "A held-out clip and, for every block, what the circled point of the middle frame looks at in all "
                "frames (dark: little, bright: much), with the network's answer."
            )
            drawings.append(Artifact("image", grid(ctx.folder / f"attention-{index}.png", rows, side=1.5), caption))
        batch = torch.stack([data[index].clips[0] for index in range(min(4, len(data)))])
        return [*drawings, *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch))]


def _folded(name: str, fold: int) -> Layout:
    """A data set with several splits, read by one of them."""
    return Layout(lambda path, split: FOLDED[name](path, split, fold), LAYOUTS[name].about)


def _point(ctx: Ctx, videos: Videos, index: int) -> tuple[float, float]:
    """A point to look from, as shares: on an object of a generated clip, else the middle."""
    if not isinstance(videos, Turning):
        return 0.5, 0.5
    view = asked(ctx.config, Footage)
    y, x = (videos.corners[index, view.frames // 2, 0] + view.clip.side / 2).tolist()
    return x / view.size, y / view.size


def _rows(ctx: Ctx, models: Mapping[str, Network], video: Video, shares: Shares, title: str) -> list[list[Panel]]:
    """Some frames of a video's middle clip, and what points look at in them."""
    view = asked(ctx.config, Footage)
    clip = middle_clip(view, video, even_places(view, video, view.clips // 2))

    def heading(name: str, logits: Tensor) -> str:
        return f"{name}: {ctx.facts.name(int(logits[0].argmax()))}"

    return clip_rows(ctx, models, clip, shares, SHOWN, title, heading)
