"""Rendered things, frames for training, and the curve in 20 dimensions."""

import math

import torch

from vergence.recognition.data import Labelled
from vergence.robustness.things import KINDS, Framed, curve, things


def test_things_are_small_colour_pictures_of_every_kind():
    data = things(8, 16, "train")
    assert data.images.shape == (8, 3, 16, 16)
    assert data.images.dtype == torch.uint8
    assert data.labels.tolist() == list(range(8))
    assert data.classes == KINDS
    assert data.images.float().std() > 20


def test_frames_are_shifted_and_mirrored_for_training_alone():
    images = torch.randint(256, (2, 3, 10, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    data = Framed(Labelled(images, torch.tensor([0, 1]), ("a", "b")), 8, 3, shift=2, mirror=True)
    still, label = data[1]
    assert (tuple(still.shape), label, len(data), data.classes) == ((3, 8, 8), 1, 2, ("a", "b"))
    assert torch.equal(still, data[1][0])
    draws = [data.draw(1, torch.Generator().manual_seed(seed))[0] for seed in range(12)]
    assert {tuple(draw.shape) for draw in draws} == {(3, 8, 8)}
    assert len({float(draw.sum()) for draw in draws}) > 4
    assert torch.equal(draws[3], data.draw(1, torch.Generator().manual_seed(3))[0])
    plain = Framed(data.data, 8, 1)
    assert torch.allclose(plain.draw(0, torch.Generator())[0], data[0][0].mean(0, keepdim=True))


def test_the_curve_is_as_described():
    data = curve(3000, "train")
    points = data.points[:, 0, 0].double()
    s = points[:, 0]
    assert data.points.shape == (3000, 1, 1, 20)
    assert float(s.min()) < -2.9
    assert float(s.max()) > 2.9
    assert float((points[:, 1] - 0.1 * torch.sin(math.pi * s)).abs().max()) < 0.12
    assert 0.009 < float(points[:, 2:].std()) < 0.011
    clear = torch.sin(math.pi * s).abs() > 0.3
    assert torch.equal(data.labels[clear] == 1, torch.sin(math.pi * s)[clear] > 0)
    assert not torch.equal(curve(10, "test").points, curve(10, "train").points)
    assert torch.equal(curve(10, "train", 1).points, curve(10, "train", 1).points)
