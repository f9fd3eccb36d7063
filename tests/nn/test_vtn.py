"""The volumetric transformer and its rivals as layers: on any network, at any size, and what they refuse."""

import pytest
import torch
from torch import nn

import vergence
from vergence.core.errors import VergenceError
from vergence.nn import WARPS, AffineTransformer, DeformableConv2d, ResNet, SaliencySampler, VolumetricTransformer
from vergence.nn.vgg import VGG19
from vergence.nn.warping import deformed
from vergence.ops.fields import field_of_grid, sampled, sampling_grid, triplets


def maps(*shape, kind=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(kind)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 3), (7, 7), (14, 13)])
@pytest.mark.parametrize("name", WARPS)
def test_maps_of_any_size_keep_it_and_train(name, size):
    layer = WARPS[name](32)
    u = maps(2, 32, *size).requires_grad_()
    out = layer(u)
    assert out.shape == u.shape
    out.square().sum().backward()
    assert u.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", WARPS)
def test_any_float_type_gives_nearly_the_same(name, kind):
    torch.manual_seed(0)
    layer = WARPS[name](32).eval()
    u = maps(2, 32, 6, 7).clamp(min=0)
    expected = layer(u)
    found = layer.to(kind)(u.to(kind))
    assert found.dtype == kind
    assert (found.float() - expected).abs().max() < (1e-5 if kind == torch.float64 else 0.06)


def test_an_affine_transformer_starts_as_the_identity_and_follows_its_matrix():
    layer, u = AffineTransformer(4).double(), maps(1, 4, 6, 6, kind=torch.float64)
    torch.testing.assert_close(layer(u), u)
    with torch.no_grad():  # a shift of a third of the map is one of two pixels
        layer.affine.bias.copy_(torch.tensor([1, 0, 2 / 3, 0, 1, 0], dtype=torch.float64))
    fields = layer.fields(u)
    torch.testing.assert_close(fields[:, 0, 0], torch.full((1, 6, 6), 2.0, dtype=torch.float64))
    torch.testing.assert_close(layer(u)[..., :4], u[..., 2:])


def test_a_saliency_sampler_goes_where_saliency_is():
    layer, u = SaliencySampler(2).double(), torch.zeros(1, 2, 9, 9, dtype=torch.float64)
    u[:, 0, 2, 7] = 1
    with torch.no_grad():
        layer.saliency.weight[0, 0] = 50.0
    x, y = layer.fields(u)[0, 0]
    torch.testing.assert_close(x + torch.arange(9), torch.full((9, 9), 7.0, dtype=torch.float64))
    torch.testing.assert_close(y + torch.arange(9)[:, None], torch.full((9, 9), 2.0, dtype=torch.float64))


def test_equal_saliency_is_symmetric():
    x, y = SaliencySampler(2).double().fields(torch.ones(1, 2, 7, 7, dtype=torch.float64))[0, 0]
    torch.testing.assert_close(x, -x.flip(1))
    torch.testing.assert_close(y, x.mT)
    assert x[3, 3].abs() < 1e-12
    assert x[0, 0] > 0


def test_a_grid_and_its_field_are_inverse():
    field = maps(2, 2, 3, 5, kind=torch.float64)
    torch.testing.assert_close(field_of_grid(sampling_grid(field)), field)


def test_fields_for_other_maps_are_refused():
    with pytest.raises(ValueError, match=r"fields of \(B, C, 2, H, W\)"):
        sampled(maps(1, 6, 4, 4), torch.zeros(1, 4, 2, 4, 4))


def test_triplets_have_one_of_the_class_and_one_of_another():
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    for seed in range(20):
        anchor, positive, negative = triplets(labels, torch.Generator().manual_seed(seed))
        assert anchor.tolist() == [0, 1, 2, 3, 4]  # the only one of its class has no partner
        assert (labels[anchor] == labels[positive]).all()
        assert (anchor != positive).all()
        assert (labels[anchor] != labels[negative]).all()
    assert [len(t) for t in triplets(torch.zeros(4, dtype=torch.long))] == [0, 0, 0]


