"""Crops and training pairs: where things are in them, and the loss."""

import math

import numpy as np
import pytest
import torch

from vergence.tracking import crops, pairs
from vergence.tracking.data import Track, Tracks
from vergence.tracking.settings import Augmentation


def test_a_window_inside_the_frame_is_the_frame():
    frame = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    cut = crops.window(frame, 25.0, 20.0, 16.0, 16, (0, 0, 0))
    assert torch.equal(cut.pixels, torch.from_numpy(frame[12:28, 17:33]).permute(2, 0, 1).float())
    assert (cut.x, cut.y, cut.side) == (25.0, 20.0, 16.0)


def test_outside_the_frame_is_one_colour():
    frame = np.full((20, 20, 3), 200, np.uint8)
    cut = crops.window(frame, 0.0, 0.0, 10.0, 10, (10, 20, 30))
    assert cut.pixels[:, 0, 0].tolist() == [10, 20, 30]
    assert cut.pixels[:, -1, -1].tolist() == [200, 200, 200]
    far = crops.window(frame, -500.0, 7.0, 10.0, 10, (10, 20, 30))
    assert (far.pixels == torch.tensor([10.0, 20, 30]).view(3, 1, 1)).all()


def test_a_window_says_where_it_is_though_it_has_whole_pixels():
    """The centre of a bright square, found in the window and carried back, is that of the square."""
    frame = np.zeros((200, 200, 3), np.uint8)
    frame[60:80, 100:130] = 255  # centre (115, 70)
    for x, y, side in ((110.3, 75.8, 90.4), (120.49, 66.5, 61.7)):
        cut = crops.window(frame, x, y, side, 64, (0, 0, 0))
        weight = cut.pixels[0] / cut.pixels[0].sum()
        at = torch.arange(64) + 0.5
        column, row = float((weight.sum(0) * at).sum()), float((weight.sum(1) * at).sum())
        found = cut.x + (column / 64 - 0.5) * cut.side, cut.y + (row / 64 - 0.5) * cut.side
        assert found == pytest.approx((115, 70), abs=0.2)


def test_context_of_a_square_doubles_its_side():
    assert crops.context_side(30, 30) == 60
    assert crops.context_side(10, 30) == pytest.approx(math.sqrt(30 * 50))


def dotted():
    """A target whose centre is the one white pixel block of a frame."""
    frames = []
    for n in range(6):
        frame = np.zeros((160, 160, 3), np.uint8)
        frame[70 + n : 74 + n, 60 + 2 * n : 64 + 2 * n] = 255
        frames.append(frame)
    boxes = np.array([[42.0 + 2 * n, 52 + n, 40, 40] for n in range(6)])
    return Tracks((Track("dots", frames, boxes),))


def test_the_target_of_a_pair_is_where_its_offset_says():
    data = pairs.Pairs(dotted(), 63, 127, Augmentation(pairs=10, reach=5, shift=16, stretch=0.05, jitter=0))
    for index in range(10):
        sample = data.draw(index, torch.Generator().manual_seed(index))
        search = sample["search"].sum(0)
        weight = (search - search.min()) / (search - search.min()).sum()
        at = torch.arange(127) + 0.5 - 63.5
        found = torch.stack([(weight.sum(0) * at).sum(), (weight.sum(1) * at).sum()])
        torch.testing.assert_close(found, sample["offset"], atol=0.4, rtol=0)
        assert sample["offset"].abs().max() <= 17


def test_a_pair_is_a_function_of_its_generator():
    data = pairs.Pairs(dotted(), 63, 127, Augmentation(pairs=10))
    a, b, c = (data.draw(3, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["search"], c["search"])


def test_frames_of_a_pair_are_within_reach_and_have_a_target():
    tracks = dotted()
    track = tracks.sequences[0]
    boxes = track.boxes.copy()
    boxes[3] = np.nan
    looked = []

    class Seen(list):
        def __getitem__(self, index):
            looked.append(int(index))
            return super().__getitem__(index)

    data = pairs.Pairs(Tracks((Track("dots", Seen(track.frames), boxes),)), 63, 127, Augmentation(reach=2))
    for seed in range(40):
        data.draw(0, torch.Generator().manual_seed(seed))
    first, second = np.array(looked[::2]), np.array(looked[1::2])
    assert 3 not in looked
    assert (np.abs(first - second) <= 2).all()
    assert {0, 1, 2, 4, 5} == set(looked)


def test_labels_are_a_diamond_around_the_target():
    labels = pairs.targets(torch.tensor([[0.0, 0.0], [8.0, -16.0]]), 17, 17, 8, 2)
    assert labels[0].sum() == 13
    assert labels[0, 8, 8] == labels[0, 6, 8] == labels[0, 9, 9] == 1
    assert labels[0, 7, 6] == labels[0, 6, 7] == 0
    assert torch.equal(labels[1, 4:9, 7:12], labels[0, 6:11, 6:11])  # moved by (+1, -2) cells


def test_the_loss_is_half_of_each_sides_mean():
    response = torch.randn(2, 5, 5, dtype=torch.float64)
    labels = pairs.targets(torch.zeros(2, 2, dtype=torch.float64), 5, 5, 8, 1)
    expected = 0.0
    for values, label in zip(response.flatten(1), labels.flatten(1), strict=True):
        each = torch.log1p(torch.exp(-(2 * label - 1) * values))  # SiamFC's own form
        expected += 0.5 * each[label == 1].mean() + 0.5 * each[label == 0].mean()
    assert float(pairs.balanced_logistic(response, labels)) == pytest.approx(float(expected) / 2)
    response.requires_grad_()
    assert torch.autograd.gradcheck(lambda r: pairs.balanced_logistic(r, labels), response)


def test_without_jitter_colours_stay():
    pixels = 255 * torch.rand(3, 8, 8)
    torch.testing.assert_close(pairs.jittered(pixels, torch.ones(3)), pixels)
