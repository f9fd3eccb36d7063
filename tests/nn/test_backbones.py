"""Backbones: published sizes, usual names, and blocks at the requested places."""

import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.nn import Nonlocal, PreResNet, ResNet


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("depths", "block", "expected"),
    [((2, 2, 2, 2), "basic", 11_689_512), ((3, 4, 6, 3), "bottleneck", 25_557_032)],
)
def test_resnet_has_the_size_and_names_of_the_public_weights(depths, block, expected):
    with torch.device("meta"):
        model = ResNet(1000, depths, block)
    assert parameters(model) == expected
    names = set(model.state_dict())
    assert {
        "conv1.weight",
        "bn1.running_mean",
        "layer2.0.downsample.0.weight",
        "layer4.1.conv2.weight",
        "fc.bias",
    } <= names


@pytest.mark.parametrize(
    ("options", "classes", "expected"),
    [
        ({"block": "bottleneck"}, 1000, 1_190_008),  # the authors' code
        ({"head": "plain"}, 10, 855_770),  # the usual PreResNet-56
    ],
)
def test_preresnet_has_its_published_size(options, classes, expected):
    with torch.device("meta"):
        assert parameters(PreResNet(classes, (9, 9, 9), **options)) == expected


def test_an_inserted_block_comes_right_after_its_residual_block():
    torch.manual_seed(0)
    model = PreResNet(3, (2, 1, 1), (4, 4, 4), at=["layer1.0"], insert=Nonlocal).eval()
    torch.nn.init.normal_(model.inserted["layer1.0"].norm.weight)
    x = torch.randn(2, 3, 8, 8)
    seen = {}
    model.layer1[0].register_forward_hook(lambda m, i, o: seen.update(after=o))
    model.inserted["layer1.0"].register_forward_hook(lambda m, i, o: seen.update(taken=i[0], given=o))
    model.layer1[1].register_forward_hook(lambda m, i, o: seen.update(next=i[0]))
    model(x)
    assert torch.equal(seen["after"], seen["taken"])
    assert torch.equal(seen["given"], seen["next"])
    assert not torch.equal(seen["after"], seen["next"])


def test_inserting_changes_no_other_parameter_name():
    plain = set(ResNet(5, (1, 1, 1, 1), "basic", (4, 4, 4, 4)).state_dict())
    with_block = set(ResNet(5, (1, 1, 1, 1), "basic", (4, 4, 4, 4), at=["layer3.0"], insert=Nonlocal).state_dict())
    assert {name for name in with_block - plain if not name.startswith("layer3.after_0.")} == set()
    assert plain < with_block


def test_an_unknown_place_is_named_with_those_there_are():
    with pytest.raises(VergenceError, match=r"'layer3\.9'.*layer3\.0"):
        PreResNet(3, (1, 1, 1), at=["layer3.9"], insert=Nonlocal)
