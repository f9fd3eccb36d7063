"""Probes find what features hold and nothing else; neighbours and time tasks are what they say."""

import torch

from vergence.nn.guided import active_pixels, guided_gradient
from vergence.video.probes import FARTHEST, Pieces, Shifted, nearest, probed, retrieval, still
from vergence.video.temporaltransforms.settings import Footage
from video.test_tampered import Videos, numbers

VIEW = Footage(size=16, resize=16, clips=2)


def source(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_probe_learns_what_is_in_the_features():
    labels = torch.arange(60) % 3
    told = torch.nn.functional.one_hot(labels, 3).float()[:, None].expand(60, 2, 3)
    noise = torch.randn(60, 2, 3, generator=source())
    answers = probed(told + 0.1 * noise, labels, told, 3, source(), steps=60)
    assert (answers.argmax(1) == labels).all()
    torch.testing.assert_close(answers.sum(1), torch.ones(60))
    blind = probed(noise, labels, torch.randn(60, 2, 3, generator=source(1)), 3, source(), steps=60)
    assert (blind.argmax(1) == labels).float().mean() < 0.6


def test_a_probe_is_the_same_for_the_same_generator():
    features, labels = torch.randn(20, 2, 4, generator=source()), torch.arange(20) % 2
    one, other = (probed(features, labels, features, 2, source(5), steps=5) for _ in range(2))
    assert torch.equal(one, other)


def test_the_nearest_of_known_descriptors_is_itself():
    known = torch.randn(12, 4, generator=source())
    index, similarity = nearest(known, known, 3)
    assert index[:, 0].tolist() == list(range(12))
    torch.testing.assert_close(similarity[:, 0], torch.ones(12))
    labels = torch.arange(12)
    assert retrieval(known, labels, known, labels) == {"nn1": 100.0, "nn5": 100.0, "nn10": 100.0}


def test_two_clips_are_as_far_apart_as_their_label_says():
    data = Shifted(Videos(60, 30), VIEW, draws=20)
    offsets = set()
    for number in range(len(data)):
        sample = data[number]
        first, second = numbers(sample.clips)
        assert int(second[0] - first[0]) == sample.label - FARTHEST
        assert first.diff().unique().tolist() == second.diff().unique().tolist() == [1]
        offsets.add(sample.label)
    assert offsets == set(range(2 * FARTHEST + 1))


def test_pieces_are_in_order_or_exchanged():
    data = Pieces(Videos(60), VIEW, draws=20)
    seen = set()
    for number in range(len(data)):
        sample = data[number]
        (clip,) = numbers(sample.clips)
        first, second = clip[:8], clip[8:]
        assert first.diff().unique().tolist() == second.diff().unique().tolist() == [1]
        assert (int(first[0]) > int(second[-1])) == bool(sample.label)
        assert abs(int(second[0] - first[0])) >= 8
        seen.add(sample.label)
    assert seen == {0, 1}


def test_still_clips_repeat_their_middle_frame():
    clips = torch.arange(8.0)[None, :, None, None, None].expand(1, 8, 3, 2, 2)
    assert still(clips).unique().tolist() == [4.0]
    assert still(clips).shape == clips.shape


def test_guided_gradients_pass_only_where_both_are_positive():
    layers = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        layers[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        layers[2].weight.copy_(torch.tensor([[3.0, -2.0]]))
    x = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    # the second unit has a negative gradient, the first is off in the second row
    assert guided_gradient(layers, layers, x).tolist() == [[3.0, 0.0], [0.0, 0.0]]
    plain = torch.autograd.grad(layers(x.requires_grad_()).sum(), x)[0]
    assert plain.tolist() == [[3.0, -2.0], [0.0, -2.0]]  # the hooks are gone


def test_active_pixels_subtract_the_median_of_each_frame():
    gradient = torch.zeros(1, 2, 3, 2, 2)
    gradient[0, 0] += 5.0
    gradient[0, 0, 1, 0, 0] = 8.0
    maps = active_pixels(gradient)
    assert maps.shape == (1, 2, 2, 2)
    assert maps[0, 0].tolist() == [[3.0, 0.0], [0.0, 0.0]]
    assert not maps[0, 1].any()
