"""Scale layers are equivariant, cache kernels only while they are valid, and fold their norms."""

import copy
import io
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.nn import LiftingConv2d, ScaleBatchNorm2d, ScaleConv2d, ScaleMaxPool2d, ScalePointwise2d, ScalePool
from vergence.nn.folded import Folded, PlainConv2d
from vergence.ops.scale import hermite_basis
from vergence.reference import scale as plain

SCALES = (1.0, math.sqrt(2), 2.0)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def smooth(side, sigma, seed=0):
    """Noise without detail finer than ``sigma``."""
    x = normal(1, 1, side, side, seed=seed)
    place = torch.arange(-4 * int(sigma), 4 * int(sigma) + 1, dtype=torch.float64)
    bell = torch.exp(-(place**2) / (2 * sigma**2))
    bell = bell / bell.sum()
    pad = len(bell) // 2
    return F.conv2d(F.conv2d(F.pad(x, (pad,) * 4, mode="circular"), bell.view(1, 1, 1, -1)), bell.view(1, 1, -1, 1))


def relative(a, b, margin):
    a, b = (t[..., margin:-margin, margin:-margin] for t in (a, b))
    return float((a - b).square().sum() / b.square().sum())


def test_a_smaller_picture_has_the_responses_of_a_smaller_scale():
    """By two and by root two: downsampling is exact for every second pixel, without aliasing."""
    torch.manual_seed(0)
    layer = LiftingConv2d(1, 6, 15, SCALES, order=5, padding=7).double().eval()
    x = smooth(129, 4)
    with torch.no_grad():
        large, small = layer(x), layer(x[..., ::2, ::2])
    # A convolution adds up pixels: those of the smaller picture stand for four each, and 1/σ² makes up for it.
    moved = relative(small[:, :, 0], large[:, :, 2, ::2, ::2], 10)
    unmoved = relative(small[:, :, 0], large[:, :, 0, ::2, ::2], 10)
    assert moved < 1e-3
    assert unmoved > 30 * moved


@pytest.mark.parametrize("separable", [False, True])
def test_a_stack_commutes_with_shifts_where_the_border_is_the_other_side(separable, monkeypatch):
    monkeypatch.setattr("vergence.nn.scale.FEWEST", 1 if separable else 1000)
    torch.manual_seed(0)
    around = ("circular", "circular")
    stack = nn.Sequential(
        LiftingConv2d(3, 4, 7, SCALES, 3, padding=3, borders=around), ScaleBatchNorm2d(4), nn.ReLU(),
        ScaleConv2d(4, 5, 5, SCALES, 3, 2, padding=2, borders=around), ScalePointwise2d(5, 3, 2), ScalePool(),
    ).double().eval()  # fmt: skip
    assert any(stack[3].separable) == separable
    x = normal(1, 3, 12, 11)
    torch.testing.assert_close(stack(x.roll((3, -4), (2, 3))), stack(x).roll((3, -4), (2, 3)))


def test_fed_the_same_at_all_scales_the_second_kind_is_the_first():
    torch.manual_seed(0)
    lifting, inner = LiftingConv2d(3, 4, 5, SCALES, 2).double(), ScaleConv2d(3, 4, 5, SCALES, 2).double()
    inner.weight.data = lifting.weight.data.unsqueeze(2)
    x = normal(2, 3, 9, 9)
    torch.testing.assert_close(inner(x.unsqueeze(2).expand(-1, -1, 3, -1, -1)), lifting(x))


def test_at_one_scale_it_is_a_plain_convolution():
    torch.manual_seed(0)
    layer = LiftingConv2d(3, 4, 3, (1.0,)).double()
    kernel = torch.einsum("oif,fxy->oixy", layer.weight, hermite_basis(3, (1.0,), 3)[0])
    x = normal(2, 3, 8, 8)
    torch.testing.assert_close(layer(x)[:, :, 0], F.conv2d(x, kernel))


def test_a_layer_has_the_parameters_of_a_plain_one_with_as_many_places():
    for layer in (LiftingConv2d(3, 8, 9, SCALES, 5), ScaleConv2d(3, 8, 9, SCALES, 5)):
        assert sum(p.numel() for p in layer.parameters()) == nn.Conv2d(3, 8, 5, bias=False).weight.numel()
        assert list(layer.state_dict()) == ["weight"]


def test_double_precision_has_all_its_digits():
    layer = LiftingConv2d(2, 3, 5, SCALES, 2)
    exact = plain.hermite_basis(5, SCALES, 2)
    layer.double()
    x = normal(1, 2, 7, 7)
    torch.testing.assert_close(layer(x), plain.lift(x, layer.weight, exact), atol=1e-14, rtol=1e-12)


def test_a_layer_made_without_memory_can_be_given_some():
    with torch.device("meta"):
        layer = ScaleConv2d(2, 3, 5, SCALES, 2)
    layer.to_empty(device="cpu")
    torch.testing.assert_close(layer.functions, ScaleConv2d(2, 3, 5, SCALES, 2).functions)


