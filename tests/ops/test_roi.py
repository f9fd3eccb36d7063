"""Regions and deformed taps are those of their definitions, forward and backward."""

import math

import pytest
import torch
import torch.nn.functional as F

from vergence.ops.deform import deformable_convolution
from vergence.ops.roi import roi_align, roi_pool


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


BOXES = torch.tensor(
    [[2.0, 3.0, 14.0, 11.0], [-5.0, -4.0, 6.5, 7.25], [0.0, 0.0, 31.0, 23.0], [10.2, 9.7, 10.9, 10.1],
     [25.0, 18.0, 60.0, 40.0]],
    dtype=torch.float64,
)  # fmt: skip
IMAGE = torch.tensor([0, 1, 1, 0, 0])


def bilinear(plane, y, x):
    """The value of a plane (H, W) at a point, as RoIAlign reads it."""
    height, width = plane.shape
    if y < -1 or y > height or x < -1 or x > width:
        return plane.sum() * 0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    a, b = y - top, x - left
    return (
        plane[top, left] * (1 - a) * (1 - b) + plane[top, right] * (1 - a) * b
        + plane[bottom, left] * a * (1 - b) + plane[bottom, right] * a * b
    )  # fmt: skip


def plain_align(features, boxes, image, size, scale, samples, aligned):
    rows = []
    for box, number in zip(boxes.tolist(), image.tolist(), strict=True):
        shift = 0.5 if aligned else 0.0
        left, top, right, bottom = (v * scale - shift for v in box)
        width, height = right - left, bottom - top
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        ny = samples or max(math.ceil(height / size), 1)
        nx = samples or max(math.ceil(width / size), 1)
        for channel in features[number]:
            for i in range(size):
                for j in range(size):
                    values = [
                        bilinear(
                            channel,
                            top + height / size * (i + (a + 0.5) / ny),
                            left + width / size * (j + (b + 0.5) / nx),
                        )
                        for a in range(ny)
                        for b in range(nx)
                    ]
                    rows.append(sum(values) / len(values))
    return torch.stack(rows).reshape(len(boxes), features.shape[1], size, size)


@pytest.mark.parametrize(
    ("samples", "aligned", "scale"), [(2, False, 0.5), (2, True, 0.5), (0, True, 0.25), (1, False, 1.0)]
)
def test_aligned_regions_are_means_of_interpolated_points(samples, aligned, scale):
    features = noise(2, 3, 12, 16).requires_grad_()
    ours = roi_align(features, BOXES, IMAGE, 3, scale, samples, aligned)
    theirs = plain_align(features, BOXES, IMAGE, 3, scale, samples, aligned)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    direction = noise(*ours.shape, seed=1)
    (a,), (b,) = (torch.autograd.grad(side, features, direction, retain_graph=True) for side in (ours, theirs))
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_a_region_of_a_linear_map_is_linear_and_of_a_constant_one_constant():
    y, x = torch.meshgrid(torch.arange(20.0), torch.arange(30.0), indexing="ij")
    region = roi_align((2 * x + 3 * y)[None, None], torch.tensor([[4.0, 6.0, 16.0, 14.0]]), torch.tensor([0]), (4, 6))
    rows = 6 + 8 * (torch.arange(4) + 0.5) / 4
    columns = 4 + 12 * (torch.arange(6) + 0.5) / 6
    torch.testing.assert_close(region[0, 0], 2 * columns + 3 * rows[:, None])


def plain_pool(features, boxes, image, size, scale):
    rows = []
    for box, number in zip(boxes.tolist(), image.tolist(), strict=True):
        left, top, right, bottom = (round(v * scale) for v in box)
        width, height = max(right - left + 1, 1), max(bottom - top + 1, 1)
        for channel in features[number]:
            for i in range(size):
                for j in range(size):
                    y0, y1 = top + i * height // size, top - (-(i + 1) * height // size)
                    x0, x1 = left + j * width // size, left - (-(j + 1) * width // size)
                    y0, y1 = (min(max(v, 0), channel.shape[0]) for v in (y0, y1))
                    x0, x1 = (min(max(v, 0), channel.shape[1]) for v in (x0, x1))
                    part = channel[y0:y1, x0:x1]
                    rows.append(part.max() if part.numel() else channel.sum() * 0)
    return torch.stack(rows).reshape(len(boxes), features.shape[1], size, size)


