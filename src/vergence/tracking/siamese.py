"""Inference with Siamese networks: the target's state, search crops, and the estimate of position and size from
a response.

The rules are SiamFC's, the same for every network: a pyramid of crops around the last position, the peak of the best
one under a cosine window, a damped change of size. In our variant, a network whose response has a scale axis takes a
single crop, and the size is read from that axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.tracking.boxes import Array
from vergence.tracking.crops import Frame, Window, context_side, mean_colour, normalised, window
from vergence.tracking.protocol import Found
from vergence.tracking.settings import Inference

LEAST = 10.0
"""Smallest side of a target in pixels."""
RANGE = (0.2, 5.0)
"""Bounds of the search side, relative to the first frame's."""


class Network(Protocol):
    """Interface of networks for a Siamese tracker."""

    @property
    def template_size(self) -> int:
        """Side of a template in pixels."""

    @property
    def search_size(self) -> int:
        """Side of a search region in pixels."""

    @property
    def stride(self) -> int:
        """Stride of the response, in pixels of the search region."""

    @property
    def scales(self) -> Sequence[float]:
        """Along the response's scale axis, the target's size as a multiple of the template's."""

    def features(self, images: Tensor) -> Tensor:
        """Features (B, C, ...) of crops (B, 3, H, W)."""

    def connect(self, template: Tensor, search: Tensor) -> Tensor:
        """Responses (B, scales, h, w) of features of templates and search regions."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """Parameters; the first one gives device and dtype."""


LARGEST_BOX = 4
"""Sides of a box that a tracker starts with, in sides of the frame."""


def check_box(box: Sequence[float], height: int, width: int) -> None:
    """Raises an error for a box that a tracker cannot be initialised with."""
    x, y, w, h = box
    shown = ",".join(f"{v:g}" for v in box)
    if not all(map(math.isfinite, box)):
        raise VergenceError(f"the box {shown} is not four numbers")
    if w < 1 or h < 1:
        raise VergenceError(
            f"the box {shown} (x,y,width,height) has no area: expected a width and height of 1 pixel or more"
        )
    if w > LARGEST_BOX * width or h > LARGEST_BOX * height:
        raise VergenceError(
            f"the box {shown} (x,y,width,height) is more than {LARGEST_BOX} times as large as the frame of "
            f"{width} x {height} pixels"
        )
    if x >= width or y >= height or x + w <= 0 or y + h <= 0:
        raise VergenceError(f"the box {shown} (x,y,width,height) lies outside the frame of {width} x {height} pixels")


class Tracker:
    """One target. ``start`` with a frame and a box, then ``step`` with every later frame."""

    def __init__(self, network: Network, settings: Inference) -> None:
        self.network, self.settings = network, settings
        if settings.reading == "axis" and not ratios_of(network):
            raise VergenceError("this network's response has no scale axis to read sizes from: use the pyramid")
        first = next(network.parameters())
        self.device, self.kind = first.device, first.dtype

    @torch.no_grad()
    def start(self, frame: Frame, box: Sequence[float]) -> None:
        """Initialises with the target in a box (x, y, width, height)."""
        check_box(box, *frame.shape[:2])
        self.place(frame, box)
        self.template = self.network.features(self.input([self.exemplar(frame)]))
        if self.settings.reading == "axis":
            # Rescaled features do not have the same strength at every size. In the first frame the size is known: what
            # each slice gives there is what it must exceed.
            response = self.network.connect(self.template, self.network.features(self.input(self.crops(frame))))
            self.levels = response[0].float().flatten(1).amax(1).tolist()

    def place(self, frame: Frame, box: Sequence[float]) -> None:
        """Sets the target's position and size from a box."""
        x, y, w, h = map(float, box)
        self.x, self.y, self.width, self.height = x + w / 2, y + h / 2, w, h
        self.fill = mean_colour(frame)
        self.side = context_side(w, h) * self.network.search_size / self.network.template_size
        self.limits = (RANGE[0] * self.side, RANGE[1] * self.side)

    def exemplar(self, frame: Frame) -> Window:
        """The template's crop."""
        side = self.side * self.network.template_size / self.network.search_size
        return window(frame, self.x, self.y, side, self.network.template_size, self.fill)

    def crops(self, frame: Frame) -> list[Window]:
        """The crops to search in, from the smallest to the largest."""
        if self.settings.reading == "axis":
            steps = [1.0]
        else:
            half = self.settings.scales // 2
            steps = [self.settings.step**power for power in range(-half, half + 1)]
        size = self.network.search_size
        return [window(frame, self.x, self.y, self.side * s, size, self.fill) for s in steps]

    def input(self, crops: Iterable[Window]) -> Tensor:
        """Crops as the network takes them (K, 3, size, size)."""
        return normalised(torch.stack([crop.pixels for crop in crops]).to(self.device, self.kind))

    @torch.no_grad()
    def step(self, frame: Frame) -> Found:
        """Locates the target in the next frame."""
        return together([self], [frame])[0]

    def read(self, responses: Tensor, crops: Sequence[Window], frame: Frame) -> Found:
        """Updates the state from responses (K, h, w): one per crop, or one per size of a single crop."""
        settings = self.settings
        if settings.reading == "axis":
            ratios = ratios_of(self.network)
            crops = [crops[0]] * len(ratios)
        else:
            ratios = [crop.side / crops[len(crops) // 2].side for crop in crops]
        same = int(np.argmin([abs(math.log(r)) for r in ratios]))
        finer = upsampled(responses.float(), settings.upsample)  # (K, H, W)
        weights = [settings.penalty ** abs(k - same) for k in range(len(ratios))]
        peaks = penalised(self.levelled(finer.flatten(1).amax(1), same), weights)
        best = int(peaks.argmax()) if float(peaks.max()) > float(peaks[same]) else same
        at, centre = peak(finer[best], settings.window), (finer.shape[-1] - 1) / 2
        crop = crops[best]
        unit = self.network.stride / settings.upsample * crop.side / self.network.search_size  # pixels of the frame
        score = float(torch.sigmoid(finer[best, at[0], at[1]]))
        if settings.window < 1:
            self.x, self.y = crop.x + (at[1] - centre) * unit, crop.y + (at[0] - centre) * unit
        self.resize(1.0 if best == same else ratios[best], frame)
        return Found((self.x - self.width / 2, self.y - self.height / 2, self.width, self.height), score)

    def levelled(self, peaks: Tensor, same: int) -> Tensor:
        """Peaks (K,) of a scale axis, normalised by those of the first frame."""
        if self.settings.reading == "pyramid" or min(self.levels) <= 0:
            return peaks
        return peaks * (self.levels[same] / torch.tensor(self.levels, dtype=peaks.dtype, device=peaks.device))

    def resize(self, ratio: float, frame: Frame) -> None:
        """Damped change of size by a ratio, within limits, and clipping to the frame."""
        growth = 1 + self.settings.damping * (ratio - 1)
        height, width = frame.shape[:2]
        self.side = min(max(self.side * growth, self.limits[0]), self.limits[1])
        self.width = min(max(self.width * growth, min(LEAST, self.width)), width)
        self.height = min(max(self.height * growth, min(LEAST, self.height)), height)
        self.x, self.y = min(max(self.x, 0.0), float(width)), min(max(self.y, 0.0), float(height))


@torch.no_grad()
def together(trackers: Sequence[Tracker], frames: Sequence[Frame]) -> list[Found]:
    """Steps several trackers of one network, each in its own frame, with one forward pass."""
    first = trackers[0]
    crops = [tracker.crops(frame) for tracker, frame in zip(trackers, frames, strict=True)]
    each = len(crops[0])
    searched = first.network.features(first.input(crop for windows in crops for crop in windows))
    templates = torch.cat([tracker.template for tracker in trackers]).repeat_interleave(each, 0)
    response = first.network.connect(templates, searched)  # (B, S, h, w)
    if first.settings.reading == "pyramid":
        response = response.amax(1)
    parts = response.reshape(len(trackers), -1, *response.shape[-2:])  # one row per tracker: its crops, or its sizes
    return [
        tracker.read(part, windows, frame)
        for tracker, part, windows, frame in zip(trackers, parts, crops, frames, strict=True)
    ]


def ratios_of(network: Network) -> list[float]:
    """The target's size relative to the template for each slice of a response's scale axis; empty without such an
    axis."""
    return [float(r) for r in network.scales] if len(network.scales) > 1 else []


def upsampled(response: Tensor, times: int) -> Tensor:
    """Upsamples responses (K, h, w) to (K, (h - 1) times + 1, ...); cells keep their positions, so that the centre is a
    point and nothing is shifted."""
    size = [(side - 1) * times + 1 for side in response.shape[-2:]]
    return F.interpolate(response[None], size, mode="bicubic", align_corners=True)[0]


def penalised(peaks: Tensor, weights: Sequence[float]) -> Tensor:
    """Peaks (K,) multiplied by weights of at most one; negative ones are divided, so that a weight never raises a
    peak."""
    by = torch.tensor(weights, dtype=peaks.dtype, device=peaks.device).clamp_min(1e-6)
    return torch.where(peaks > 0, peaks * by, peaks / by)


def peak(response: Tensor, share: float) -> tuple[int, int]:
    """Row and column of the peak of a response (H, W), blended with a cosine window of weight ``share``."""
    shifted = response - response.amin()
    shifted = shifted / shifted.sum().clamp_min(1e-12)
    mixed = (1 - share) * shifted + share * cosine(*response.shape).to(response)
    row, column = divmod(int(mixed.argmax()), response.shape[-1])
    return row, column


def cosine(height: int, width: int) -> Tensor:
    """A Hann window (height, width) that sums to one."""
    hann = torch.outer(torch.hann_window(height, periodic=False), torch.hann_window(width, periodic=False))
    return hann / hann.sum()


@torch.no_grad()
def shift_out(network: Network, frame: Frame, box: Sequence[float], given: Array) -> tuple[Array, Array]:
    """Shift of the response's peak along x and y when the window of a still picture moves by ``given`` pixels of the
    search region."""
    tracker = Tracker(network, Inference())
    tracker.place(frame, box)
    template = network.features(tracker.input([tracker.exemplar(frame)]))
    room, size = int(np.abs(given).max()) + 1, network.search_size
    side = tracker.side * (size + 2 * room) / size
    whole = tracker.input([window(frame, tracker.x, tracker.y, side, size + 2 * room, tracker.fill)])
    shifts: list[Array] = []
    for axis in (1, 0):
        starts = [[room - (int(shift) if axis == a else 0) for a in (0, 1)] for shift in given]
        crops = torch.cat([whole[..., top : top + size, left : left + size] for top, left in starts])
        response = network.connect(template.expand(len(given), *template.shape[1:]), network.features(crops)).amax(1)
        finer = upsampled(response.float(), 16)
        places = np.array([peak(one, 0.0)[axis] for one in finer], np.float64)
        shifts.append((places - (finer.shape[-1] - 1) / 2) * network.stride / 16)
    return shifts[0], shifts[1]
