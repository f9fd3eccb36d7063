"""Tracklets: people found again in other cameras, by the mean feature of a tracklet's clips."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.contract.data import Data
from vergence.contract.inputs import Artifact, Point
from vergence.core.errors import VergenceError
from vergence.core.files import replacing
from vergence.data.images import find_images, fitted
from vergence.data.layouts import find, parse
from vergence.drawing.grid import Panel, grid, overlay
from vergence.metrics.ranking import distances, rank_descriptors
from vergence.nn import ResNetTP
from vergence.ops.triplet import batch_hard
from vergence.recognition.snl.drawing import spectra
from vergence.recognition.snl.model import Network, attention
from vergence.recognition.snl.settings import Config, Facts, Inputs, Tracklets
from vergence.reid import page
from vergence.reid.data import judged
from vergence.reid.tracklets import FOLDED, LISTED, BalancedClips, Batch, Clips, Tracklet, Walks
from vergence.reid.tracklets import LAYOUTS as TRACKLETS
from vergence.reid.tracklets import Tracklets as Files
from vergence.reid.walks import walks

Ctx = Context[Config, Facts]

JUDGED_BY = "rank1"
PLAIN = "tracklets"
LAYOUTS = {PLAIN if name == "folder" else name: layout for name, layout in TRACKLETS.items()}
AT_ONCE = 8
"""Tracklets that evaluation holds at a time."""
_DOWN = [(0.5, 0.15), (0.5, 0.4), (0.5, 0.75)]
"""Three points down the middle of a person: where a head, a top and legs usually are."""


def embedded(config: Config) -> str:
    return (
        "Embedded: drawn people who walk past cameras behind fences, so that one frame shows a third of them; cameras "
        "differ in light and view, and the people of the test are none of those trained on."
    )


def data(ctx: Ctx, split: str) -> Clips:
    settings = cast(Tracklets, ctx.config.data)
    read = _walks(ctx, settings, split)
    if split == "train":
        return BalancedClips(read, settings, settings.frames, each=settings.each)
    return Clips(read, settings, settings.frames, settings.most)


def _walks(ctx: Ctx, settings: Tracklets, split: str) -> Walks:
    found = find(settings.source, {**LAYOUTS, "folder": LAYOUTS[PLAIN]})
    if found is None:
        people = settings.people if split == "train" else max(settings.people // 2, 2)
        return walks(people, settings.length, settings.height, settings.width, split)
    (layout, path), name = found, parse(settings.source)[0]
    if name not in LISTED:
        return cast(Files, layout.read(path, split))
    options: dict[str, Any] = {"fold": settings.fold} if name in FOLDED else {}
    read = LISTED[name](path, split, missing=settings.missing, **options)
    for sentence in read.skipped:
        ctx.progress.say(f"left out: {sentence}")
    return read


def facts(ctx: Ctx, data: Data) -> Facts:
    return Facts(len(set(cast(Clips, data).data.identities)))


def example(config: Config, batch: int) -> Tensor:
    view = cast(Tracklets, config.data)
    return torch.zeros(batch, view.frames, 3, view.height, view.width)


def preprocessing(config: Config) -> Mapping[str, Any]:
    view = cast(Tracklets, config.data)
    resize = [view.height, view.width]
    return {"frames": view.frames, "range": [0, 1], "resize": resize, "mean": view.mean, "std": view.std}


def losses(ctx: Ctx, model: nn.Module, batch: Any) -> Mapping[str, Tensor]:
    clips, labels, _, _ = batch
    objective, network = ctx.config.objective, cast(ResNetTP, model)
    features = network.features(clips)
    found = {"cross_entropy": F.cross_entropy(network.fc(features), labels, label_smoothing=objective.smoothing)}
    return found | ({"triplet": batch_hard(features, labels, objective.margin)} if objective.margin else {})


def evaluate(ctx: Ctx, model: nn.Module, data: Data) -> Mapping[str, float]:
    clips = cast(Clips, data)
    queries, gallery = judged(clips.data)
    features = _features(ctx, model, clips)
    ranked = rank_descriptors(features[: len(queries)], features[len(queries) :], queries, gallery)
    if ranked.unmatched == len(queries):
        raise VergenceError("no query has a match from another camera, as the protocol wants")
    scores = {f"rank{k}": ranked.cmc(k) for k in (1, 5, 10)} | {"map": ranked.mean_precision}
    if ranked.unmatched:
        ctx.progress.say(f"{ranked.unmatched} of {len(queries)} queries have no match and are not judged")
        scores["unmatched"] = float(ranked.unmatched)
    return scores


@torch.no_grad()
def _features(ctx: Ctx, model: nn.Module, clips: Clips) -> Tensor:
    """The mean feature of each tracklet's clips."""
    found = []
    network = cast(ResNetTP, model.to(ctx.device).eval())
    for given in ctx.batches(clips, AT_ONCE):
        batch = Batch(*given)
        found.append(batch.pooled(network.features(batch.clips).float()))
    return ctx.gather(torch.cat(found)).cpu()


