"""Re-identification of people across cameras, by the mean feature of a tracklet's clips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.contract.inputs import Artifact, Point
from vergence.contract.system import Task
from vergence.core.errors import VergenceError
from vergence.core.files import write_table
from vergence.data.images import find_images, fitted
from vergence.data.layouts import read, say_left_out, share
from vergence.drawing.grid import grid
from vergence.metrics.ranking import distances, rank_descriptors
from vergence.nn import ResNetTP
from vergence.ops.triplet import batch_hard
from vergence.recognition.settings import Facts
from vergence.recognition.snl.pictures import Attended, attended, clip_rows, spectra
from vergence.recognition.snl.predict import Matches, Shares
from vergence.recognition.snl.settings import Config, Inputs, Tracklets
from vergence.recognition.snl.tasks import Ctx, asked
from vergence.reid import page
from vergence.reid.data import judged
from vergence.reid.results import Match
from vergence.reid.tracklet_layouts import FOLDED, LAYOUTS, LISTED
from vergence.reid.tracklets import BalancedClips, Batch, Clips, Tracklet, Walks
from vergence.reid.tracklets import Tracklets as Files
from vergence.reid.walks import walks

AT_ONCE = 8
"""Tracklets that evaluation holds at a time."""
_DOWN = [(0.5, 0.15), (0.5, 0.4), (0.5, 0.75)]
"""Three points down the middle of a person: usually head, top and legs."""


class TrackletTask(Task[Config, Facts, ResNetTP, Clips, Matches]):
    kind = Tracklets
    takes = ("query", "gallery", "top", "points")
    layouts = {"tracklets" if name == "folder" else name: layout for name, layout in LAYOUTS.items()}

    def embedded(self, config: Config) -> str:
        return (
            "Embedded: drawn people who walk past cameras behind fences, so that one frame shows a third of them; "
            "cameras differ in light and view. Test identities are not in the training set."
        )

    def judged_by(self, config: Config) -> str:
        return "rank1"

    def data(self, ctx: Ctx, split: str) -> Clips:
        view = asked(ctx.config, Tracklets)
        layouts = {**self.layouts, "folder": LAYOUTS["folder"]}
        for name, reader in LISTED.items():
            options: dict[str, Any] = {"fold": view.fold} if name in FOLDED else {}
            layouts[name] = replace(LAYOUTS[name], read=partial(reader, missing=view.missing, **options))
        people = max(share(view.people, split, of=2), 2)
        tracklets = read(
            view.source,
            layouts,
            split,
            embedded=lambda: walks(people, view.length, view.height, view.width, split),
        )
        say_left_out(ctx.progress, getattr(tracklets, "skipped", ()))
        if split == "train":
            return BalancedClips(tracklets, view, view.frames, each=view.each)
        return Clips(tracklets, view, view.frames, view.most)

    def facts(self, ctx: Ctx, data: Clips) -> Facts:
        return Facts(len(set(data.data.identities)))

    def example(self, config: Config, facts: Facts, batch: int = 1) -> tuple[Tensor, ...]:
        view = asked(config, Tracklets)
        return (torch.zeros(batch, view.frames, 3, view.height, view.width),)

    def preprocessing(self, config: Config) -> Mapping[str, Any]:
        view = asked(config, Tracklets)
        resize = [view.height, view.width]
        return {"frames": view.frames, "range": [0, 1], "resize": resize, "mean": view.mean, "std": view.std}

    def losses(self, ctx: Ctx, model: ResNetTP, batch: Any) -> Mapping[str, Tensor]:
        clips, labels, _, _ = batch
        objective = ctx.config.objective
        features = model.features(clips)
        losses = {"cross_entropy": F.cross_entropy(model.fc(features), labels, label_smoothing=objective.smoothing)}
        return losses | ({"triplet": batch_hard(features, labels, objective.margin)} if objective.margin else {})

    def evaluate(self, ctx: Ctx, model: ResNetTP, data: Clips) -> Mapping[str, float]:
        queries, gallery = judged(data.data)
        features = _features(ctx, model, data)
        ranked = rank_descriptors(features[: len(queries)], features[len(queries) :], queries, gallery)
        if ranked.unmatched == len(queries):
            raise VergenceError("no query has a match from another camera, which the protocol needs")
        scores = {f"rank{k}": ranked.cmc(k) for k in (1, 5, 10)} | {"map": ranked.mean_precision}
        if ranked.unmatched:
            ctx.progress.say(f"{ranked.unmatched} of {len(queries)} queries have no match and are not evaluated")
            scores["unmatched"] = float(ranked.unmatched)
        return scores

    def infer(self, ctx: Ctx, model: ResNetTP, inputs: Inputs) -> Matches:
        """Ranks a gallery of tracklets for one query."""
        query, gallery = _asked_for(inputs)
        view = asked(ctx.config, Tracklets)
        folders = [query, *_folders(gallery, query)]
        tracklets = Files(tuple(_tracklet(folder) for folder in folders), queries=1)
        shares = _shares(inputs.points, _frame(tracklets, 0))
        clips = Clips(tracklets, view, view.frames, view.most)
        features = _features(ctx, model, clips)
        far, order = (values[: inputs.top].tolist() for values in distances(features[:1], features[1:])[0].sort())
        matches = tuple(Match(str(folders[1 + other]), distance) for distance, other in zip(far, order, strict=True))
        looks = attended(model, ctx.to_device(clips[0].clip[0]), shares, lambda place, _: place)
        maps = {look.heading: look.heats for look in looks}
        return Matches((str(query),), (matches,), len(folders) - 1, shares, maps)

    def render(self, ctx: Ctx, inputs: Inputs, result: Matches) -> Sequence[Artifact]:
        query, _ = _asked_for(inputs)
        view = asked(ctx.config, Tracklets)
        folders = [query, *(Path(match.name) for match in result.matches[0])]
        tracklets = Files(tuple(_tracklet(folder) for folder in folders), queries=1)
        rows = [[query, rank, m.name, f"{m.distance:.6f}"] for rank, m in enumerate(result.matches[0], 1)]
        table = write_table(ctx.folder / "matches.csv", ["query", "rank", "match", "distance"], rows)
        shown = [
            page.Match(_frame(tracklets, number), match.name, match.distance)
            for number, match in enumerate(result.matches[0], 1)
        ]
        looks = [Attended(place, heats) for place, heats in result.attention.items()]
        clip = Clips(tracklets, view, view.frames, view.most)[0].clip[0]
        drawings = _drawn(ctx, clip, result.points, looks)
        explained = [(artifact.caption, artifact.path) for artifact in drawings]
        note = f"The nearest of {result.searched} tracklets, by the distance between their mean features."
        first = page.Matches(_frame(tracklets, 0), str(query), shown, explained)
        ranked = page.write_page(ctx.folder / "matches.html", "Matches", note, [first])
        nearest = [(fitted(m.picture, 192), m.distance, None) for m in shown[:8] if m.picture is not None]
        strip = grid(ctx.folder / "matches.png", [page.row(fitted(first.picture, 192), "query", nearest)], side=1.2)
        return [
            Artifact("html", ranked, "The nearest tracklets of the query, one frame of each."),
            Artifact("image", strip, "The query (left) and the nearest tracklets, one frame of each, with distances."),
            Artifact("table", table, "The same as a table: query, rank, match, distance."),
            *drawings,
        ]

    def pictures(self, ctx: Ctx, models: Mapping[str, ResNetTP], data: Clips) -> Sequence[Artifact]:
        """Draws ranked lists of every variant, the attention of a point across frames, and the blocks' spectra."""
        batch = torch.stack([data[index].clip[0] for index in range(min(4, len(data)))])
        return [
            _lists(ctx, models, data),
            *_attended(ctx, models, data, _DOWN[1:2]),
            *spectra(ctx.folder / "spectrum.png", models, ctx.to_device(batch)),
        ]