def test_a_deformable_convolution_starts_as_the_one_it_replaces():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.ReLU(), nn.Conv2d(8, 4, 3, 1, 2, dilation=2)
    ).double()
    x = maps(2, 3, 11, 9, kind=torch.float64)
    before = model(x)
    assert isinstance(deformed(model, "0"), DeformableConv2d)
    deformed(model, "2")
    torch.testing.assert_close(model(x), before)
    model(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    with pytest.raises(VergenceError, match="'1' is a ReLU"):
        deformed(model, "1")
    with pytest.raises(VergenceError, match="square kernels"):
        DeformableConv2d(3, 4, (3, 1))


def test_vgg19_has_the_published_size_and_names():
    with torch.device("meta"):
        network = VGG19()
        assert network(torch.zeros(1, 3, 224, 224)).shape == (1, 1000)
    assert sum(p.numel() for p in network.parameters()) == 143_667_240
    assert network.features[34].out_channels == 512
    assert len(network.features) == 37


# On networks of others ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WARPS)
def test_it_attaches_to_a_resnet_and_detaches(name):
    torch.manual_seed(0)
    network = ResNet(5, (1, 1, 1, 1), "bottleneck", (4, 8, 8, 8)).eval()
    x = maps(2, 3, 96, 96)
    before = network(x)
    layer = vergence.attach(network, at="layer4", block=name)["layer4"]
    assert layer.channels == 32
    changed = (network(x) - before).abs().max()
    if name == "stn":
        assert changed < 1e-5
    else:
        assert changed > 1e-4, "it is not the identity: fields follow the responses from the start"
    network(x).sum().backward()
    vergence.detach(network)
    assert torch.equal(network(x), before)


def test_it_attaches_to_vgg_with_options():
    with torch.device("meta"):
        network = VGG19(10)
        layer = vergence.attach(network, at="features.35", block="vtn", groups=16, window=7, channels=512)[
            "features.35"
        ]
        assert network(torch.zeros(1, 3, 224, 224)).shape == (1, 10)
    assert (layer.groups, layer.window) == (16, 7)


def test_what_gives_no_map_is_refused_in_a_sentence():
    tokens = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
    vergence.attach(tokens, at="0", block="vtn", groups=4)
    with pytest.raises(VergenceError, match=r"needs a map \(B, 16, H, W\), got \(2, 16, 5\): attach it"):
        tokens(torch.zeros(2, 5, 8))
    flat = nn.Sequential(nn.Flatten(), nn.Linear(12, 16))
    with pytest.raises(VergenceError, match="no block can come after '1': it gives"):
        vergence.attach(flat, at="1", block="vtn", example=torch.zeros(2, 3, 2, 2))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": 5}, "16 channels cannot be cut into 5 equal groups"),
        ({"groups": 0}, "16 channels cannot be cut into 0 equal groups"),
        ({"groups": 4, "window": 4}, "a window has an odd side"),
        ({"groups": 4, "beta": 0}, "beta is above 0"),
        ({"groups": 4, "widths": ()}, "1 to 4 widths"),
        ({"sides": 4}, "does not take sides"),
    ],
)
def test_layers_that_cannot_be_are_refused(options, said):
    with pytest.raises(VergenceError, match=said):
        vergence.attach(nn.Sequential(nn.Conv2d(3, 16, 3)), at="0", block="vtn", **options)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", WARPS)
def test_nan_is_not_hidden(name, value):
    u = maps(1, 32, 5, 5)
    u[0, 3, 2, 2] = value
    with pytest.raises(VergenceError, match="needs finite numbers, but its map holds NaN or infinity"):
        WARPS[name](32)(u)


def test_other_channels_are_refused():
    with pytest.raises(VergenceError, match=r"needs a map \(B, 32, H, W\), got \(1, 16, 4, 4\)"):
        VolumetricTransformer(32)(maps(1, 16, 4, 4))
