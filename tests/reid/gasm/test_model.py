"""The network with and without saliency, its maps, and distances that follow Eq. 4."""

import pytest
import torch
import torch.nn.functional as F

from vergence.core.errors import VergenceError
from vergence.nn import ResNet
from vergence.nn.resnet import load_imagenet
from vergence.reid.gasm.exact import matched
from vergence.reid.gasm.model import Described, build, described, pair_distances
from vergence.reid.gasm.pictures import chosen, shaded
from vergence.reid.gasm.settings import Matching, ModelConfig


def network(saliency="mean", **model):
    torch.manual_seed(0)
    return build(ModelConfig("resnet-tiny", saliency=saliency, **model), 5).eval()


@pytest.mark.parametrize("size", [(96, 48), (70, 33)])
@pytest.mark.parametrize("stride", [1, 2])
def test_cells_are_those_of_the_last_map(size, stride):
    x = network(last_stride=stride).maps(torch.zeros(1, 3, *size))[0]
    assert tuple(x.shape[-2:]) == ModelConfig("resnet-tiny", last_stride=stride).cells(*size)


def test_the_published_map_has_24_by_8_locations_or_12_by_4():
    assert ModelConfig().cells(384, 128) == (24, 8)
    assert ModelConfig(last_stride=2).cells(384, 128) == (12, 4)


def test_without_saliency_features_are_averages_and_all_locations_count_the_same():
    net, pictures = network("none"), torch.randn(2, 3, 96, 48)
    pooled, local, saliency = net(pictures)
    x = net.maps(pictures)[0]
    assert torch.allclose(pooled, F.normalize(x.mean((2, 3)), dim=1), atol=1e-5)
    assert torch.allclose(saliency, torch.full((2, 72), 1 / 72))
    assert torch.allclose(local[0, 7], F.normalize(x[0, :, 1, 1], dim=0), atol=1e-5)


def test_saliency_pools_by_the_maps_it_predicts():
    net, pictures = network("mask"), torch.randn(2, 3, 96, 48)
    x, maps, saliency = net.maps(pictures)
    assert torch.allclose(saliency, maps.mask / maps.mask.sum((1, 2), keepdim=True), atol=1e-6)
    expected = F.normalize((x * saliency[:, None]).sum((2, 3)), dim=1)
    assert torch.allclose(net(pictures)[0], expected, atol=1e-5)


def test_gradients_of_the_identity_reach_the_saliency():
    net = network().train()
    net.answers(torch.randn(4, 3, 96, 48)).logits.square().sum().backward()
    assert float(net.saliency.mask.weight.grad.abs().sum()) > 0
    assert float(net.saliency.pose.weight.grad.abs().sum()) > 0
    assert net.neck.bias.grad is None


def test_a_share_mixes_both_distances():
    queries, gallery = (described(network(), torch.randn(n, 3, 48, 24)) for n in (2, 3))
    whole = pair_distances(Matching(local="none"), queries, gallery)
    local = pair_distances(Matching(share=1.0), queries, gallery)
    assert torch.allclose(pair_distances(Matching(share=0.3), queries, gallery), 0.7 * whole + 0.3 * local, atol=1e-6)
    assert torch.allclose(whole, torch.cdist(queries.pooled, gallery.pooled), atol=1e-3)


def test_the_saliency_of_the_gallery_does_not_count():
    queries, gallery = (described(network(), torch.randn(n, 3, 48, 24)) for n in (2, 3))
    other = Described(gallery.pooled, gallery.local, gallery.saliency.flip(1))
    assert torch.equal(pair_distances(Matching(), queries, gallery), pair_distances(Matching(), queries, other))


def test_imagenet_weights_must_fit():
    net = network()
    state = ResNet(10, (1, 1, 1), "basic", (24, 48, 96), last_stride=1).state_dict()
    assert "ImageNet" in load_imagenet(net.backbone, state)
    assert torch.equal(net.backbone.conv1.weight, state["conv1.weight"])
    with pytest.raises(VergenceError, match="have no 'conv1.weight'"):
        load_imagenet(net.backbone, {})
    with pytest.raises(VergenceError, match="of shape"):
        load_imagenet(net.backbone, state | {"conv1.weight": torch.zeros(1)})


def test_whoever_is_not_hidden_is_found_by_every_saliency():
    found = matched(0.0, 0, seed=100)
    assert found["gasm"] == found["pooled"] == 100


def test_lines_begin_where_the_saliency_is():
    saliency = torch.zeros(6, 4)
    saliency[1:4, 1:3] = torch.tensor([[0.3, 0.2], [0.2, 0.1], [0.25, 0.05]])
    assert chosen(saliency, 2) == [(1, 1), (3, 1)]  # neighbours come later
    assert len(chosen(saliency, 20)) == 5  # one cell has less than a fifth of the largest


def test_what_is_ignored_becomes_dark_and_grey():
    picture = torch.stack([torch.ones(8, 4), torch.zeros(8, 4), torch.zeros(8, 4)])
    saliency = torch.zeros(2, 1)
    saliency[0] = 1
    drawn = shaded(picture, saliency)
    assert torch.allclose(drawn[:, 0, 0], torch.tensor([1.0, 0, 0]))
    assert torch.allclose(drawn[:, -1, 0], torch.full((3,), 0.1), atol=1e-6)
