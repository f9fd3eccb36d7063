"""Cost volumes against their definitions, in both forms, and where flow leaves the picture."""

import pytest
import torch

from vergence.ops import cost_volume as volumes
from vergence.ops.cost_volume import sampled_cost_volume, warped_cost_volume
from vergence.reference import cost_volume as plain


def features(dtype=torch.float64, shape=(2, 4, 5, 6)):
    source = torch.Generator().manual_seed(0)
    first, second = (torch.randn(shape, generator=source, dtype=dtype) for _ in range(2))
    return first, second, 2 * torch.randn(shape[0], 2, *shape[2:], generator=source, dtype=dtype)


@pytest.mark.parametrize("metric", ["corr", "sad"])
def test_gradients_are_right_numerically(metric):
    leaves = [part.requires_grad_() for part in features(shape=(1, 2, 3, 4))]
    assert torch.autograd.gradcheck(lambda *a: sampled_cost_volume(*a, 1, metric), leaves, eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("metric", ["corr", "sad"])
def test_without_numba_the_operator_gives_the_same(metric, monkeypatch):
    leaves = [part.requires_grad_() for part in features()]

    def both():
        costs = sampled_cost_volume(*leaves, 2, metric)
        moved = warped_cost_volume(*leaves, 2, metric)
        return [costs, moved, *torch.autograd.grad((costs**2).sum() + (moved**3).sum(), leaves)]

    compiled = both()
    monkeypatch.setattr(volumes, "compiled", lambda: None)
    for a, b in zip(both(), compiled, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_whole_flow_reads_the_pixel_it_points_to():
    first, second = torch.ones(1, 1, 4, 5), torch.arange(20.0).view(1, 1, 4, 5)
    flow = torch.zeros(1, 2, 4, 5)
    flow[0, :, 1, 1] = torch.tensor([2.0, 1.0])
    costs = sampled_cost_volume(first, second, flow, 1)
    assert costs[0, :, 1, 1].tolist() == [7, 8, 9, 12, 13, 14, 17, 18, 19]  # around row 2, column 3


@pytest.mark.parametrize("far", [1e3, -1e3, 1e9])
def test_flow_far_outside_finds_zeros(far):
    first, second, flow = features()
    flow = torch.full_like(flow, far)
    assert sampled_cost_volume(first, second, flow, 2).abs().max() == 0
    differences = sampled_cost_volume(first, second, flow, 2, "sad")
    torch.testing.assert_close(differences, first.abs().mean(1, keepdim=True).expand_as(differences))


def test_flow_that_is_not_a_number_spoils_only_its_pixel():
    first, second, flow = features()
    broken = flow.clone()
    broken[0, 0, 2, 3] = torch.nan
    costs, whole = (sampled_cost_volume(first, second, f, 1) for f in (broken, flow))
    assert costs[0, :, 2, 3].isnan().all()
    costs[0, :, 2, 3] = whole[0, :, 2, 3]
    assert torch.equal(costs, whole)


def test_half_precision_is_computed_in_single():
    first, second, flow = features(torch.float32)
    low = sampled_cost_volume(first.bfloat16(), second.bfloat16(), flow, 1)
    assert low.dtype == torch.bfloat16
    exact = plain.sampled(first.bfloat16().float(), second.bfloat16().float(), flow, 1)
    torch.testing.assert_close(low.float(), exact, rtol=1e-2, atol=1e-2)


def test_several_threads_give_the_same_bits():
    inputs = features(torch.float32, (4, 8, 9, 10))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(sampled_cost_volume(*inputs, 4, "sad"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_a_graph_can_be_traced_through_it():
    with torch.device("meta"):
        costs = sampled_cost_volume(torch.empty(1, 3, 8, 9), torch.empty(1, 3, 8, 9), torch.empty(1, 2, 8, 9), 4)
    assert costs.shape == (1, 81, 8, 9)


def test_wrong_shapes_are_refused():
    first, second, flow = features()
    with pytest.raises(ValueError, match="one shape"):
        sampled_cost_volume(first, second[..., 1:], flow, 1)
    with pytest.raises(ValueError, match="flow for features"):
        sampled_cost_volume(first, second, flow[:, :1], 1)
    with pytest.raises(ValueError, match="corr or sad"):
        warped_cost_volume(first, second, flow, 1, "ssd")