@pytest.mark.parametrize(("size", "scale"), [(3, 0.5), (2, 1.0), (7, 0.25)])
def test_pooled_regions_are_maxima_of_their_bins(size, scale):
    features = noise(2, 3, 24, 33).requires_grad_()
    ours, theirs = roi_pool(features, BOXES, IMAGE, size, scale), plain_pool(features, BOXES, IMAGE, size, scale)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    direction = noise(*ours.shape, seed=1)
    (a,), (b,) = (torch.autograd.grad(side, features, direction, retain_graph=True) for side in (ours, theirs))
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_no_regions_give_no_features():
    empty = torch.zeros(0, 4, dtype=torch.float64)
    for pool in (roi_align, roi_pool):
        assert pool(noise(1, 3, 8, 8), empty, torch.zeros(0, dtype=torch.long), 2).shape == (0, 3, 2, 2)


def test_wrong_regions_are_refused():
    with pytest.raises(ValueError, match="regions are"):
        roi_align(noise(1, 1, 4, 4), torch.zeros(2, 5), torch.zeros(2), 2)


def at(plane, y, x):
    """Bilinear value of a plane (H, W) that is zero outside."""
    top, left = math.floor(float(y.detach())), math.floor(float(x.detach()))
    total = plane.sum() * 0
    for i in (top, top + 1):
        for j in (left, left + 1):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                total = total + plane[i, j] * (1 - abs(y - i)) * (1 - abs(x - j))
    return total


def plain_deform(x, offset, weight, bias, stride, padding, dilation, mask):
    batch, channels = x.shape[:2]
    outer, inner, k, _ = weight.shape
    sets = offset.shape[1] // (2 * k * k)
    rows, columns = offset.shape[-2:]
    result = torch.zeros(batch, outer, rows, columns, dtype=x.dtype)
    for b in range(batch):
        for o in range(outer):
            group = o // (outer // (channels // inner))
            for i in range(rows):
                for j in range(columns):
                    total = bias[o]
                    for c in range(inner):
                        channel = group * inner + c
                        part = channel // (channels // sets)
                        for tap in range(k * k):
                            at_ = (part * k * k + tap) * 2
                            y = i * stride - padding + tap // k * dilation + offset[b, at_, i, j]
                            z = j * stride - padding + tap % k * dilation + offset[b, at_ + 1, i, j]
                            value = at(x[b, channel], y, z) * mask[b, part * k * k + tap, i, j]
                            total = total + weight[o, c, tap // k, tap % k] * value
                    result[b, o, i, j] = total
    return result


@pytest.mark.parametrize(("stride", "padding", "dilation", "sets"), [(1, 1, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1)])
def test_a_deformable_convolution_is_its_definition(stride, padding, dilation, sets):
    x, weight, bias = noise(1, 2, 5, 6), noise(2, 2, 3, 3, seed=1), noise(2, seed=2)
    rows = (5 + 2 * padding - dilation * 2 - 1) // stride + 1
    columns = (6 + 2 * padding - dilation * 2 - 1) // stride + 1
    offset = 1.3 * noise(1, 18 * sets, rows, columns, seed=3)
    mask = torch.rand(1, 9 * sets, rows, columns, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    leaves = [t.requires_grad_() for t in (x, offset, weight, bias, mask)]
    ours = deformable_convolution(x, offset, weight, bias, stride, padding, dilation, mask)
    theirs = plain_deform(x, offset, weight, bias, stride, padding, dilation, mask)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    direction = noise(*ours.shape, seed=5)
    pairs = zip(
        torch.autograd.grad(ours, leaves, direction), torch.autograd.grad(theirs, leaves, direction), strict=True
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("groups", [1, 2])
def test_with_zero_offsets_it_is_the_plain_convolution(groups):
    x, weight = noise(2, 4, 7, 1), noise(6, 4 // groups, 3, 3, seed=1)
    ours = deformable_convolution(x, torch.zeros(2, 18, 7, 1, dtype=torch.float64), weight, padding=1)
    torch.testing.assert_close(ours, F.conv2d(x, weight, padding=1, groups=groups), rtol=0, atol=1e-12)


def test_offsets_of_another_size_are_refused():
    with pytest.raises(ValueError, match="offsets of a map of 5 x 5"):
        deformable_convolution(noise(1, 2, 5, 5), noise(1, 18, 4, 5), noise(2, 2, 3, 3), padding=1)
