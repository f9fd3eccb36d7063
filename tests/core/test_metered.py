"""Bytes of tensors, counted by hand."""

import torch

from vergence.core.metered import Meter


def test_tensors_count_while_they_live_and_views_do_not_count_again():
    with Meter() as meter:
        first = torch.zeros(1000)
        assert meter.alive == 4000
        view = first.view(10, 100)
        view.add_(1)
        second = first.double()
        assert meter.alive == 12_000
        del first
        assert meter.alive == 12_000  # the view holds it
        del view
        assert meter.alive == 8000
        del second
    assert (meter.alive, meter.peak) == (0, 12_000)


def test_tensors_from_before_do_not_count_whatever_is_done_to_them():
    weights = torch.ones(1000)
    with Meter() as meter:
        weights.mul_(2)
        part = weights[:3]
        part.add_(1)
        assert weights.view(2, 500).shape == (2, 500)
    assert meter.peak == 0


def test_what_autograd_saves_and_gradients_count():
    linear, images = torch.nn.Linear(100, 50, bias=False), torch.ones(20, 100)
    with Meter() as meter:
        loss = linear(images).relu().sum()
        assert meter.alive == 20 * 50 * 4 + 4  # the output of the ReLU is saved, that of the layer is not
        loss.backward()
        del loss
        assert meter.alive == linear.weight.grad.nbytes == 20_000
        linear.weight.grad = None
        assert meter.alive == 0
    assert meter.peak > 20_000


def test_the_same_code_counts_the_same():
    def work():
        with Meter() as meter:
            torch.rand(50, 50).matmul(torch.rand(50, 50)).exp().sum()
        return meter.peak

    assert work() == work() > 0