def predict(ctx: Ctx, model: nn.Module, inputs: Inputs) -> Sequence[Artifact]:
    """Rank a gallery of tracklets for one query."""
    if inputs.query is None or inputs.gallery is None:
        raise VergenceError("nothing to find: give --query DIR (frames of one person) and --gallery DIR (of tracklets)")
    if inputs.top < 1:
        raise VergenceError(f"at least one match is shown, got --top {inputs.top}")
    view = cast(Tracklets, ctx.config.data)
    folders = [inputs.query, *_folders(inputs.gallery, inputs.query)]
    raw = Files(tuple(_tracklet(folder) for folder in folders), queries=1)
    clips = Clips(raw, view, view.frames, view.most)
    features = _features(ctx, model, clips)
    far, order = distances(features[:1], features[1:])[0].sort()
    table = ctx.folder / "matches.csv"
    rows = [[str(folders[0]), place, str(folders[1 + i]), f"{d:.6f}"]
            for place, (d, i) in enumerate(zip(far.tolist(), order.tolist(), strict=True), 1)]  # fmt: skip
    with replacing(table) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["query", "rank", "match", "distance"], *rows[: inputs.top]])
    best = list(zip(far.tolist(), order.tolist(), strict=True))[: inputs.top]
    found = [page.Match(_frame(raw, 1 + i), str(folders[1 + i]), d) for d, i in best]
    made = _attended(ctx, {"": model}, clips, 0, _asked(inputs.points, _frame(raw, 0)))
    explained = [(artifact.caption, artifact.path) for artifact in made]
    note = f"The nearest of {len(folders) - 1} tracklets, by the distance between their mean features."
    matches = [page.Matches(_frame(raw, 0), str(folders[0]), found, explained)]
    ranked = page.write_page(ctx.folder / "matches.html", "Matches", note, matches)
    return [
        Artifact("html", ranked, "The nearest tracklets of the query, a frame of each."),
        Artifact("table", table, "The same as a table: query, rank, match, distance."),
        *made,
    ]


def _folders(gallery: Path, query: Path) -> list[Path]:
    if not gallery.is_dir():
        raise VergenceError(f"{gallery} is not a folder of tracklets")
    found = sorted(p for p in gallery.iterdir() if p.is_dir() and p.resolve() != query.resolve())
    if not found:
        raise VergenceError(f"{gallery} holds no tracklets: expected folders of pictures in it")
    return found


def _tracklet(folder: Path) -> Tracklet:
    frames = find_images(folder) if folder.is_dir() else []
    if not frames:
        raise VergenceError(f"{folder} holds no pictures: expected a tracklet, a folder with the frames of one person")
    return Tracklet(folder, tuple(str(frame.relative_to(folder)) for frame in frames), 0, 0)


