"""Prepared convolutions equal the layers they were prepared from."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.nn import LiftingConv2d, ScaleBatchNorm2d, ScalePointwise2d
from vergence.nn import prepared as module
from vergence.nn.folded import Folded
from vergence.nn.prepared import Prepared, quick

SCALES = (1.0, math.sqrt(2), 2.0)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=["fused", "plain", "whole"])
def ways(request, monkeypatch):
    """With and without PyTorch's fused convolutions, and on a processor that has none for bfloat16."""
    if request.param == "plain":
        monkeypatch.setattr(module, "fused", lambda: None)
    elif request.param == "whole":
        monkeypatch.setattr(module, "halves", lambda: False)
    elif module.fused() is None:
        pytest.skip("this PyTorch has no fused convolutions")


@pytest.mark.parametrize(
    ("outputs", "inputs", "side", "stride", "padding"),
    [
        (8, 3, 7, 2, 3), (8, 16, 1, 1, 0), (40, 33, 3, 1, 1), (33, 40, 5, 1, 1), (40, 40, 3, 2, 0), (8, 3, 5, 2, -2),
        (40, 33, 3, 1, -1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rectified", [True, False])
def test_it_is_a_convolution_with_bias_and_relu(ways, outputs, inputs, side, stride, padding, rectified):
    kernel, bias = normal(outputs, inputs, side, side) / (inputs * side**2) ** 0.5, normal(outputs, seed=1)
    x = normal(2, inputs, 17, 14, seed=2).contiguous(memory_format=torch.channels_last)
    expected = F.conv2d(F.pad(x, (padding,) * 4).double(), kernel.double(), bias.double(), stride).float()
    there = normal(*expected.shape, seed=3).contiguous(memory_format=torch.channels_last)
    after = F.relu if rectified else lambda x: x
    with torch.no_grad():
        conv = Prepared(kernel, bias, stride, padding)
        assert (conv.tiles is not None) == (min(outputs, inputs) >= 32 and stride == 1)
        for _ in range(2):
            torch.testing.assert_close(conv(x, rectified), after(expected), atol=2e-5, rtol=0)
        out = there.clone()
        made = conv.add_to(out, x, rectified)
    torch.testing.assert_close(made, after(expected + there), atol=2e-5, rtol=0)
    assert made.data_ptr() == out.data_ptr()  # written in place


def test_one_kernel_serves_pictures_of_any_size(ways):
    kernel, bias = normal(8, 16, 1, 1), normal(8)
    with torch.no_grad():
        conv = Prepared(kernel, bias)
        for size in (5, 30, 8):
            x = normal(1, 16, size, size).contiguous(memory_format=torch.channels_last)
            torch.testing.assert_close(conv(x, False), F.conv2d(x, kernel, bias), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(("side", "stride", "padding"), [(1, 1, 0), (7, 2, 3), (3, 1, 1), (5, 1, -1)])
def test_pictures_of_bfloat16_give_bfloat16_beside_those_of_float32(ways, side, stride, padding):
    """Within a few of the 256 steps between two powers of two; tiled kernels lose none."""
    kernel, bias = normal(40, 33, side, side) / (33 * side**2) ** 0.5, normal(40, seed=1)
    x = normal(2, 33, 17, 14, seed=2).bfloat16().contiguous(memory_format=torch.channels_last)
    exact = F.conv2d(F.pad(x, (padding,) * 4).double(), kernel.double(), bias.double(), stride)
    with torch.no_grad():
        conv = Prepared(kernel, bias, stride, padding)
        for _ in range(2):
            low, full = conv(x, False), conv(x.float(), False)
            assert (low.dtype, full.dtype) == (torch.bfloat16, torch.float32)
            torch.testing.assert_close(full.double(), exact, atol=2e-5, rtol=0)
            rounded = 2**-8 if conv.tiles is not None else 2**-6
            torch.testing.assert_close(low.double(), exact, atol=rounded, rtol=rounded)
        added = conv.add_to(low.clone(memory_format=torch.channels_last), x)
        torch.testing.assert_close(added.double(), F.relu(exact + low.double()), atol=2**-5, rtol=2**-6)


def test_only_real_pictures_without_gradients_in_single_precision_are_quick(monkeypatch):
    x = normal(1, 3, 4, 4)
    assert quick(x) is None
    with torch.no_grad():
        assert quick(x) == torch.float32
        assert quick(x.double()) is None
        assert quick(x.to("meta")) is None
        cases = (True, torch.bfloat16, torch.bfloat16), (False, torch.bfloat16, None), (True, torch.float16, None)
        for able, kind, expected in cases:
            monkeypatch.setattr(module, "halves", lambda able=able: able)
            with torch.autocast("cpu", kind):
                assert quick(x) == expected


def folded(conv):
    unit = Folded(conv, ScaleBatchNorm2d(conv.weight.shape[0]), rectified=False)
    for parameter in unit.norm.parameters():
        nn.init.normal_(parameter)
    return unit


@pytest.mark.parametrize("crop", [0, 1, 2])
def test_a_folded_unit_is_prepared_scale_by_scale(crop):
    torch.manual_seed(0)
    unit, x = folded(LiftingConv2d(3, 6, 9, SCALES, 3, stride=2, padding=4)), normal(2, 3, 20, 21)
    unit(x)  # statistics
    unit.eval()
    with torch.no_grad():
        made = [conv(x, rectified=False) for (conv,) in unit.prepared(crop)]
        torch.testing.assert_close(torch.stack(made, 2), unit(x, crop), atol=2e-5, rtol=1e-5)
        assert unit.prepared(crop) is unit.prepared(crop)
        unit.conv.weight.mul_(2)
        again = [conv(x, rectified=False) for (conv,) in unit.prepared(crop)]
        torch.testing.assert_close(torch.stack(again, 2), unit(x, crop), atol=2e-5, rtol=1e-5)
        assert (again[0] - made[0]).abs().max() > 0.1


def test_training_makes_a_unit_prepare_anew():
    unit, x = folded(LiftingConv2d(3, 6, 5, SCALES, 3)), normal(2, 3, 9, 9)
    unit.eval()
    with torch.no_grad():
        before = unit.prepared()[0][0](x)
        unit.train()
        unit(x)
        unit.eval()
        after = unit.prepared()[0][0](x, rectified=False)
        torch.testing.assert_close(after, unit(x)[:, :, 0], atol=2e-5, rtol=1e-5)
        assert (after - before).abs().max() > 0.1


def test_of_a_kernel_that_reaches_two_scales_the_first_part_has_the_bias():
    torch.manual_seed(0)
    unit, x = folded(ScalePointwise2d(4, 6, 2)), normal(2, 4, 3, 5, 5)
    unit(x)
    unit.eval()
    with torch.no_grad():
        ((first, second),) = unit.prepared()
        expected = unit(x)
        made = first(x[:, :, 0], rectified=False)
        second.add_to(made, x[:, :, 1], rectified=False)
        torch.testing.assert_close(made, expected[:, :, 0], atol=2e-5, rtol=1e-5)
        torch.testing.assert_close(first(x[:, :, 2], rectified=False), expected[:, :, 2], atol=2e-5, rtol=1e-5)
