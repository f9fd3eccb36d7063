"""L-infinity PGD: within its budget, exact on linear classifiers, and training against it."""

import pytest
import torch
from torch import nn

from vergence.core.errors import VergenceError
from vergence.robustness.linf import PGD, Defence, divergence, other_classes


def linear(classes=2, bias=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, classes, bias)).double().eval()


def pictures(count=16):
    return 0.4 + 0.2 * torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("loss", ["ce", "cw"])
def test_a_linear_classifier_withstands_what_the_closed_form_says(loss):
    network, x = linear(), pictures(60)
    weight, logits = network[1].weight[0] - network[1].weight[1], network(x)
    y = logits.argmax(1)
    # The L-infinity distance of the boundary: the margin over the L1 norm of the weights.
    distance = ((logits[:, 0] - logits[:, 1]).abs() / weight.abs().sum()).detach()
    eps = float(distance.median()) * 1.0001
    right = PGD(eps, 20, eps / 4, loss).accuracy(network, x, y, torch.Generator().manual_seed(0))
    assert torch.equal(right, distance > eps)


@pytest.mark.parametrize("targeted", [False, True])
def test_no_pixel_leaves_its_budget_or_the_range(targeted):
    network, x = linear(4), torch.rand(9, 3, 2, 2, dtype=torch.float64)
    y = network(x).argmax(1)
    attacked = PGD(0.1, 5, 0.05, targeted=targeted)(network, x, y, torch.Generator().manual_seed(0))
    assert float((attacked - x).abs().max()) <= 0.1 + 1e-12
    assert float(attacked.min()) >= 0
    assert float(attacked.max()) <= 1
    assert (attacked != x).any()


def test_a_targeted_attack_goes_towards_its_class():
    network, x = linear(3), pictures()
    y = network(x).argmax(1)
    aims = other_classes(y, 3, torch.Generator().manual_seed(5))
    attacked = PGD(0.5, 20, 0.1, "ce", targeted=True, start=False)(network, x, y, torch.Generator().manual_seed(5))
    gained = network(attacked).softmax(1).gather(1, aims[:, None]) - network(x).softmax(1).gather(1, aims[:, None])
    assert (gained > 0).all()


def test_other_classes_are_any_but_the_own():
    labels = torch.arange(4).repeat(200)
    drawn = other_classes(labels, 4, torch.Generator().manual_seed(0))
    assert (drawn != labels).all()
    counts = torch.stack([(drawn[labels == own, None] == torch.arange(4)).sum(0) for own in range(4)])
    assert (counts[~torch.eye(4, dtype=torch.bool)] > 40).all()


def test_pictures_for_training_leave_the_model_as_it_was():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
    x, y = pictures(8).float(), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    defence = Defence(0.05, 3, 0.02)
    source = torch.Generator().manual_seed(0)
    for attacked in (defence.attacked(model, x, y, source), defence.trades(model, x, source)):
        assert 0 < float((attacked - x).abs().max()) <= 0.05 + 1e-6
        assert not attacked.requires_grad
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_the_divergence_is_kullback_and_leiblers():
    logits, clean = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64).softmax(1)
    expected = (clean * (clean / logits.softmax(1)).log()).sum(1)
    assert torch.allclose(divergence(logits, clean), expected)
    assert torch.allclose(divergence(clean.log(), clean), torch.zeros(5).double(), atol=1e-12)


def test_trades_moves_predictions_away_from_the_clean_ones():
    model, x = linear(3), pictures(8)
    attacked = Defence(0.1, 5, 0.04).trades(model, x, torch.Generator().manual_seed(0))
    clean = model(x).softmax(1).detach()
    noisy = (x + 0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(3)).sign()).clamp(0, 1)
    assert (divergence(model(attacked), clean) > divergence(model(noisy), clean)).double().mean() > 0.8


def test_nonsense_is_refused():
    for arguments in ((0.0,), (0.1, 0), (0.1, 5, 0.0)):
        with pytest.raises(VergenceError, match="PGD has a budget"):
            PGD(*arguments)