def _asked(points: Sequence[Point], picture: Tensor) -> list[tuple[float, float]]:
    height, width = picture.shape[-2:]
    for point in points:
        if not (0 <= point.x < width and 0 <= point.y < height):
            raise VergenceError(
                f"the point {point.x:g},{point.y:g} is outside the frames, which are {width} x {height}"
            )
    return [(point.x / width, point.y / height) for point in points] or _DOWN


def _frame(raw: Walks, index: int) -> Tensor:
    """The middle frame of a tracklet."""
    return raw.frames(index, [raw.length(index) // 2])[0]


def pictures(ctx: Ctx, models: Mapping[str, nn.Module], data: Data) -> Sequence[Artifact]:
    """Ranked lists of every variant, what a point looks at across frames, and how the blocks filter."""
    clips = cast(Clips, data)
    batch = torch.stack([clips[index].clip[0] for index in range(min(4, len(clips)))])
    return [
        _lists(ctx, models, clips),
        *_attended(ctx, models, clips, 0, _DOWN[1:2]),
        *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch)),
    ]


def _lists(ctx: Ctx, models: Mapping[str, nn.Module], clips: Clips, count: int = 3, top: int = 8) -> Artifact:
    """The nearest tracklets of some queries, a row a variant."""
    raw = clips.data
    queries, gallery = judged(raw)
    chosen = [i * raw.queries // count for i in range(min(count, raw.queries))]
    lists = {}
    for name, model in models.items():
        found = _features(ctx, model, clips)
        own = (queries.identities[chosen][:, None] == gallery.identities) & (
            queries.cameras[chosen][:, None] == gallery.cameras
        )
        lists[name] = distances(found[chosen], found[raw.queries :]).masked_fill(own, torch.inf).sort(dim=1)
    rows = []
    for place, index in enumerate(chosen):
        for name, (far, order) in lists.items():
            here = []
            for distance, other in zip(far[place, :top].tolist(), order[place, :top].tolist(), strict=True):
                same = raw.identities[raw.queries + other] == raw.identities[index]
                here.append((fitted(_frame(raw, raw.queries + other), 192), distance, same))
            rows.append(page.row(fitted(_frame(raw, index), 192), name, here))
    caption = (
        "Held-out queries (left, the middle frame of a tracklet) and what each variant finds nearest in other cameras, "
        "with distances: green frames are the same person."
    )
    return Artifact("image", grid(ctx.folder / "matches.png", rows, side=1.0), caption)


@torch.no_grad()
def _attended(
    ctx: Ctx, models: Mapping[str, nn.Module], clips: Clips, index: int, shares: Sequence[tuple[float, float]]
) -> list[Artifact]:
    """What points of a clip's middle frame look at in all of its frames."""
    clip = clips[index].clip[0]  # (T, 3, H, W)
    view = cast(Tracklets, ctx.config.data)
    undone = clip * clip.new_tensor(view.std).view(3, 1, 1) + clip.new_tensor(view.mean).view(3, 1, 1)
    frames = list(undone.clamp(0, 1))
    middle, (height, width) = len(frames) // 2, undone.shape[-2:]
    marks = [Point(x * width, y * height) for x, y in shares]
    rows = [[Panel(frame, "query" if t == 0 else "", marks if t == middle else ()) for t, frame in enumerate(frames)]]
    for name, model in models.items():
        network = cast(Network, model.to(ctx.device).eval())
        for place, heat in attention(network, ctx.to_device(clip[None]), shares)[1].items():
            for number, mark in enumerate(marks):
                seen = heat[0, number].float().cpu()
                if seen.dim() == 2:  # each frame by itself
                    continue
                wide = overlay(torch.cat(frames, -1), torch.cat(list(seen), -1))
                heading = name or f"{place}, point {number + 1}"
                rows.append(
                    [
                        Panel(part, heading if t == 0 else "", [mark] if t == middle else ())
                        for t, part in enumerate(wide.split(width, -1))
                    ]
                )
    if len(rows) == 1:
        return []
    caption = "A clip, and what the circled points of its middle frame look at in all frames (bright: much)."
    return [Artifact("image", grid(ctx.folder / "attention.png", rows, side=1.3), caption)]