def _features(ctx: Ctx, model: ResNetTP, clips: Clips) -> Tensor:
    """The mean feature of each tracklet's clips, (N, C)."""
    features = []
    for fields in ctx.batches(clips, AT_ONCE):
        batch = Batch(*fields)
        features.append(batch.pooled(model.features(batch.clips).float()))
    return ctx.gather(torch.cat(features)).cpu()


def _folders(gallery: Path, query: Path) -> list[Path]:
    """The tracklets of a gallery, without the query itself."""
    if not gallery.is_dir():
        raise VergenceError(f"{gallery} is not a folder of tracklets")
    folders = sorted(p for p in gallery.iterdir() if p.is_dir() and p.resolve() != query.resolve())
    if not folders:
        raise VergenceError(f"{gallery} holds no tracklets: expected folders of pictures in it")
    return folders


def _tracklet(folder: Path) -> Tracklet:
    frames = find_images(folder) if folder.is_dir() else []
    if not frames:
        raise VergenceError(f"{folder} holds no pictures: expected a tracklet, a folder with the frames of one person")
    return Tracklet(folder, tuple(str(frame.relative_to(folder)) for frame in frames), 0, 0)


def _shares(points: Sequence[Point], picture: Tensor) -> Shares:
    """Points from pixels of a frame to fractions of it; by default three down its middle."""
    height, width = picture.shape[-2:]
    for point in points:
        if not (0 <= point.x < width and 0 <= point.y < height):
            raise VergenceError(
                f"the point {point.x:g},{point.y:g} is outside the frames, which are {width} x {height}"
            )
    return [(point.x / width, point.y / height) for point in points] or _DOWN


