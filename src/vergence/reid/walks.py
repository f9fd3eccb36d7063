"""Embedded tracklets: the drawn people of :mod:`vergence.reid.figures` walk past cameras behind fences.

In every frame boards cover two of three bands of the body (head, top, legs), and the visible band changes from frame to
frame: three consecutive frames show everything, one frame shows a third. Boards have faded clothing colours in vertical
stripes, a pattern that no garment has. Identifying a person therefore takes several frames and distant places in them.
The colour of the light differs between cameras and tracklets, and only the background as a whole reveals it, so this
holds for every single colour too. Position, size, stride and turn drift slowly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.core.seeding import generator
from vergence.reid.figures import CAMERAS, WEAR, Canvas, Person, backgrounds, camera_views, paint_person
from vergence.reid.tracklets import Walk

BANDS = ((-0.1, 0.185), (0.185, 0.5), (0.5, 1.05))
"""Head, top and legs, from the crown (0) to the soles (1)."""
FADED = 0.6
"""How much the colours of boards are faded to grey, 0 to 1."""
AT_A_TIME = 512
"""Frames drawn in one batch."""


@dataclass(frozen=True)
class Walked:
    """Tracklets (N, T, 3, H, W) as bytes with identities and cameras; the first ``queries`` are the queries."""

    clips: Tensor
    identities: tuple[int, ...]
    cameras: tuple[int, ...]
    shown: Tensor
    """The visible one of :data:`BANDS` in each frame, (N, T)."""
    queries: int = 0

    def __len__(self) -> int:
        return len(self.identities)

    def __getitem__(self, index: int) -> Walk:
        return Walk(self.clips[index], self.identities[index], self.cameras[index])

    def length(self, index: int) -> int:
        """The number of frames of a tracklet."""
        return self.clips.shape[1]

    def frames(self, index: int, places: Sequence[int]) -> list[Tensor]:
        """The frames at ``places`` of a tracklet, bytes (3, H, W) each."""
        return list(self.clips[index][list(places)])


@lru_cache(maxsize=8)
def walks(people: int, frames: int, height: int, width: int, split: str, seed: int = 0) -> Walked:
    """Tracklets of ``frames`` frames, one per camera for each of ``people`` identities.

    Splits have different people under the same cameras. In ``train`` identities count from 0; in the others the
    tracklets of the first half of the cameras are the queries, those of the second half the gallery, which also has
    distractors, a fifth as many people again.
    """
    if people < 2 or frames < 1 or min(height, width) < 16:
        raise VergenceError(
            f"embedded tracklets have at least 2 people, 1 frame and 16 pixels per side, got {people} people and "
            f"{frames} frames of {height} x {width}"
        )
    everyone = people + (0 if split == "train" else people // 5)
    person, camera = torch.cartesian_prod(torch.arange(everyone), torch.arange(CAMERAS)).unbind(1)
    source = generator("walks", people, frames, height, width, split, seed)
    wardrobe = Person.draw(everyone, source)
    # The visible band: all three in turn, in a random order per tracklet.
    order = torch.rand(len(person), len(BANDS), generator=source).argsort(1)
    shown = order[:, torch.arange(frames) % len(BANDS)]
    at_once = max(AT_A_TIME // frames, 1)
    clips = torch.cat(
        [
            _draw(wardrobe.of(person[some]), camera[some], shown[some], height, width, source)
            for some in torch.arange(len(person)).split(at_once)
        ]
    )
    if split == "train":
        return Walked(clips, tuple(person.tolist()), tuple(camera.tolist()), shown)
    known = person < people
    asks, ranked = (camera < CAMERAS // 2) & known, camera >= CAMERAS // 2
    kept = torch.cat([asks.nonzero()[:, 0], ranked.nonzero()[:, 0]])
    identities = (person[kept] + 1).where(known[kept], 0)  # 0: a distractor
    return Walked(clips[kept], tuple(identities.tolist()), tuple(camera[kept].tolist()), shown[kept], int(asks.sum()))


def _draw(person: Person, camera: Tensor, shown: Tensor, height: int, width: int, source: torch.Generator) -> Tensor:
    """Tracklets (N, T, 3, H, W) of people by cameras (N,), with the visible bands (N, T)."""
    count, frames = shown.shape

    def steady(low: float, high: float) -> Tensor:
        """One number for all frames of a tracklet, (N T, 1, 1)."""
        return (low + (high - low) * torch.rand(count, generator=source)).repeat_interleave(frames)[:, None, None]

    def drifting(low: float, high: float) -> Tensor:
        """A number that drifts slowly from frame to frame, (N T, 1, 1)."""
        start, rate = torch.rand(2, count, 1, generator=source)
        share = ((2 * start + 0.15 * rate * torch.arange(frames)) % 2 - 1).abs()
        return (low + (high - low) * share).flatten()[:, None, None]

    view, whose = camera_views(), torch.arange(count).repeat_interleave(frames)
    everyone = person.of(whose)
    ground = backgrounds(view, camera, height, width, source)[whose]
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    zoom, side, falling = (view[name][camera][whose, None, None] for name in ("zoom", "side", "slope"))
    scale = everyone.sizes[:, :1, None] * zoom * drifting(0.88, 1.04)
    top, lean = 0.5 - 0.46 * scale + drifting(-0.07, 0.07), drifting(-0.12, 0.12)
    v = (y - top) / (0.92 * scale)
    u = (x - drifting(-0.22, 0.22) - lean * (v - 0.5)) / scale
    u = torch.where(steady(0, 1) < 0.5, u, -u)
    canvas = Canvas(ground, u, v, 0.5 * height * scale)
    paint_person(canvas, everyone, side, drifting)
    _paint_boards(canvas, x, shown.flatten(), whose, source)
    # Light: of the camera, of the hour, and one exposure and fall-off for the whole tracklet; then grain.
    hour = (0.8 * torch.rand(count, 3, 1, 1, generator=source) - 0.4).exp()
    tint = (view["light"][camera][:, :, None, None] * hour)[whose]
    slope = 1 + falling * (y - 0.5) + steady(-0.25, 0.25) * x
    lit = _moved(canvas.picture, source) * tint * (steady(0.75, 1.2) * slope)[:, None]
    lit = lit + 0.04 * torch.randn(lit.shape, generator=source)
    return lit.clamp(0, 1).mul(255).round().to(torch.uint8).unflatten(0, (count, frames))


def _paint_boards(canvas: Canvas, x: Tensor, shown: Tensor, whose: Tensor, source: torch.Generator) -> None:
    """Covers the hidden bands by boards with vertical stripes of two colours, drawn anew in every frame."""
    for band, (upper, lower) in enumerate(BANDS):
        first = torch.randint(0, len(WEAR), (len(whose),), generator=source)
        other = (first + torch.randint(1, len(WEAR), (len(whose),), generator=source)) % len(WEAR)
        dark, light = (torch.lerp(WEAR[colour], torch.tensor(0.45), FADED) for colour in (first, other))
        ragged = 0.03 * torch.randn(2, len(whose), 1, 1, generator=source)
        inside = torch.minimum(canvas.v - upper - ragged[0], lower - canvas.v + ragged[1]) * canvas.pixels + 0.5
        inside = inside.clamp(0, 1) * (shown != band)[:, None, None]
        phase = torch.rand(len(whose), 1, 1, generator=source)
        stripes = (((x + phase) * 5).floor() % 2 == 0).float()
        canvas.cover(inside * stripes, dark)
        canvas.cover(inside * (1 - stripes), light)


def _moved(pictures: Tensor, source: torch.Generator) -> Tensor:
    """Applies horizontal motion blur to a fifth of the frames (N, 3, H, W), in place."""
    blurred = (torch.rand(len(pictures), generator=source) < 0.2).nonzero()[:, 0]
    if len(blurred):
        wide = F.pad(pictures[blurred], (2, 2, 0, 0), mode="replicate")
        pictures[blurred] = F.avg_pool2d(wide, (1, 5), 1)
    return pictures
