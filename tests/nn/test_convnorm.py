"""Convolution, norm and ReLU as one layer: the same as one after the other, in every mode and type."""

import pytest
import torch
import torch.nn.functional as F

from vergence.contract.evidence import filled
from vergence.nn.convnorm import ConvNorm, GreyConvNorm, enlarged


def plainly(layer, x):
    out = layer.norm(layer.conv(x))
    return F.relu(out) if layer.rectified else out


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("size", "stride", "bias", "rectified"), [(3, 1, True, True), (3, 2, False, False), (1, 1, True, True)]
)
def test_it_is_convolution_norm_and_relu(training, size, stride, bias, rectified):
    layer = filled(ConvNorm(4, 5, size, stride, bias, rectified)).train(training)
    x = torch.randn(2, 4, 9, 7, dtype=torch.float64)
    torch.testing.assert_close(layer(x), plainly(layer, x))


@pytest.mark.parametrize("band", [10_000, 2_500_000])
def test_wide_layers_in_float32_are_those_of_float64(band, monkeypatch):
    monkeypatch.setattr("vergence.nn.convnorm.BAND", band)
    layer = filled(ConvNorm(64, 72, bias=True))
    x = torch.randn(2, 64, 21, 13, dtype=torch.float64)
    with torch.no_grad():
        exact = plainly(layer, x)
        fast = layer.float()(x.float())
    torch.testing.assert_close(fast.double(), exact, rtol=1e-4, atol=1e-4)


def test_kernels_follow_the_weights_and_the_statistics():
    layer, x = filled(ConvNorm(3, 4)).float(), torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        before = layer(x)
        layer.train()(x)  # changes the statistics
        after = layer.eval()(x)
        assert not torch.equal(before, after)
        torch.testing.assert_close(after, plainly(layer, x))
        layer.conv.weight.mul_(2)
        torch.testing.assert_close(layer(x), plainly(layer, x))


def test_one_channel_stands_for_three():
    layer, x = filled(GreyConvNorm(5)), torch.rand(2, 1, 6, 6, dtype=torch.float64)
    for training in (False, True):
        layer.train(training)
        torch.testing.assert_close(layer(x), plainly(layer, x.repeat(1, 3, 1, 1)))


def test_enlarging_keeps_the_corners():
    x = torch.rand(1, 2, 3, 4)
    out = enlarged(x, 2)
    assert out.shape == (1, 2, 6, 8)
    assert torch.equal(out[..., [0, -1], :][..., [0, -1]], x[..., [0, -1], :][..., [0, -1]])