def _frame(tracklets: Walks, index: int) -> Tensor:
    """The middle frame of a tracklet."""
    return tracklets.frames(index, [tracklets.length(index) // 2])[0]


def _lists(ctx: Ctx, models: Mapping[str, ResNetTP], clips: Clips, count: int = 3, top: int = 8) -> Artifact:
    """The nearest tracklets of a few queries, one row per variant."""
    tracklets = clips.data
    queries, gallery = judged(tracklets)
    chosen = [i * tracklets.queries // count for i in range(min(count, tracklets.queries))]
    identities, cameras = queries.identities[chosen][:, None], queries.cameras[chosen][:, None]
    same_camera = (identities == gallery.identities) & (cameras == gallery.cameras)
    lists = {}
    for name, model in models.items():
        features = _features(ctx, model, clips)
        far = distances(features[chosen], features[tracklets.queries :])
        lists[name] = far.masked_fill(same_camera, torch.inf).sort(dim=1)
    rows = []
    for place, index in enumerate(chosen):
        for name, (far, order) in lists.items():
            matches = []
            for distance, other in zip(far[place, :top].tolist(), order[place, :top].tolist(), strict=True):
                number = tracklets.queries + other
                same = tracklets.identities[number] == tracklets.identities[index]
                matches.append((fitted(_frame(tracklets, number), 192), distance, same))
            rows.append(page.row(fitted(_frame(tracklets, index), 192), name, matches))
    caption = (
        "Held-out queries (left, the middle frame of a tracklet) and what each variant finds nearest in other cameras, "
        "with distances: green frames are the same person."
    )
    return Artifact("image", grid(ctx.folder / "matches.png", rows, side=1.0), caption)


def _attended(ctx: Ctx, models: Mapping[str, ResNetTP], clips: Clips, shares: Shares) -> list[Artifact]:
    """Attention of points of the first tracklet's middle frame in all frames of its first clip, by model."""
    clip = clips[0].clip[0]  # (T, 3, H, W)
    looks = [
        look
        for name, model in models.items()
        for look in attended(model, ctx.to_device(clip), shares, lambda place, _, name=name: name)  # type: ignore[misc]
    ]
    return _drawn(ctx, clip, shares, looks)


def _drawn(ctx: Ctx, clip: Tensor, shares: Shares, looks: Sequence[Attended]) -> list[Artifact]:
    if not looks:
        return []
    rows = clip_rows(asked(ctx.config, Tracklets), clip, shares, len(clip), "query", looks)
    caption = "A clip, and the attention of the circled points of its middle frame in all frames (bright: high)."
    return [Artifact("image", grid(ctx.folder / "attention.png", rows, side=1.3), caption)]


def _asked_for(inputs: Inputs) -> tuple[Path, Path]:
    if inputs.query is None or inputs.gallery is None:
        raise VergenceError(
            "there is no query: give --query DIR (frames of one person) and --gallery DIR (of tracklets)"
        )
    return inputs.query, inputs.gallery
