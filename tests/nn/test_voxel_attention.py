"""Attention over channels and places, and saliency: the identities of their definitions."""

import pytest
import torch

from vergence.nn.saliency import Saliency, SaliencyHead, fused, map_loss, saliency_pool
from vergence.nn.voxel_attention import CBAM, VoxelAttention


def maps(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_voxel_weights_are_an_outer_product_that_sums_to_the_channels_gates():
    f, attention = maps(2, 6, 4, 3), VoxelAttention(6, 5).double()
    places, channels = attention.over_places(f), attention.over_channels(f)
    assert torch.allclose(places.sum((2, 3)), torch.ones(2, 1, dtype=torch.float64))
    weights = attention(f) / f
    assert torch.allclose(weights.sum((2, 3)), channels[:, :, 0, 0])
    assert int(torch.linalg.matrix_rank(weights[0].flatten(1), tol=1e-9)) == 1
    assert ((weights > 0) & (weights < 1)).all()


def test_attention_over_places_ignores_a_constant_and_follows_their_order():
    f, attention = maps(2, 6, 4, 3), VoxelAttention(6, 5).double()
    assert torch.allclose(attention.over_places(f + 3), attention.over_places(f))
    flat = torch.full((1, 6, 4, 3), 2.0, dtype=torch.float64)
    assert torch.allclose(attention.over_places(flat), torch.full((1, 1, 4, 3), 1 / 12, dtype=torch.float64))
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    shuffled = f.flatten(2)[:, :, order].view_as(f)
    assert torch.allclose(attention(shuffled).amax((2, 3)), attention(f).amax((2, 3)))


def test_halves_multiply_to_the_whole():
    f, whole = maps(2, 6, 4, 3), VoxelAttention(6, 5).double()
    channels = VoxelAttention(6, 5, "channels").double()
    channels.load_state_dict(whole.state_dict())
    places = VoxelAttention(6, halves="places")
    assert torch.allclose(whole(f), f * (channels(f) / f) * (places(f) / f))
    assert sum(p.numel() for p in places.parameters()) == 0


def test_parameters_are_those_of_the_formulas():
    with torch.device("meta"):
        assert sum(p.numel() for p in VoxelAttention(2048, 800).parameters()) == 3_276_800
        assert sum(p.numel() for p in SaliencyHead(2048).parameters()) == 28_686
        assert sum(p.numel() for p in CBAM(64).parameters()) == 64 * 4 + 4 + 4 * 64 + 64 + 2 * 49 + 1


def test_cbam_gates_channels_before_places():
    f, module = maps(1, 32, 3, 3), CBAM(32).double()
    with torch.no_grad():
        module.conv.weight.zero_()
        module.conv.bias.fill_(50.0)  # every place passes
    gate = (module.network(f.mean((2, 3))) + module.network(f.amax((2, 3)))).sigmoid()
    assert torch.allclose(module(f), f * gate[:, :, None, None])


@pytest.mark.parametrize("fusion", ["mean", "product", "mask", "pose"])
def test_fused_maps_sum_to_one_whatever_their_scale(fusion):
    mask, parts = maps(2, 4, 3).sigmoid(), maps(2, 13, 4, 3, seed=1).sigmoid()
    found = fused(Saliency(mask, parts), fusion)
    assert torch.allclose(found.sum((1, 2)), torch.ones(2, dtype=torch.float64))
    assert torch.allclose(fused(Saliency(mask * 0.1, parts * 0.3), fusion), found)
    only = {"mask": mask, "pose": parts.sum(1)}.get(fusion)
    if only is not None:
        assert torch.allclose(found, only / only.sum((1, 2), keepdim=True))


def test_uniform_saliency_is_average_pooling_and_a_loss_is_zero_only_for_equal_maps():
    x = maps(2, 5, 4, 3)
    assert torch.allclose(saliency_pool(x, torch.full((2, 4, 3), 1 / 12, dtype=torch.float64)), x.mean((2, 3)))
    same = x.clone().requires_grad_()
    loss = map_loss(same, x)
    assert float(loss.detach()) == 0
    assert torch.autograd.grad(loss, same)[0].isfinite().all()
    assert float(map_loss(x + 2, x)) == pytest.approx(2 * 60**0.5, rel=1e-6)
