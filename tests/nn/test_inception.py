import pytest
import torch

from vergence.core.errors import VergenceError
from vergence.nn.inception import TAPS, InceptionV3, load_imagenet
from vergence.nn.wrapped import WrapConv2d, wrap_columns


def test_the_published_size_has_its_maps_and_parameters():
    with torch.device("meta"):
        network = InceptionV3()
        assert sum(p.numel() for p in network.parameters()) == 23_834_568  # 27,161,264 with the auxiliary classifier
        assert network(torch.zeros(2, 3, 299, 299)).shape == (2, 1000)
        assert network.taps(torch.zeros(1, 3, 299, 299))[3].shape == (1, 2048, 8, 8)


def test_a_backbone_halves_exactly():
    with torch.device("meta"):
        taps = InceptionV3(0, padded=True, wraps=True, last_stride=1).taps(torch.zeros(1, 3, 64, 128))
    assert [tuple(t.shape[1:]) for t in taps] == [
        (c, 64 // s, 128 // s) for c, s in zip(TAPS, (2, 4, 8, 16), strict=True)
    ]


def test_weights_of_another_network_are_refused():
    with torch.device("meta"):
        network = InceptionV3(0)
    with pytest.raises(VergenceError, match="Conv2d_1a_3x3.conv.weight"):
        load_imagenet(network, {})


def test_columns_wrap_further_than_the_width():
    x = torch.arange(4.0).view(1, 1, 1, 4)
    assert wrap_columns(x, 6)[0, 0, 0].tolist() == [2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_wrapped_convolution_rolls_and_has_zeros_above_and_below():
    conv = WrapConv2d(2, 3, 3, dilation=2).double()
    x = torch.randn(1, 2, 6, 8, dtype=torch.float64)
    torch.testing.assert_close(conv(x.roll(3, -1)), conv(x).roll(3, -1))
    wide = torch.nn.functional.pad(x, (8, 8, 0, 0), mode="circular")
    plain = torch.nn.functional.conv2d(wide, conv.weight, conv.bias, padding=2, dilation=2)
    torch.testing.assert_close(conv(x), plain[..., 8:-8])
