"""Tiles cover a picture once, and a function of tiles is the function of the whole picture."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vergence.ops.tiles import tiled, tiles


def network(scale=1):
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(2, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, scale * scale, 5, padding=2),
        nn.PixelShuffle(scale),
    ]
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize(("height", "width", "tile"), [(37, 50, 16), (8, 90, 8), (16, 16, 16), (5, 3, 100), (33, 1, 7)])
@pytest.mark.parametrize("multiple", [1, 4])
def test_every_pixel_is_kept_once_and_seen_with_its_margin(height, width, tile, multiple):
    count = torch.zeros(height, width, dtype=torch.long)
    for kept, seen in tiles(height, width, tile, 3, multiple):
        count[kept] += 1
        for k, s, side in zip(kept, seen, (height, width), strict=True):
            assert s.start <= max(k.start - 3, 0)
            assert s.stop >= min(k.stop + 3, side)
            assert s.start % multiple == 0
            assert k.stop - k.start <= -(-tile // multiple) * multiple
    assert (count == 1).all()


@pytest.mark.parametrize("scale", [1, 2])
def test_tiles_with_the_margin_of_the_receptive_field_leave_no_seam(scale):
    model, picture = network(scale), torch.randn(2, 2, 41, 29, dtype=torch.float64)
    whole = model(picture)
    torch.testing.assert_close(tiled(model, picture, tile=10, margin=3, scale=scale), whole, rtol=0, atol=1e-12)
    assert (tiled(model, picture, tile=10, margin=2, scale=scale) - whole).abs().max() > 1e-3


def test_strides_are_kept_where_tiles_begin_at_their_multiples():
    def halved(x):
        return F.interpolate(F.avg_pool2d(x, 2), scale_factor=2)

    picture = torch.randn(1, 1, 26, 34, dtype=torch.float64)
    torch.testing.assert_close(tiled(halved, picture, tile=7, margin=1, multiple=2), halved(picture))
    assert not torch.allclose(tiled(lambda x: x - x.mean(), picture, tile=7, margin=1), picture - picture.mean())


def test_gradients_pass_through_tiles():
    model, picture = network(), torch.randn(1, 2, 12, 15, dtype=torch.float64, requires_grad=True)
    (whole,) = torch.autograd.grad(model(picture).square().sum(), picture)
    (parts,) = torch.autograd.grad(tiled(model, picture, tile=5, margin=3).square().sum(), picture)
    torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize(
    ("function", "change", "said"),
    [
        (lambda x: x[..., 1:], {}, "expected"),
        (lambda x: x, {"tile": 0}, "1 pixel or more"),
        (lambda x: x, {"x": torch.zeros(1, 1, 0, 4)}, "rows and columns"),
    ],
)
def test_what_does_not_fit_is_named(function, change, said):
    arguments = {"x": torch.zeros(1, 1, 9, 9), "tile": 4, "margin": 1} | change
    with pytest.raises(ValueError, match=said):
        tiled(function, **arguments)
