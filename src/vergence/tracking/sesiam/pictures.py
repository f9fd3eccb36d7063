"""Pictures of trained trackers: curves, attributes, the shifts of Figure 1, and an animated strip of tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts
from vergence.tracking import drawing
from vergence.tracking.boxes import Array
from vergence.tracking.data import Clips
from vergence.tracking.metrics import Pass, box_attributes, by_attribute, one_pass
from vergence.tracking.protocol import Followed, follow
from vergence.tracking.sesiam.model import SiameseNetwork
from vergence.tracking.sesiam.settings import SETTINGS, Config
from vergence.tracking.siamese import Tracker, shift_out, together

Ctx = Context[Config, NoFacts]
SHOWN = 5
"""Number of sequences per world in pictures."""
TITLES = {"_t": "T-MNIST", "_s": "S-MNIST"}


def draw(ctx: Ctx, models: Mapping[str, SiameseNetwork], clips: Clips) -> Sequence[Artifact]:
    """Draws all pictures of a report."""
    few = clips.only(SHOWN)
    followed = {
        SETTINGS.label(name): follow(few.tracks, partial(Tracker, model, ctx.config.inference), together, ctx.cancelled)
        for name, model in models.items()
    }
    passes = {
        name: [one_pass(f.boxes, t.boxes, t.visible) for f, t in zip(some, few.tracks, strict=True)]
        for name, some in followed.items()
    }
    return [
        *_scores(ctx, few, passes),
        _shifts(ctx, {SETTINGS.label(name): model for name, model in models.items()}, few),
        _strip(ctx, few, followed),
    ]


def _scores(ctx: Ctx, few: Clips, passes: Mapping[str, Sequence[Pass]]) -> list[Artifact]:
    worlds: dict[str, dict[str, Sequence[Pass]]] = {}
    for name, some in passes.items():
        for ending, part in few.by_world(some).items():
            worlds.setdefault(TITLES.get(ending, "test data"), {})[name] = part
    caption = f"Success and precision on the first {SHOWN} sequences of each kind."
    artifacts = [Artifact("image", drawing.plots(ctx.folder / "plots.png", worlds), caption)]
    attributes = [dict(track.attributes) | box_attributes(track.boxes) for track in few.tracks]
    table = {name: by_attribute(some, attributes) for name, some in passes.items()}
    if any(table.values()):
        path = drawing.attributes(ctx.folder / "attributes.png", table)
        artifacts.append(Artifact("image", path, "By attribute of the sequences, from the data set or from its boxes."))
    return artifacts


def _shifts(ctx: Ctx, models: Mapping[str, SiameseNetwork], few: Clips) -> Artifact:
    steps, still = np.arange(-28.0, 29.0, 2.0), few.tracks[0]
    frame, box = still.frames[0], still.boxes[0].tolist()
    shifts = {name: shift_out(model, frame, box, steps) for name, model in models.items()}
    caption = "Figure 1: the window of a still frame is moved; the peak of the response should move as far."
    return Artifact("image", drawing.shifts(ctx.folder / "shifts.png", steps, shifts), caption)


def _strip(ctx: Ctx, few: Clips, followed: Mapping[str, Sequence[Followed]]) -> Artifact:
    """Draws the sequence of the last world in which the target's size changes most."""
    tracks = few.tracks
    first = len(tracks) - len(tracks) // 2 if len(few.worlds) > 1 else 0
    number = max(range(first, len(tracks)), key=lambda n: _spread(tracks[n].boxes))
    track = tracks[number]
    rows = []
    for index in range(min(len(track), 60)):
        frame, truth = track.frames[index], track.boxes[index]
        boxes = {name: some[number].boxes[index] for name, some in followed.items()}
        rows.append([drawing.boxed(frame, {"truth": truth, name: box}, name) for name, box in boxes.items()])
    path = drawing.strip(ctx.folder / "track.gif", rows)
    return Artifact("image", path, f"{track.name}: white is the truth, blue the tracker.")


def _spread(boxes: Array) -> float:
    """Range of a target's size."""
    sizes = boxes[:, 2][np.isfinite(boxes[:, 2])]
    return float(sizes.max() / max(sizes.min(), 1e-6)) if len(sizes) else 0.0
