"""Training pairs: a template and a search region of one target, from two frames of a sequence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vergence.core.errors import VergenceError
from vergence.tracking.boxes import Array
from vergence.tracking.crops import Frame, context_side, mean_colour, normalised, window
from vergence.tracking.data import Tracks
from vergence.tracking.settings import Augmentation


@dataclass(frozen=True)
class Pairs:
    """Random pairs from sequences: normalised ``template`` and ``search``, and ``offset`` (2,), the target's position
    relative to the centre of the search region, in pixels."""

    tracks: Tracks
    template_size: int
    search_size: int
    settings: Augmentation

    def __len__(self) -> int:
        return self.settings.pairs

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.draw(index, torch.Generator().manual_seed(index))

    def draw(self, index: int, generator: torch.Generator) -> dict[str, Tensor]:
        """A pair from frames of a sequence in which the target is visible."""
        track = self.tracks.sequences[index % len(self.tracks.sequences)]
        if not len(track.shown):
            raise VergenceError(f"{track.name} has no frame with a box to train on")

        def uniform(*shape: int) -> Tensor:
            return 2 * torch.rand(*shape, generator=generator) - 1

        first = int(torch.randint(len(track.shown), (), generator=generator))
        frame = track.shown[first]
        near = track.shown[abs(track.shown - frame) <= self.settings.reach]
        other = near[int(torch.randint(len(near), (), generator=generator))]
        shift = self.settings.shift * uniform(2)
        template = self.crop(track.frames[frame], track.boxes[frame], self.template_size, torch.zeros(2), uniform(1))
        search = self.crop(track.frames[other], track.boxes[other], self.search_size, shift, uniform(1))
        changes = 1 + self.settings.jitter * uniform(2, 3)
        return {
            "template": normalised(jittered(template[0], changes[0])),
            "search": normalised(jittered(search[0], changes[1])),
            "offset": search[1],
        }

    def crop(self, frame: Frame, box: Array, size: int, shift: Tensor, stretch: Tensor) -> tuple[Tensor, Tensor]:
        """A crop (3, size, size) with the target ``shift`` pixels from the centre, and its actual offset."""
        x, y, w, h = map(float, box)
        side = context_side(w, h) * size / self.template_size * (1 + self.settings.stretch * float(stretch))
        unit = side / size
        cx, cy = x + w / 2, y + h / 2
        cut = window(frame, cx - float(shift[0]) * unit, cy - float(shift[1]) * unit, side, size, mean_colour(frame))
        unit = cut.side / size
        return cut.pixels, torch.tensor([(cx - cut.x) / unit, (cy - cut.y) / unit])


def jittered(pixels: Tensor, changes: Tensor) -> Tensor:
    """Changes brightness, contrast and saturation of pixels (3, H, W) of 0 to 255 by a factor each."""
    brightness, contrast, saturation = changes.tolist()
    pixels = pixels * brightness
    pixels = pixels.mean() + contrast * (pixels - pixels.mean())
    grey = pixels.mean(0, keepdim=True)
    return (grey + saturation * (pixels - grey)).clamp(0, 255)


def targets(offsets: Tensor, height: int, width: int, stride: float, radius: float) -> Tensor:
    """Labels (B, height, width): 1 where a cell is within ``radius`` cells of the target in L1 distance; ``offsets``
    (B, 2) are x and y from the centre, in pixels."""
    at = offsets / stride
    x = torch.arange(width, device=at.device) - (width - 1) / 2
    y = torch.arange(height, device=at.device) - (height - 1) / 2
    away = (x - at[:, :1]).abs().unsqueeze(1) + (y - at[:, 1:]).abs().unsqueeze(2)
    return (away <= radius).to(offsets.dtype)


def balanced_logistic(response: Tensor, labels: Tensor) -> Tensor:
    """Balanced logistic loss of responses (B, h, w): half the mean over positives plus half the mean over negatives."""
    loss = torch.nn.functional.binary_cross_entropy_with_logits(response, labels, reduction="none")
    dims = (-2, -1)
    hit = (loss * labels).sum(dims) / labels.sum(dims).clamp_min(1)
    miss = (loss * (1 - labels)).sum(dims) / (1 - labels).sum(dims).clamp_min(1)
    return (0.5 * (hit + miss)).mean()
