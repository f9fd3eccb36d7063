"""The layer has the parameters, invariances and gradients of the published one."""

import torch

from vergence.nn import SetConv
from vergence.ops import nearest


def case(count=40):
    source = torch.Generator().manual_seed(0)
    points = torch.randn(2, count, 3, generator=source, dtype=torch.float64)
    return points, torch.randn(2, count, 5, generator=source, dtype=torch.float64), nearest(points, 6)


def test_parameters_have_the_published_number():
    counts = [sum(p.numel() for p in SetConv(*ends).parameters()) for ends in ((3, 32), (32, 64), (64, 128))]
    assert counts == [2432, 10816, 42112]


def test_moving_the_cloud_or_the_signal_changes_nothing():
    points, features, near = case()
    conv = SetConv(5, 8).double()
    out, shift = conv(features, points, near), torch.arange(5).double()
    assert (conv.layers[0].weight[:, :5] @ shift).abs().max() > 0.1  # the first product does see it
    torch.testing.assert_close(conv(features + shift, points + 30, near), out)


def test_half_precision_is_asked_for_in_vain():
    points, features, near = case()
    conv = SetConv(5, 8)
    plain = conv(features.float(), points.float(), near)
    with torch.autocast("cpu", torch.bfloat16):
        assert (conv(features.float(), points.float(), near) == plain).all()
    low = conv.bfloat16()(features.bfloat16(), points.bfloat16(), near)
    assert low.dtype == torch.bfloat16
    assert low.isfinite().all()
