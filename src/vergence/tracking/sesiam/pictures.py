"""What the trained trackers do: curves, attributes, the shifts of Figure 1, and a strip of tracks that plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from vergence.contract.context import Context
from vergence.contract.inputs import Artifact
from vergence.contract.settings import NoFacts, Variant
from vergence.tracking import drawing
from vergence.tracking.boxes import Array
from vergence.tracking.metrics import Pass, box_attributes, by_attribute, one_pass
from vergence.tracking.protocol import Followed, follow
from vergence.tracking.sesiam.networks import SiameseNetwork
from vergence.tracking.sesiam.settings import Config
from vergence.tracking.sesiam.shifts import shift_out
from vergence.tracking.sesiam.tracker import Tracker, together

if TYPE_CHECKING:
    from vergence.tracking.sesiam.system import Clips

Ctx = Context[Config, NoFacts]
SHOWN = 5
"""Sequences of each world that pictures are made of."""


def draw(
    ctx: Ctx, models: Mapping[str, SiameseNetwork], clips: Clips, variants: Mapping[str, Variant]
) -> Sequence[Artifact]:
    """All pictures of a report."""
    labels = {name: variants[name].label if name in variants else name for name in models}
    few = clips.only(SHOWN)
    tracks = few.tracks
    followed: dict[str, list[Followed]] = {}
    for name, model in models.items():
        make = partial(Tracker, model.to(ctx.device).eval(), ctx.config.inference)
        followed[labels[name]] = follow(tracks, make, together, ctx.cancelled)
    passes = {
        name: [one_pass(f.boxes, t.boxes, t.visible) for f, t in zip(made, tracks, strict=True)]
        for name, made in followed.items()
    }
    worlds: dict[str, dict[str, list[Pass]]] = {}
    first = 0
    for ending, some in few.worlds.items():
        last = first + len(some.sequences)
        title = {"_t": "T-MNIST", "_s": "S-MNIST"}.get(ending, "test data")
        worlds[title] = {name: made[first:last] for name, made in passes.items()}
        first = last
    folder = ctx.folder
    held = [dict(t.attributes) | box_attributes(t.boxes) for t in tracks]
    table = {name: by_attribute(made, held) for name, made in passes.items()}
    made = [
        Artifact(
            "image",
            drawing.plots(folder / "plots.png", worlds),
            f"Success and precision on the first {SHOWN} sequences of each kind.",
        )
    ]
    if any(table.values()):
        path = drawing.attributes(folder / "attributes.png", table)
        made.append(Artifact("image", path, "By what makes sequences hard, as the data set or its boxes say."))
    given, still = np.arange(-28.0, 29.0, 2.0), tracks[0]
    frame, box = still.frames[0], still.boxes[0].tolist()
    found = {labels[name]: shift_out(model, frame, box, given) for name, model in models.items()}
    path = drawing.shifts(folder / "shifts.png", given, found)
    caption = "Figure 1: the window of a still frame is moved; the peak of the response should move as far."
    made.append(Artifact("image", path, caption))
    number = len(tracks) - len(tracks) // 2 if len(few.worlds) > 1 else 0
    number = max((n for n in range(number, len(tracks))), key=lambda n: _spread(tracks[n].boxes))
    track = tracks[number]
    rows = []
    for index in range(min(len(track), 60)):
        frame = track.frames[index]
        row = [
            drawing.boxed(frame, {"truth": track.boxes[index], name: some[number].boxes[index]}, name)
            for name, some in followed.items()
        ]
        rows.append(row)
    path = drawing.strip(folder / "track.gif", rows)
    caption = f"{track.name}: white is the truth, blue what the tracker says."
    made.append(Artifact("image", path, caption))
    return made


def _spread(boxes: Array) -> float:
    """How much a target's size changes."""
    sizes = boxes[:, 2][np.isfinite(boxes[:, 2])]
    return float(sizes.max() / max(sizes.min(), 1e-6)) if len(sizes) else 0.0
