"""Pooling, whitening and descriptors: limits, closed forms, and the parameter names of public weights."""

import pytest
import torch
import torch.nn.functional as F

from vergence.core.errors import VergenceError
from vergence.nn import DescriptorNetwork, GeM, descriptor_network, learned_whitening, multi_scale, pca_whitening
from vergence.nn.descriptor import ResNetMap, load_descriptor_weights, resnet101_gem


def test_gem_is_the_average_at_one_and_goes_to_the_maximum():
    torch.manual_seed(0)
    x = torch.rand(2, 3, 5, 4, dtype=torch.float64) + 0.1
    torch.testing.assert_close(GeM(1.0).double()(x), x.mean((2, 3)))
    torch.testing.assert_close(GeM(3.0).double()(x), ((x**3).sum((2, 3)) / 20) ** (1 / 3))
    torch.testing.assert_close(GeM(400.0).double()(x), x.amax((2, 3)), rtol=0.01, atol=0)


def test_gem_has_the_gradients_of_its_formula_also_in_p():
    torch.manual_seed(0)
    gem, x = GeM(2.5).double(), (torch.rand(1, 2, 3, 3, dtype=torch.float64) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, p: torch.func.functional_call(gem, {"p": p}, x), (x, gem.p))


def test_gem_does_not_overflow_in_half_floats():
    x = torch.full((1, 1, 4, 4), 200.0)
    with torch.autocast("cpu", torch.float16):
        torch.testing.assert_close(GeM(3.0)(x.half()), torch.tensor([[200.0]]))


def test_pca_whitening_gives_unit_covariance():
    torch.manual_seed(0)
    x = torch.randn(300, 6, dtype=torch.float64) @ torch.randn(6, 6, dtype=torch.float64) + 5
    projection, offset = pca_whitening(x, 4)
    white = x @ projection.T + offset
    torch.testing.assert_close(white.mean(0), torch.zeros(4, dtype=torch.float64))
    torch.testing.assert_close(white.T @ white / 300, torch.eye(4, dtype=torch.float64))


def test_learned_whitening_makes_differences_of_pairs_white_and_orders_what_is_left():
    torch.manual_seed(0)
    scale = torch.diag(torch.tensor([5.0, 1, 0.2, 2], dtype=torch.float64))
    places = torch.randn(200, 4, dtype=torch.float64)
    x = torch.stack([places, places + 0.3 * torch.randn(200, 4, dtype=torch.float64)], 1).flatten(0, 1) @ scale
    pairs = torch.arange(400).reshape(200, 2)
    projection, offset = learned_whitening(x, pairs)
    white = x @ projection.T + offset
    apart = white[pairs[:, 0]] - white[pairs[:, 1]]
    torch.testing.assert_close(apart.T @ apart / 200, torch.eye(4, dtype=torch.float64))
    spread = white.T @ white
    assert (spread - torch.diag(spread.diagonal())).abs().max() < 1e-6 * spread.diagonal().max()
    assert (spread.diagonal().diff() <= 0).all()


def test_whitening_of_too_few_descriptors_is_refused():
    with pytest.raises(VergenceError, match="keep 4"):
        pca_whitening(torch.randn(5, 8, dtype=torch.float64))
    with pytest.raises(VergenceError, match="give more"):
        learned_whitening(torch.randn(4, 8, dtype=torch.float64), torch.tensor([[0, 1], [2, 3]]))


def small():
    torch.manual_seed(0)
    network = ResNetMap(0, (1, 1, 1, 1), "basic", widths=(8, 8, 16, 16))
    return DescriptorNetwork(network, 16, whiten=12).eval()


@torch.no_grad()
def test_descriptors_of_several_scales_are_the_mean_of_each():
    network, pictures = small(), torch.rand(2, 3, 64, 96)
    scales = (1.0, 0.5)
    halves = F.interpolate(pictures, scale_factor=0.5, mode="bilinear", align_corners=False)
    expected = F.normalize((network(pictures) + network(halves)) / 2, dim=1)
    torch.testing.assert_close(multi_scale(network, pictures, scales), expected)
    torch.testing.assert_close(network(pictures).norm(dim=1), torch.ones(2))


@torch.no_grad()
def test_a_network_takes_the_whitening_that_was_found_on_its_descriptors():
    network, pictures = small(), torch.rand(30, 3, 32, 32)
    network.whiten = None
    plain = network(pictures)
    projection, offset = pca_whitening(plain.double(), 5)
    network.set_whitening(projection, offset)
    assert network.dimension == 5
    expected = F.normalize(plain.double() @ projection.T + offset, dim=1).float()
    torch.testing.assert_close(network(pictures), expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_a_small_picture_is_not_scaled_away():
    assert multi_scale(small(), torch.rand(1, 3, 33, 40), (1.0, 0.01)).isfinite().all()


def test_the_published_network_has_the_published_size():
    with torch.device("meta"):
        network = resnet101_gem()
        assert network(torch.zeros(1, 3, 64, 64)).shape == (1, 2048)
    # torchvision's ResNet-101 has 44,549,160, of which its classifier 2,049,000; GeM 1; whitening 2048 (2048 + 1).
    assert sum(p.numel() for p in network.parameters()) == 44_549_160 - 2_049_000 + 1 + 2048 * 2049


def test_the_authors_names_and_torchvisions_load():
    network = small()
    own = network.state_dict()
    numbers = {"conv1": 0, "bn1": 1, "layer1": 4, "layer2": 5, "layer3": 6, "layer4": 7}
    theirs, torchvisions = {}, {"fc.weight": torch.zeros(3, 3)}
    for name, value in own.items():
        value = torch.full_like(value, 2) if value.is_floating_point() else value
        head, _, rest = name.partition(".")
        if head == "backbone":
            part, _, inner = rest.partition(".")
            theirs[f"features.{numbers[part]}.{inner}"] = value
            torchvisions[rest] = value
        else:
            theirs[name] = value
    assert "not in it" not in load_descriptor_weights(network, theirs, "file")
    assert all((p == 2).all() for p in network.parameters())
    network = small()
    assert "not in it: pool.p, whiten.bias, whiten.weight" in load_descriptor_weights(network, torchvisions, "file")
    assert (network.backbone.conv1.weight == 2).all()


def test_weights_of_another_network_are_refused():
    with pytest.raises(VergenceError, match="file has no 'backbone"):
        load_descriptor_weights(small(), {}, "file")
    state = dict(small().state_dict())
    state["backbone.conv1.weight"] = torch.zeros(1)
    with pytest.raises(VergenceError, match="of shape"):
        load_descriptor_weights(small(), state, "file")


def test_backbones_go_by_name_and_a_missing_one_is_said():
    assert descriptor_network("resnet18").dimension == 512
    with pytest.raises(VergenceError, match="no backbone 'resnet19'.*did you mean"):
        descriptor_network("resnet19")
