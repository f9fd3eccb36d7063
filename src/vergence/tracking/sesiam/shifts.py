"""The check of the supplement's Figure 1: a still picture is moved in front of a tracker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from vergence.tracking.boxes import Array
from vergence.tracking.crops import Frame, window
from vergence.tracking.sesiam.networks import SiameseNetwork
from vergence.tracking.sesiam.tracker import Inference, Tracker, peak, upsampled


@torch.no_grad()
def shift_out(network: SiameseNetwork, frame: Frame, box: Sequence[float], given: Array) -> tuple[Array, Array]:
    """How far the peak of the response moves along x and y when the window of a still picture moves by ``given`` pixels
    of the search region: the supplement's check of the padding technique."""
    tracker = Tracker(network, Inference())
    tracker.place(frame, box)
    template = network.features(tracker.input([tracker.exemplar(frame)]))
    room, size = int(np.abs(given).max()) + 1, network.search_size
    side = tracker.side * (size + 2 * room) / size
    whole = tracker.input([window(frame, tracker.x, tracker.y, side, size + 2 * room, tracker.fill)])
    found: list[Array] = []
    for axis in (1, 0):
        starts = [[room - (int(shift) if axis == a else 0) for a in (0, 1)] for shift in given]
        crops = torch.cat([whole[..., top : top + size, left : left + size] for top, left in starts])
        response = network.connect(template.expand(len(given), *template.shape[1:]), network.features(crops)).amax(1)
        finer = upsampled(response.float(), 16)
        places = np.array([peak(one, 0.0)[axis] for one in finer], np.float64)
        found.append((places - (finer.shape[-1] - 1) / 2) * network.stride / 16)
    return found[0], found[1]
