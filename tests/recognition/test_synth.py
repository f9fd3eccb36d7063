"""The embedded pictures ask for a relation, and for nothing less."""

import pytest
import torch

from vergence import catalogue
from vergence.recognition.settings import MARK
from vergence.recognition.synth import COLOURS, LARGE, SHADES, SMALL, relations, sizes


@pytest.fixture(scope="module")
def pictures():
    settings = catalogue.load("snl").settings.presets["tiny"].data
    return relations(1200, settings.size, settings.noise, "test")


def test_each_mark_alone_is_at_chance(pictures):
    for side in range(2):
        for colour in range(COLOURS):
            chosen = pictures.labels[pictures.colours[:, side] == colour]
            assert len(chosen) == 1200 // COLOURS
            assert chosen.float().mean() == 0.5


def test_the_label_is_the_relation(pictures):
    same = pictures.colours[:, 0] == pictures.colours[:, 1]
    assert torch.equal(pictures.labels == 1, same)


def test_marks_are_where_they_are_said_to_be_in_the_colour_they_are_said_to_have(pictures):
    for index in range(50):
        for side in range(2):
            y, x = pictures.corners[index, side].tolist()
            patch = pictures.images[index, :, y : y + MARK, x : x + MARK].float() / 255
            hue = 2 * torch.pi * pictures.colours[index, side] / COLOURS
            paint = torch.stack([0.5 + 0.4 * torch.cos(hue - t) for t in (0, 2 * torch.pi / 3, -2 * torch.pi / 3)])
            painted = ((patch - paint[:, None, None]).abs().amax(0) < 1 / 255).sum()
            assert painted >= 40  # every shape has at least so many cells


def test_the_tiny_network_cannot_see_both_marks_at_once(pictures):
    """Its receptive field, found by back-propagating from one cell, is smaller than the gap between the marks."""
    system = catalogue.load("snl")
    config = system.configure("tiny", "none")
    torch.manual_seed(0)
    network = system.build(config, system.settings.facts(2)).double().eval()
    seen = torch.zeros(1, 3, 56, 56, dtype=torch.float64).uniform_(-1, 1).requires_grad_()
    maps = {}
    network.mix.register_forward_hook(lambda m, i, o: maps.update(last=o))
    network(seen)
    height, width = maps["last"].shape[-2:]
    (grad,) = torch.autograd.grad(maps["last"][..., height // 2, width // 2].abs().sum(), seen)
    columns = grad.abs().amax((0, 1, 2)).nonzero()
    field = int(columns.max() - columns.min()) + 1
    left_edge = pictures.corners[:, 0, 1] + MARK
    gap = int((pictures.corners[:, 1, 1] - left_edge).min())
    assert field <= 25  # 3x3 stem, then 2, 2 and 2 convolutions at strides 1, 2 and 4
    assert field < gap


def test_pictures_are_a_function_of_the_seed():
    a, b, c = (relations(60, 56, 0.15, seed) for seed in ("a", "a", "b"))
    assert torch.equal(a.images, b.images)
    assert not torch.equal(a.images, c.images)


@pytest.fixture(scope="module")
def sized():
    return sizes(1056, 56, 0.0, "test")


def test_both_sizes_ask_the_same_question_equally_often(sized):
    large = sized.large
    assert int(large.sum()) == 528
    assert torch.equal(sized.labels == 1, sized.colours[:, 0] == sized.colours[:, 1])
    for some in (large, ~large):
        for side in range(2):
            for colour in range(SHADES):
                chosen = sized.labels[some & (sized.colours[:, side] == colour)]
                assert len(chosen) == 528 // SHADES
                assert chosen.float().mean() == 0.5


def test_large_marks_are_large_and_as_far_apart_as_the_network_cannot_see(sized):
    for index in range(60):
        height, width = LARGE if sized.large[index] else SMALL
        for side in range(2):
            y, x = sized.corners[index, side].tolist()
            assert sized.extents[index].tolist() == [height, width]
            patch = sized.images[index, :, y : y + height, x : x + width].float() / 255
            hue = 2 * torch.pi * sized.colours[index, side] / SHADES
            paint = torch.stack([0.5 + 0.4 * torch.cos(hue - t) for t in (0, 2 * torch.pi / 3, -2 * torch.pi / 3)])
            painted = int(((patch - paint[:, None, None]).abs().amax(0) < 1 / 255).sum())
            assert painted >= 0.7 * height * width  # an ellipse fills π/4 of its box
            assert sized.centre(index, side) == (x + width // 2, y + height // 2)
    gap = (sized.corners[:, 1, 1] - sized.corners[:, 0, 1] - sized.extents[:, 1]).min()
    assert int(gap) > 25  # what one cell of the tiny network sees
    assert relations(60, 56, 0.0, "test").large is None
