"""The fast set convolution equals the direct one: gather, concatenate, convolve, normalise, take the maximum."""

import pytest
import torch

from vergence.ops import setconv as module
from vergence.ops.knn import gathered, nearest
from vergence.ops.setconv import set_convolution
from vergence.reference import scene_flow as plain


def case(channels=5, width=7, count=60, batch=2, layers=3):
    source = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=source, dtype=torch.float64)

    weights = [normal(width, before) for before in [channels + 3] + [width] * (layers - 1)]
    scales, shifts = ([normal(width) for _ in range(layers)] for _ in range(2))  # of both signs
    points, features = normal(batch, count, 3), normal(batch, count, channels)
    leaves = [t.requires_grad_() for t in (features, points, *weights, *scales, *shifts)]
    return leaves, nearest(points, 6)


def ours(features, points, neighbours, params):
    layers = len(params) // 3
    first, *rest = params[:layers]
    centre = points @ first[:, -3:].mT
    near = features @ first[:, :-3].mT + centre
    return set_convolution(near, centre, neighbours, rest, params[layers : 2 * layers], params[2 * layers :])


def theirs(features, points, neighbours, params):
    named = {}
    for i, (weight, scale, shift) in enumerate(zip(params[:3], params[3:6], params[6:], strict=True), 1):
        named |= {f"c.fc{i}.weight": weight[..., None, None], f"c.bn{i}.weight": scale, f"c.bn{i}.bias": shift}
    edges = gathered(points, neighbours) - points.unsqueeze(2)
    return plain.set_conv(features, neighbours, edges, named, "c")


def compared(leaves, neighbours, atol=1e-9):
    features, points, *params = leaves
    results = [run(features, points, neighbours, params) for run in (ours, theirs)]
    torch.testing.assert_close(*results, atol=atol, rtol=1e-7)
    probe = torch.randn(results[0].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for a, b in zip(*(torch.autograd.grad(r, leaves, probe) for r in results), strict=True):
        torch.testing.assert_close(a, b, atol=atol, rtol=1e-6)


@pytest.mark.parametrize("cached", [1, 700, 1 << 17])  # one point per run, several points, all clouds
def test_values_and_gradients_are_those_of_the_direct_form(cached, monkeypatch):
    monkeypatch.setattr(module, "CACHED", cached)
    compared(*case())


def test_a_scale_of_zero_is_no_special_case():
    leaves, neighbours = case()
    for scale in leaves[5:8]:
        scale.data[2] = 0
    features, points, *params = leaves
    torch.testing.assert_close(*(run(features, points, neighbours, params) for run in (ours, theirs)))
    grads = torch.autograd.grad(ours(features, points, neighbours, params).sum(), leaves)
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("layers", [2, 4])
def test_gradients_of_other_depths(layers):
    leaves, neighbours = case(channels=2, width=3, count=8, batch=1, layers=layers)
    neighbours = neighbours[..., :3]
    assert torch.autograd.gradcheck(lambda f, p, *w: ours(f, p, neighbours, w), leaves)


def test_layers_of_different_widths():
    source = torch.Generator().manual_seed(0)
    near, centre, first, second = (
        torch.randn(*shape, generator=source, dtype=torch.float64).requires_grad_()
        for shape in [(1, 9, 4), (1, 5, 4), (6, 4), (2, 6)]
    )
    scales, shifts = ([torch.ones(w).double() * s for w in (4, 6, 2)] for s in (1, 0.1))
    index = torch.randint(0, 9, (1, 5, 3), generator=source)  # five centres among nine others
    run = lambda *a: set_convolution(*a[:2], index, a[2:], scales, shifts)  # noqa: E731
    assert run(near, centre, first, second).shape == (1, 5, 2)
    assert torch.autograd.gradcheck(run, (near, centre, first, second))


def test_backward_can_be_called_again():
    leaves, neighbours = case()
    features, points, *params = leaves
    total = ours(features, points, neighbours, params).square().sum()
    first = torch.autograd.grad(total, leaves, retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(total, leaves), strict=True):
        torch.testing.assert_close(a, b)


def test_points_at_one_place_share_the_gradient_of_a_maximum():
    leaves, neighbours = case(batch=1, count=30)
    features, points, *params = leaves
    twice = torch.cat([features, features], 1), torch.cat([points, points], 1)  # every point twice
    both = torch.cat([neighbours, neighbours + 30], 2).repeat(1, 2, 1)
    out = ours(*twice, both, params)
    torch.testing.assert_close(out[:, :30], ours(features, points, neighbours, params))
    probe = torch.randn(1, 60, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    grads = torch.autograd.grad(out, [twice[0], *params], probe)
    torch.testing.assert_close(grads[0][:, :30], grads[0][:, 30:])
    expected = torch.autograd.grad(theirs(*twice, both, params), params, probe)
    for a, b in zip(grads[1:], expected, strict=True):
        torch.testing.assert_close(a, b)


def test_float32_far_from_the_origin_keeps_its_digits():
    leaves, neighbours = case(count=200)
    features, points, *params = (leaf.detach() for leaf in leaves)
    exact = ours(features, points, neighbours, params)
    far = ours(*(t.float() for t in (features, points + 1000)), neighbours, [p.float() for p in params])
    assert (far - exact).abs().max() < 2e-2  # coordinates themselves have steps of 6e-5 there


def test_parts_that_do_not_belong_together_are_refused():
    leaves, neighbours = case()
    _, _, w1, w2, w3, s1, s2, _, t1, t2, t3 = leaves
    with pytest.raises(ValueError, match="got 2 weights, 2 scales and 3 shifts"):
        set_convolution(w1, w1, neighbours, [w2, w3], [s1, s2], [t1, t2, t3])


def test_without_gradients_the_last_product_is_never_held(monkeypatch):
    leaves, neighbours = case()
    features, points, *params = leaves
    held = []
    room = module._Edges.room
    monkeypatch.setattr(module._Edges, "room", lambda edges, channels: held.append(channels) or room(edges, channels))
    with torch.no_grad():
        out = ours(features, points, neighbours, params)
    assert len(held) == 1  # of three layers, the middle one
    torch.testing.assert_close(out, ours(features, points, neighbours, params))
    assert len(held) == 3
