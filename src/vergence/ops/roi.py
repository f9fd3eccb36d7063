"""Features of regions: RoIAlign (He et al. 2017) and RoIPool (Girshick 2015), for all regions at once."""

from __future__ import annotations

import torch
from torch import Tensor

from vergence.ops.rows import bilinear_rows, weighted_rows


def roi_align(
    features: Tensor,
    boxes: Tensor,
    image: Tensor,
    size: int | tuple[int, int],
    scale: float = 1.0,
    samples: int = 2,
    aligned: bool = False,
) -> Tensor:
    """Regions (R, C, size) of feature maps (B, C, H, W): means of ``samples`` x ``samples`` points per bin.

    ``boxes`` (R, 4) are left, top, right, bottom in pixels of the picture, ``image`` (R,) the map of each, ``scale``
    the size of the map in relation to the picture. ``samples`` = 0 takes one point for each pixel of a bin. ``aligned``
    shifts by half a pixel, so that neighbouring regions are sampled alike. Differentiable in the features.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    if boxes.dim() != 2 or boxes.shape[1] != 4 or image.shape != boxes.shape[:1]:
        raise ValueError(f"regions are (R, 4) with an image (R,) each, got {tuple(boxes.shape)}, {tuple(image.shape)}")
    own = boxes.to(features.dtype) * scale - (0.5 if aligned else 0.0)
    start, extent = own[:, :2], own[:, 2:] - own[:, :2]
    if not aligned:
        extent = extent.clamp(min=1.0)
    channels, (height, width) = features.shape[1], features.shape[-2:]
    table = features.permute(0, 2, 3, 1).reshape(-1, channels)  # places of all maps
    parts = []
    for per_bin, some in _by_samples(extent, (rows, columns), samples):
        index, weight = _taps(start[some], extent[some], (height, width), (rows, columns), per_bin)
        first = (image[some] * (height * width)).repeat_interleave(rows * columns).unsqueeze(1)
        pooled = weighted_rows(table, index + first, weight)
        parts.append((some, pooled.reshape(-1, rows, columns, channels).permute(0, 3, 1, 2)))
    if len(parts) == 1:
        return parts[0][1]
    result = features.new_zeros(len(boxes), channels, rows, columns)
    for some, pooled in parts:
        result = result.index_copy(0, some, pooled)
    return result


def _by_samples(extent: Tensor, size: tuple[int, int], samples: int) -> list[tuple[tuple[int, int], Tensor]]:
    """Indices of regions with the same number of samples per bin, along rows and columns."""
    every = torch.arange(len(extent), device=extent.device)
    if samples or extent.device.type == "meta":
        return [((max(samples, 1),) * 2, every)] if len(every) else []
    if not len(every):
        return []
    wanted = torch.stack([(extent[:, 1] / size[0]).ceil(), (extent[:, 0] / size[1]).ceil()], 1).long()
    kinds, member = wanted.clamp(min=1).unique(dim=0, return_inverse=True)
    return [((int(y), int(x)), every[member == number]) for number, (y, x) in enumerate(kinds.tolist())]


def _taps(
    start: Tensor, extent: Tensor, map_size: tuple[int, ...], size: tuple[int, int], per_bin: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Rows of a flattened map and their weights, (R * bins, 4 * samples), whose sums are the bins of regions."""
    height, width = map_size
    (rows, columns), (down, across) = size, per_bin
    places = []
    for axis, count in ((1, rows * down), (0, columns * across)):
        share = (torch.arange(count, device=start.device, dtype=start.dtype) + 0.5) / count
        places.append(start[:, axis, None] + share * extent[:, axis, None])  # (R, count)
    shape = (len(start), rows, down, columns, across)
    y = places[0].reshape(-1, rows, down, 1, 1).expand(shape)
    x = places[1].reshape(-1, 1, 1, columns, across).expand(shape)
    y, x = (place.permute(0, 1, 3, 2, 4).reshape(-1) for place in (y, x))
    index, weight = bilinear_rows(y, x, height, width, border=True)
    # Points up to a pixel outside take the value at the border, others are zero.
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    weight = weight * inside.unsqueeze(1) / (down * across)
    return index.reshape(-1, 4 * down * across), weight.reshape(-1, 4 * down * across)


