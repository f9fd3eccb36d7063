"""DenseNet-BC, wide ResNets and the Max-Mahalanobis head: sizes counted by hand, shapes, and exact centres."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.nn.densenet import DenseNet
from vergence.nn.mahalanobis import MahalanobisHead, centre_loss, simplex_centres
from vergence.nn.wide_resnet import WideResNet


def parameters(network):
    return sum(p.numel() for p in network.parameters())


def test_densenet_bc_100_12_has_its_published_size():
    growth, channels, total = 12, 24, 3 * 24 * 9
    for block in range(3):
        if block:
            total += 2 * channels + channels * (channels // 2)
            channels //= 2
        for _ in range(16):  # (100 - 4) / 6
            total += 2 * channels + channels * 4 * growth + 2 * 4 * growth + 4 * growth * growth * 9
            channels += growth
    total += 2 * channels + channels * 10 + 10
    with torch.device("meta"):
        assert parameters(DenseNet(10)) == total == 769_162


def test_wrn_28_10_has_its_published_size():
    inputs, total = 16, 3 * 16 * 9
    for width in (160, 320, 640):
        for block in range(4):  # (28 - 4) / 6
            total += 2 * inputs + inputs * width * 9 + 2 * width + width * width * 9
            total += inputs * width if block == 0 else 0
            inputs = width
    total += 2 * inputs + inputs * 10 + 10
    with torch.device("meta"):
        assert parameters(WideResNet(10)) == total == 36_479_194


@pytest.mark.parametrize(("kind", "size"), [(DenseNet, {"growth": 4}), (WideResNet, {"width": 1})])
def test_a_backbone_gives_logits_or_features(kind, size):
    x = torch.randn(2, 1, 16, 16)
    logits, features = kind(5, depth=10, channels=1, **size), kind(0, depth=10, channels=1, **size)
    assert logits.eval()(x).shape == (2, 5)
    assert features.eval()(x).shape == (2, features.outputs)
    logits.train()(x).sum().backward()
    assert all(p.grad is not None for p in logits.parameters())
    with pytest.raises(VergenceError, match="6n \\+ 4"):
        kind(5, depth=11)


def test_a_dense_layer_keeps_what_it_is_given():
    network = DenseNet(3, depth=10, growth=4).eval()
    x = torch.randn(1, 8, 6, 6)
    assert torch.equal(network.features[1](x)[:, :8], x)


@pytest.mark.parametrize(("classes", "dimensions"), [(2, 1), (3, 2), (10, 9), (10, 64), (100, 99)])
def test_centres_are_as_far_apart_as_possible(classes, dimensions):
    inner = simplex_centres(classes, dimensions) @ simplex_centres(classes, dimensions).mT
    expected = torch.full((classes, classes), -1 / (classes - 1), dtype=torch.float64).fill_diagonal_(1.0)
    assert torch.allclose(inner, expected, atol=1e-10)
    assert torch.allclose(simplex_centres(classes, dimensions, 10.0).norm(dim=1), torch.full((classes,), 10.0).double())


def test_centres_need_room():
    with pytest.raises(VergenceError, match="10 centres need 9 or more dimensions"):
        simplex_centres(10, 8)
    with pytest.raises(VergenceError, match="two or more classes"):
        simplex_centres(1, 8)


def test_the_head_measures_distances_to_its_centres():
    head = MahalanobisHead(7, 4, dimensions=5, length=2.0).double()
    features = torch.randn(6, 7, dtype=torch.float64)
    head.requires_grad_(False)
    z, labels = head.fc(features), torch.tensor([0, 1, 2, 3, 0, 1])
    for n in range(6):
        for k in range(4):
            assert float(head(features)[n, k]) == pytest.approx(-float((z[n] - head.centres[k]).square().sum()))
    expected = sum(float((z[n] - head.centres[y]).square().sum()) for n, y in enumerate(labels.tolist())) / 6
    assert float(centre_loss(head(features), labels)) == pytest.approx(expected)
