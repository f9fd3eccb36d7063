"""What the trained trackers do: curves, attributes, the shifts of Figure 1, and a strip of tracks that plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from saccade.context import Context
from saccade.inputs import Artifact
from saccade.seeding import generator
from saccade.system import NoFacts, Variant
from saccade.tracking import drawing
from saccade.tracking.boxes import Array
from saccade.tracking.metrics import Pass, box_attributes, by_attribute, one_pass
from saccade.tracking.protocol import Followed, follow
from saccade.tracking.sesiam.networks import SiameseNetwork
from saccade.tracking.sesiam.settings import Config
from saccade.tracking.sesiam.tracker import Tracker, peak, together, upsampled
from saccade.tracking.synth import texture

if TYPE_CHECKING:
    from saccade.tracking.sesiam.system import Clips

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
        network = model.to(ctx.device).eval()
        followed[labels[name]] = follow(
            tracks, lambda network=network: Tracker(network, ctx.config.inference), together, ctx.cancelled
        )
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
    given = np.arange(-32.0, 33.0, 2.0)
    found = {labels[name]: shift_out(model.to(ctx.device).eval(), given) for name, model in models.items()}
    path = drawing.shifts(folder / "shifts.png", given, found)
    caption = "Figure 1: a picture is moved in front of the tracker; the peak of the response should move as far."
    made.append(Artifact("image", path, caption))
    number = len(tracks) - len(tracks) // 2 if len(few.worlds) > 1 else 0
    number = max((n for n in range(number, len(tracks))), key=lambda n: _spread(tracks[n].boxes))
    track = tracks[number]
    rows = []
    for index in range(min(len(track), 60)):
        frame = track.frames[index]
        row = [
            drawing.boxed(frame, {"truth": track.boxes[index], name: some[number].boxes[index]})
            for name, some in followed.items()
        ]
        rows.append(row)
    path = drawing.strip(folder / "track.gif", rows)
    caption = f"{track.name}: " + ", ".join(followed) + ", from left to right; white is the truth."
    made.append(Artifact("image", path, caption))
    return made


def _spread(boxes: Array) -> float:
    """How much a target's size changes."""
    sizes = boxes[:, 2][np.isfinite(boxes[:, 2])]
    return float(sizes.max() / max(sizes.min(), 1e-6)) if len(sizes) else 0.0


@torch.no_grad()
def shift_out(network: SiameseNetwork, given: Array) -> tuple[Array, Array]:
    """How far the peak of the response moves along x and y when a picture moves by ``given`` pixels in the search
    region: the supplement's check of the padding technique."""
    parameter = next(network.parameters())
    room = int(np.abs(given).max()) + 1
    size, template = network.search_size, network.template_size
    whole = (texture(size + 2 * room, generator("shifts")) / 255 - 0.35) / 0.22
    whole = whole.to(parameter)
    middle = (size + 2 * room - template) // 2
    exemplar = network.features(whole[None, :, middle : middle + template, middle : middle + template])
    found: list[Array] = []
    for axis in (1, 0):
        places = []
        for shift in given:
            top, left = (room - (int(shift) if axis == a else 0) for a in (0, 1))
            search = network.features(whole[None, :, top : top + size, left : left + size])
            response = network.connect(exemplar, search).amax(1).float()
            finer = upsampled(response, 16)[0]
            places.append((peak(finer, 0.0)[axis] - (finer.shape[-1] - 1) / 2) * network.stride / 16)
        found.append(np.array(places))
    return found[0], found[1]
