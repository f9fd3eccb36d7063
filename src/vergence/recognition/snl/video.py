"""Videos: what happens in them, how well it is told over several clips, and what blocks look at across frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact, Point
from vergence.core.errors import VergenceError
from vergence.core.files import unused
from vergence.data.images import fitted
from vergence.data.layouts import find, parse
from vergence.data.video import Video, open_video
from vergence.drawing.grid import Panel, grid, overlay
from vergence.metrics import topk_accuracy
from vergence.recognition.snl.drawing import labels_table, likeliest, spectra
from vergence.recognition.snl.model import Network, attention
from vergence.recognition.snl.settings import Config, Facts, Footage, Inputs
from vergence.video.data import Clips, Sample, Videos, even_places
from vergence.video.layouts import FOLDED
from vergence.video.layouts import LAYOUTS as VIDEOS
from vergence.video.synth import Turning, turning

Ctx = Context[Config, Facts]

JUDGED_BY = "top1"
PLAIN = "videos"
LAYOUTS = {"ucf101": VIDEOS["ucf101"], "hmdb51": VIDEOS["hmdb51"], PLAIN: VIDEOS["folder"]}
SKIPPED = {"refuse": (), "skip-training": ("train",), "skip": ("train", "test")}
AT_ONCE = 256
"""Frames that evaluation holds at a time."""
SHOWN = 4
"""Frames of a clip that a picture shows."""


def embedded(config: Config) -> str:
    return (
        "Embedded: generated clips of textured objects that wander over cluttered ground and turn half-way; the class "
        "is by how much. It shows only to who compares an object with itself some frames later, at another place."
    )


def data(ctx: Ctx, split: str) -> Clips:
    settings = cast(Footage, ctx.config.data)
    return Clips(_videos(settings, split), settings, frozenset(SKIPPED[settings.damaged]))


def _videos(settings: Footage, split: str) -> Videos:
    found = find(settings.source, {**LAYOUTS, "folder": LAYOUTS[PLAIN]})
    if found is None:
        count = settings.count if split == "train" else settings.count // 4
        return turning(count, settings.frames, settings.size, settings.clip, split)
    layout, path = found
    name = parse(settings.source)[0]
    return cast(Videos, FOLDED[name](path, split, settings.fold) if name in FOLDED else layout.read(path, split))


def facts(ctx: Ctx, data: Data) -> Facts:
    classes = cast(Clips, data).data.classes
    return Facts(len(classes), tuple(classes))


def example(config: Config, batch: int) -> Tensor:
    view = cast(Footage, config.data)
    return torch.zeros(batch, view.frames, 3, view.size, view.size)


def preprocessing(config: Config) -> Mapping[str, Any]:
    view = cast(Footage, config.data)
    sampling = {"frames": view.frames, "sampling": view.sampling, "stride": view.stride, "rate": view.rate}
    return sampling | {"range": [0, 1], "resize": view.resize, "crop": view.size, "mean": view.mean, "std": view.std}


def losses(ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
    sample = Sample(*batch)
    if sample.damaged:
        ctx.log(damaged=float(len(sample.damaged)))
        _tell(ctx, sample.damaged)
    smoothing = ctx.config.objective.smoothing
    return {"cross_entropy": F.cross_entropy(model(sample.clips), sample.label, label_smoothing=smoothing)}


def evaluate(ctx: Ctx, model: nn.Module, data: Data) -> Mapping[str, float]:
    """The mean of the logits of a video's clips."""
    clips = cast(Clips, data)
    ctx.facts.refuse_others(clips.data.classes)
    view = clips.view
    size = max(AT_ONCE // (view.frames * view.clips * view.crops), 1)
    found, damaged = [], []
    for batch in ctx.batches(data, size):
        sample = Sample(*batch)
        logits = model(sample.clips.flatten(0, 1)).float()
        found.append((logits.unflatten(0, sample.clips.shape[:2]).mean(1), sample.label))
        damaged += sample.damaged
    logits, labels = (ctx.gather(torch.cat(part)) for part in zip(*found, strict=True))
    damaged = ctx.gather(damaged)
    _tell(ctx, damaged)
    known = labels >= 0
    if not known.any():
        raise VergenceError(f"not one video can be read: {damaged[0]}")
    scores = {"top1": topk_accuracy(logits[known], labels[known])}
    if logits.shape[1] > 5:
        scores["top5"] = topk_accuracy(logits[known], labels[known], 5)
    return scores | ({"skipped": float(len(damaged))} if damaged else {})


def _tell(ctx: Ctx, damaged: Sequence[str]) -> None:
    for sentence in damaged:
        ctx.progress.say(f"left out: {sentence}")


def predict(ctx: Ctx, model: nn.Module, inputs: Inputs) -> Sequence[Artifact]:
    if not inputs.videos:
        raise VergenceError("no video given to predict on: give --videos FILE...")
    view = cast(Footage, ctx.config.data)
    made, rows = [], []
    for path in ctx.progress.track(inputs.videos, "videos"):
        video = open_video(path)
        network = model.to(ctx.device).eval()
        logits = network(ctx.to_device(view.tests(video))).float().mean(0).cpu()
        best = likeliest(logits, ctx.facts, 5)
        rows.append((str(path), best))
        drawn = _rows(ctx, {"": model}, video, _shares(view, video, inputs.points), f"{best[0][0]} {best[0][1]:.0%}")
        if len(drawn) > 1:
            target = grid(unused(ctx.folder / f"{path.stem}-attention.png"), drawn, side=1.9)
            made.append(Artifact("image", target, f"{path.name}: what the circled points of the middle frame look at."))
    return [labels_table(ctx.folder / "labels.csv", rows), *made]


def pictures(ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
    """Held-out clips, what one point looks at in all frames, and how the blocks filter."""
    clips = cast(Clips, data)
    view = cast(Footage, ctx.config.data)
    made = []
    for index in range(min(2, len(clips))):
        video, label = clips.data.video(index)
        drawn = _rows(ctx, models, video, [_point(clips.data, index, view)], f"truth: {ctx.facts.name(label)}")
        caption = (
            "A held-out clip and, for every block, what the circled point of the middle frame looks at in all frames "
            "(dark: little, bright: much), with the network's answer."
        )
        made.append(Artifact("image", grid(ctx.folder / f"attention-{index}.png", drawn, side=1.5), caption))
    batch = torch.stack([data[index].clips[0] for index in range(min(4, len(clips)))])
    return [*made, *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch))]