def test_norm_and_pooling_are_those_of_three_dimensions():
    x = normal(2, 4, 3, 6, 6)
    ours, theirs = ScaleBatchNorm2d(4).double(), nn.BatchNorm3d(4).double()
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    assert (ours.running_var - theirs.running_var).abs().max() < 1e-12
    torch.testing.assert_close(ScaleMaxPool2d(2)(x), F.max_pool3d(x, (1, 2, 2)))


def folded():
    torch.manual_seed(0)
    unit = Folded(ScaleConv2d(16, 4, 5, SCALES, 3, padding=2), ScaleBatchNorm2d(4)).double()
    for parameter in unit.norm.parameters():
        nn.init.normal_(parameter)
    unit(normal(2, 16, 3, 8, 8))  # statistics
    return unit.eval()


def separately(unit, x, crop=0):
    out = F.relu(unit.norm(unit.conv(x)))
    return out[..., crop : out.shape[-2] - crop, crop : out.shape[-1] - crop]


@pytest.mark.parametrize("crop", [0, 1, 3])
def test_a_folded_unit_is_convolution_norm_and_relu_cropped_afterwards(crop):
    unit, x = folded(), normal(2, 16, 3, 8, 8, seed=1)
    torch.testing.assert_close(unit(x, crop), separately(unit, x, crop))
    plain_unit = Folded(PlainConv2d(16, 4, 3, 2, 1), nn.BatchNorm2d(4)).double().eval()
    y = x[:, :, 0].repeat(1, 1, 2, 2)
    torch.testing.assert_close(plain_unit(y, crop), separately(plain_unit, y, crop))


def changes():
    def step(unit):
        torch.optim.SGD([unit.conv.weight], 0.1).zero_grad()
        unit.conv.weight.grad = torch.ones_like(unit.conv.weight)
        torch.optim.SGD([unit.conv.weight], 0.1).step()

    return {
        "a step": step,
        "a state": lambda unit: unit.load_state_dict({k: v + 1 for k, v in unit.state_dict().items()}),
        "other data": lambda unit: setattr(unit.conv.weight, "data", unit.conv.weight.data * 2),
        "another parameter": lambda unit: setattr(unit.conv, "weight", nn.Parameter(unit.conv.weight.detach() * 2)),
        "statistics": lambda unit: unit.norm.running_mean.add_(1),
        "training": lambda unit: (unit.train(), unit(normal(2, 16, 3, 8, 8, seed=5)), unit.eval()),
    }  # fmt: skip


@pytest.mark.parametrize("change", changes())
def test_kernels_are_kept_until_something_changes(change):
    unit, x = folded(), normal(1, 16, 3, 8, 8, seed=1)
    with torch.no_grad():
        before = unit(x)
        kept = unit.folded(x)[0]
        assert unit.folded(x)[0][0] is kept[0]
    changes()[change](unit)
    with torch.no_grad():
        assert (unit(x) - before).abs().max() > 1e-3
        torch.testing.assert_close(unit(x), separately(unit, x))


def test_kept_kernels_serve_gradients_of_pictures_and_never_stand_for_weights_that_learn():
    unit, x = folded(), normal(1, 16, 3, 8, 8, seed=1).requires_grad_()
    with torch.inference_mode():
        unit(x.detach())
    grads = torch.autograd.grad(unit(x).sum(), [x, unit.conv.weight, unit.norm.weight])
    for a, b in zip(
        grads, torch.autograd.grad(separately(unit, x).sum(), [x, unit.conv.weight, unit.norm.weight]), strict=True
    ):
        torch.testing.assert_close(a, b)
    unit.requires_grad_(False)
    with torch.inference_mode():
        unit(x.detach())
    torch.testing.assert_close(torch.autograd.grad(unit(x).sum(), x)[0], grads[0])


def test_copies_and_files_carry_no_kernels():
    unit, x = folded(), normal(1, 16, 3, 8, 8, seed=1)
    with torch.no_grad():
        unit(x)
    assert unit._kept._made
    twin = copy.deepcopy(unit)
    assert not twin._kept._made
    empty, full = io.BytesIO(), io.BytesIO()
    torch.save(twin, empty)
    torch.save(unit, full)
    assert len(full.getvalue()) == len(empty.getvalue())


@pytest.mark.parametrize("training", [True, False])
def test_half_precision_is_near(training):
    unit = folded().float().train(training)
    x = normal(2, 16, 3, 8, 8, seed=1, dtype=torch.float32)
    exact = unit(x)
    with torch.autocast("cpu", torch.bfloat16):
        for context in (torch.no_grad(), torch.enable_grad()):
            with context:
                low = unit(x)
                assert low.dtype == torch.bfloat16
                assert (low - exact).abs().max() < 0.05 * exact.abs().max()
    if not training:  # and full precision comes back with it
        assert (unit(x) == exact).all()
