"""Inference with responses that are known: what is read from them is what was put there."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from vergence.core.errors import VergenceError
from vergence.tracking.protocol import follow
from vergence.tracking.sesiam.model import build
from vergence.tracking.settings import Inference, Scene
from vergence.tracking.siamese import Tracker, check_box, cosine, peak, penalised, together, upsampled
from vergence.tracking.synth import moving_digits

PLAIN = Inference(step=1.1, damping=0.5, penalty=1.0, window=0.0)


class Oracle(nn.Module):
    """A network that is told where the target is: x and y from the middle of the crop in its pixels, and which crop or
    size fits."""

    stride, template_size, search_size, scales = 8, 127, 255, (1.0,)

    def __init__(self, cells=17, scales=(1.0,)):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.cells, self.scales, self.at, self.best = cells, scales, (0.0, 0.0), 1

    def features(self, images):
        return torch.zeros(len(images), 1, 1, 1)

    def connect(self, template, search):
        where = (torch.arange(self.cells) - (self.cells - 1) / 2) * self.stride
        x, y = self.at
        bump = torch.exp(-((where[None] - x) ** 2 + (where[:, None] - y) ** 2) / (2 * 12.0**2))
        bumps = bump.expand(len(search), len(self.scales), -1, -1).clone()
        bumps[(self.best if len(search) > 1 else 0), (self.best if len(self.scales) > 1 else 0)] += 1
        return bumps


FRAME = np.random.default_rng(0).integers(0, 255, (300, 400, 3), dtype=np.uint8)


def started(settings=PLAIN, **kind):
    oracle = Oracle(**kind)
    tracker = Tracker(oracle, settings)
    tracker.start(FRAME, (180, 130, 40, 30))
    return oracle, tracker


def centre(box):
    return box[0] + box[2] / 2, box[1] + box[3] / 2


@pytest.mark.parametrize("shift", [(0.0, 0.0), (13.0, -7.5), (-40.0, 22.0), (3.1, 50.0)])
def test_a_shift_is_found_to_within_one_finer_cell(shift):
    oracle, tracker = started()
    oracle.at = shift
    side = tracker.side
    found = tracker.step(FRAME)
    unit = side / 255  # pixels of the frame a pixel of the crop
    cell = 8 / 16 * unit
    expected = 200 + shift[0] * unit, 145 + shift[1] * unit
    # half a pixel of a crop's own: its side is rounded to whole ones
    assert np.abs(np.subtract(centre(found.box), expected)).max() <= cell + 0.5 * max(map(abs, shift)) / 255


def test_a_centred_peak_moves_nothing():
    _, tracker = started()
    for _ in range(3):
        found = tracker.step(FRAME)
    # the crop's centre is rounded to half a pixel
    assert centre(found.box) == pytest.approx((200, 145), abs=0.5)
    assert found.box[2:] == (40, 30)


def test_a_window_of_one_freezes_the_place():
    oracle, tracker = started(Inference(window=1.0))
    oracle.at = (40.0, 30.0)
    assert centre(tracker.step(FRAME).box) == (200, 145)


def test_a_step_of_one_keeps_the_size():
    oracle, tracker = started(Inference(step=1.0, window=0.0))
    oracle.best = 2
    assert tracker.step(FRAME).box[2:] == pytest.approx((40, 30))


@pytest.mark.parametrize(("best", "ratio"), [(0, 1 / 1.1), (1, 1.0), (2, 1.1)])
def test_the_size_goes_half_of_the_way_to_the_crop_that_fits(best, ratio):
    oracle, tracker = started()
    oracle.best = best
    growth = 1 + 0.5 * (ratio - 1)
    found = tracker.step(FRAME)
    assert found.box[2:] == pytest.approx((40 * growth, 30 * growth), rel=4e-3)  # crops have whole pixels


@pytest.mark.parametrize(("best", "ratio"), [(0, 1 / 1.2), (1, 1.0), (2, 1.2)])
def test_the_size_comes_from_the_axis_with_a_single_crop(best, ratio):
    oracle, tracker = started(Inference("axis", damping=1.0, penalty=1.0, window=0.0), scales=(1 / 1.2, 1.0, 1.2))
    oracle.best = best
    assert len(tracker.crops(FRAME)) == 1
    assert tracker.step(FRAME).box[2:] == pytest.approx((40 * ratio, 30 * ratio))


def test_a_network_without_a_scale_axis_cannot_be_read_along_it():
    with pytest.raises(VergenceError, match="no scale axis"):
        Tracker(Oracle(), Inference("axis"))


def test_a_penalty_never_helps():
    peaks = torch.tensor([2.0, -2.0, 1.0])
    assert (penalised(peaks, [0.9] * 3) < peaks).all()
    assert torch.equal(penalised(peaks, [1.0] * 3), peaks)


def test_a_finer_response_keeps_cells_where_they_are():
    response = torch.randn(2, 5, 7)
    finer = upsampled(response, 4)
    assert finer.shape == (2, 17, 25)
    torch.testing.assert_close(finer[:, ::4, ::4], response)


def test_a_peak_is_row_and_column():
    response = torch.zeros(9, 11)
    response[2, 7] = 1.0
    assert peak(response, 0.0) == (2, 7)
    assert peak(response, 1.0) == (4, 5)
    assert float(cosine(9, 11).sum()) == pytest.approx(1)


def test_the_size_stays_within_limits():
    oracle, tracker = started(Inference(step=1.5, damping=1.0, penalty=1.0, window=0.0))
    oracle.best = 0
    for _ in range(20):
        small = tracker.step(FRAME).box
    assert min(small[2:]) == 10
    oracle.best = 2
    for _ in range(40):
        large = tracker.step(FRAME).box
    assert large[2] <= 400
    assert large[3] <= 300


def test_the_place_stays_within_the_frame():
    oracle, tracker = started()
    oracle.at = (60.0, 0.0)
    for _ in range(40):
        found = tracker.step(FRAME)
    assert centre(found.box)[0] == 400


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ((10, 10, 0, 5), "has no area"),
        ((10, 10, -3, 5), "has no area"),
        ((500, 10, 20, 20), "outside the frame of 400 x 300"),
        ((10, -50, 20, 20), "outside the frame"),
        ((math.nan, 10, 20, 20), "not four numbers"),
    ],
)
def test_a_box_that_nothing_can_be_followed_in_is_refused(box, said):
    with pytest.raises(VergenceError, match=said):
        check_box(box, 300, 400)


def test_trackers_together_find_what_each_finds_alone():
    torch.manual_seed(0)
    network = build("se-siamfc", size="tiny", width=0.34).eval()
    tracks = moving_digits("s-mnist", 2, "test", Scene(size=100, digit=22, frames=4)).sequences
    for reading in ("pyramid", "axis"):
        settings = Inference(reading)
        both = follow(tracks, lambda s=settings: Tracker(network, s), together)
        for track, found in zip(tracks, both, strict=True):
            tracker = Tracker(network, settings)
            tracker.start(track.frames[0], track.boxes[0])
            alone = [tracker.step(track.frames[i]).box for i in range(1, 4)]
            np.testing.assert_allclose(found.boxes[1:], alone, atol=1e-3)


def test_inference_refuses_what_makes_no_sense():
    for changes in ({"scales": 2}, {"step": 0.9}, {"window": 1.5}, {"damping": -0.1}):
        with pytest.raises(VergenceError):
            Inference(**changes)