def _point(raw: Videos, index: int, view: Footage) -> tuple[float, float]:
    """A point to look from, as shares: on an object of a generated clip, else the middle."""
    if not isinstance(raw, Turning):
        return 0.5, 0.5
    y, x = (raw.corners[index, view.frames // 2, 0] + view.clip.side / 2).tolist()
    return x / view.size, y / view.size


def _shares(view: Footage, video: Video, points: Sequence[Point]) -> list[tuple[float, float]]:
    """Points in pixels of a frame as shares of what the network sees."""
    if not points:
        return [(0.25, 0.5), (0.5, 0.5), (0.75, 0.5)]
    height, width = video.size
    side = min(height, width) * view.size / view.resize
    left, top = (width - side) / 2, (height - side) / 2
    shares = [((p.x - left) / side, (p.y - top) / side) for p in points]
    for point, (x, y) in zip(points, shares, strict=True):
        if not (0 <= x < 1 and 0 <= y < 1):
            raise VergenceError(
                f"the point {point.x:g},{point.y:g} is outside what the network sees of {video.name}: "
                f"x from {left:g} to {left + side:g}, y from {top:g} to {top + side:g}"
            )
    return shares


@torch.no_grad()
def _rows(
    ctx: Ctx, models: Mapping[str, nn.Module], video: Video, shares: Sequence[tuple[float, float]], title: str
) -> list[list[Panel]]:
    """Some frames of a clip, and below them, for each block and point, what is looked at in them."""
    view = cast(Footage, ctx.config.data)
    clip = view.middle(video, even_places(view, video, view.clips // 2))
    undone = clip * clip.new_tensor(view.std).view(3, 1, 1) + clip.new_tensor(view.mean).view(3, 1, 1)
    frames = [fitted(frame.clamp(0, 1)) for frame in undone]
    middle = len(frames) // 2
    chosen = sorted({round(i * (len(frames) - 1) / (SHOWN - 1)) for i in range(SHOWN)} | {middle})
    size = frames[0].shape[-1]
    marks = [Point(x * size, y * size) for x, y in shares]
    rows = [[Panel(frames[t], title if t == chosen[0] else "", marks if t == middle else ()) for t in chosen]]
    for name, model in models.items():
        logits, maps, _ = attention(cast(Network, model.to(ctx.device).eval()), ctx.to_device(clip[None]), shares)
        answer = ctx.facts.name(int(logits[0].argmax()))
        for place, heat in maps.items():
            for number, mark in enumerate(marks):
                seen = heat[0, number].float().cpu()  # (t, h, w); t may be fewer than frames
                # One scale for all frames: it is one graph.
                over = _overlaid([frames[t] for t in chosen], [seen[t * len(seen) // len(frames)] for t in chosen])
                heading = f"{name}: {answer}" if name else f"{place}, point {number + 1}"
                rows.append(
                    [
                        Panel(picture, heading if t == chosen[0] else "", [mark] if t == middle else ())
                        for t, picture in zip(chosen, over, strict=True)
                    ]
                )
    return rows


def _overlaid(frames: Sequence[Tensor], heats: Sequence[Tensor]) -> list[Tensor]:
    """Maps over frames side by side, so that they share a scale, and apart again."""
    wide = overlay(torch.cat(list(frames), -1), torch.cat(list(heats), -1))
    return list(wide.split(frames[0].shape[-1], -1))