def roi_pool(features: Tensor, boxes: Tensor, image: Tensor, size: int | tuple[int, int], scale: float = 1.0) -> Tensor:
    """Regions (R, C, size) of feature maps (B, C, H, W): the largest value of every bin; zero for an empty one.

    Arguments are those of :func:`roi_align`. Maxima come from tables of the largest value of every window whose sides
    are powers of two, so a bin costs four look-ups whatever its size. Differentiable in the features.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    height, width = features.shape[-2:]
    corners = (boxes * scale).round().long()
    tall = (corners[:, 3] - corners[:, 1] + 1).clamp(min=1)
    wide = (corners[:, 2] - corners[:, 0] + 1).clamp(min=1)
    top, bottom = _bins(corners[:, 1], tall, rows, height)  # (R, rows)
    left, right = _bins(corners[:, 0], wide, columns, width)
    empty = (bottom <= top).unsqueeze(2) | (right <= left).unsqueeze(1)
    places = _largest(features.detach(), image, (top, bottom), (left, right))  # (R, C, rows, columns)
    channel = torch.arange(features.shape[1], device=features.device)
    plane = (image.unsqueeze(1) * features.shape[1] + channel) * height * width  # (R, C)
    values = features.reshape(-1)[plane[:, :, None, None] + places]
    return values.masked_fill(empty.unsqueeze(1), 0.0)


def _bins(first: Tensor, length: Tensor, count: int, limit: int) -> tuple[Tensor, Tensor]:
    """First pixels and ends of bins, (R, count), cut to the map."""
    number = torch.arange(count, device=first.device)
    low = torch.div(number * length.unsqueeze(1), count, rounding_mode="floor")
    high = -torch.div(-(number + 1) * length.unsqueeze(1), count, rounding_mode="floor")
    return (low + first.unsqueeze(1)).clamp(0, limit), (high + first.unsqueeze(1)).clamp(0, limit)


def _largest(features: Tensor, image: Tensor, rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor]) -> Tensor:
    """Flat places (R, C, rows, columns) of the largest value of each window."""
    _, channels, height, width = features.shape
    (top, bottom), (left, right) = rows, columns
    levels = [_level(bottom - top), _level(right - left)]  # powers of two that two windows cover
    own = torch.arange(height * width, device=features.device).reshape(1, 1, height, width).expand(features.shape)
    place = torch.zeros(len(top), channels, top.shape[1], left.shape[1], dtype=torch.long, device=features.device)
    by_rows = (features, own)
    for high in range(int(levels[0].max()) + 1 if len(top) else 0):
        table = by_rows
        for wide in range(int(levels[1].max()) + 1):
            chosen = (levels[0] == high).unsqueeze(2) & (levels[1] == wide).unsqueeze(1)
            region, r, c = chosen.nonzero(as_tuple=True)
            if len(region):
                ends = [(y, x) for y in (top[region, r], bottom[region, r] - (1 << high))
                        for x in (left[region, c], right[region, c] - (1 << wide))]  # fmt: skip
                best = None
                for y, x in ends:
                    y, x = y.clamp(0, table[0].shape[2] - 1), x.clamp(0, table[0].shape[3] - 1)
                    found = (table[0][image[region], :, y, x], table[1][image[region], :, y, x])
                    best = found if best is None else _better(best, found)
                assert best is not None
                place[region, :, r, c] = best[1]
            table = _doubled(table, 3, 1 << wide)
        by_rows = _doubled(by_rows, 2, 1 << high)
    return place


def _level(length: Tensor) -> Tensor:
    return length.clamp(min=1).float().log2().floor().long()


def _better(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] <= b[1]))  # of equal ones, the first in the map
    return torch.where(first, a[0], b[0]), torch.where(first, a[1], b[1])


def _doubled(table: tuple[Tensor, Tensor], axis: int, step: int) -> tuple[Tensor, Tensor]:
    """The table of windows twice as long along an axis."""
    length = table[0].shape[axis]
    if length <= step:
        return table
    near = tuple(part.narrow(axis, 0, length - step) for part in table)
    far = tuple(part.narrow(axis, step, length - step) for part in table)
    return _better((near[0], near[1]), (far[0], far[1]))
