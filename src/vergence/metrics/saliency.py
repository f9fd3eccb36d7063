"""Maps of saliency against masks: MAE, F, S, E and boundary F, for batches.

Maps are (B, H, W) from 0 to 1, masks (B, H, W) of booleans, and results (B,) in float64. Everything that is taken over
all thresholds follows from two histograms of a map, one inside and one outside the mask.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

BETA = 0.3
"""β² of the F measure: precision counts more than recall."""
LEVELS = 256
"""Thresholds of curves: a map is cut at every value of a byte."""
ALPHA = 0.5
"""Share of the object term in the S measure."""
EPS = torch.finfo(torch.float64).eps


def stretched(maps: Tensor) -> Tensor:
    """Maps stretched to the range from 0 to 1, each by itself; constant ones stay."""
    low, high = (edge(maps.flatten(1), 1).view(-1, 1, 1) for edge in (torch.amin, torch.amax))
    return torch.where(high > low, (maps - low) / (high - low).clamp_min(torch.finfo(maps.dtype).tiny), maps)


def mae(maps: Tensor, masks: Tensor) -> Tensor:
    """The mean absolute error."""
    return (maps.double() - masks.double()).abs().flatten(1).mean(1)


def adaptive(maps: Tensor) -> Tensor:
    """Maps cut at twice their mean, but at most at 1: booleans (B, H, W)."""
    return maps >= (2 * maps.double().flatten(1).mean(1)).clamp(max=1).to(maps).view(-1, 1, 1)


def f_measure(precision: Tensor, recall: Tensor) -> Tensor:
    """The weighted harmonic mean; 0 where both are 0."""
    below = BETA * precision + recall
    return torch.where(below > 0, (1 + BETA) * precision * recall / below.clamp_min(EPS), 0)


def _counted(cut: Tensor, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pixels of the cut map inside the mask, of the cut map, and of the mask."""
    hits = (cut & masks).flatten(1).sum(1, dtype=torch.float64)
    found, true = (some.flatten(1).sum(1, dtype=torch.float64) for some in (cut, masks))
    return hits, found, true


def _f_of(hits: Tensor, found: Tensor, true: Tensor) -> Tensor:
    """F from counts; an empty mask is met by an empty map alone."""
    f = f_measure(hits / found.clamp_min(1), hits / true.clamp_min(1))
    return torch.where((true == 0) & (found == 0), 1.0, f)


def adaptive_f(maps: Tensor, masks: Tensor) -> Tensor:
    """F at twice the mean of each map."""
    return _f_of(*_counted(adaptive(maps), masks.bool()))


def _curve_counts(maps: Tensor, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For the thresholds 0, 1/255, ..., 1, (B, 256): hits and pixels found; and the pixels of the masks, (B, 1)."""
    levels = (maps.clamp(0, 1).double() * (LEVELS - 1) + 1e-6).floor().long()  # a byte over 255 is its own level
    rows = torch.arange(len(maps), device=maps.device).view(-1, 1, 1)
    index = (rows * 2 + masks.long()) * LEVELS + levels
    counts = index.flatten().bincount(minlength=len(maps) * 2 * LEVELS).view(-1, 2, LEVELS).double()
    outside, inside = counts.flip(2).cumsum(2).flip(2).unbind(1)
    return inside, inside + outside, inside[:, :1]


def f_curve(maps: Tensor, masks: Tensor) -> Tensor:
    """F at each of 256 thresholds, (B, 256)."""
    return _f_of(*_curve_counts(maps, masks.bool()))


def max_f(maps: Tensor, masks: Tensor) -> Tensor:
    """The largest F over all thresholds, each map by itself."""
    return f_curve(maps, masks).amax(1)


def mean_f(maps: Tensor, masks: Tensor) -> Tensor:
    """The mean F over all thresholds."""
    return f_curve(maps, masks).mean(1)


# Structure ------------------------------------------------------------------------------------------------------------


def s_measure(maps: Tensor, masks: Tensor, alpha: float = ALPHA) -> Tensor:
    """The structure measure (Fan et al., ICCV 2017): the mean of how alike object and background are and of how alike
    the four regions around the mask's centre are. Everything follows from a few sums over those regions."""
    truth = masks.double()
    mean = maps.double().flatten(1).mean(1)
    own = maps.double() - mean.view(-1, 1, 1)  # centred, so that variances from sums lose no digits
    share = truth.flatten(1).mean(1)
    parts, counts = _quarters(truth)
    squares, inside = own * own, own * truth
    sums = torch.stack([_summed(t, parts) for t in (own, squares, truth, inside)])  # (4, B, 2, 2)
    regions = (counts / truth[0].numel() * _similar(sums, counts, mean)).sum((1, 2))
    totals = [*sums.sum((2, 3)), (squares * truth).flatten(1).sum(1)]
    score = (alpha * _objects(totals, mean, truth[0].numel()) + (1 - alpha) * regions).clamp_min(0)
    return torch.where(share == 0, 1 - mean, torch.where(share == 1, mean, score))


def _objects(totals: list[Tensor], mean: Tensor, pixels: int) -> Tensor:
    """How alike object and background are to a map of one, weighted by their shares."""
    own, squares, count, inside, inside_squares = totals
    score = torch.zeros_like(mean)
    for some, total, square, level, sign in (
        (count, inside, inside_squares, mean, 1), (pixels - count, own - inside, squares - inside_squares, 1 - mean, -1)
    ):  # fmt: skip
        shift = total / some.clamp_min(1)
        variance = (square - some * shift * shift) / (some - 1).clamp_min(1)
        deviation = torch.where(variance > 1e-15, variance, 0).sqrt()  # less is what sums leave of a constant
        m = level + sign * shift
        score = score + some / pixels * 2 * m / (m * m + 1 + deviation + EPS)
    return score


def _quarters(truth: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Rows (B, 2, H) above and below the centre of each mask, columns (B, W, 2) left and right of it, and the pixels of
    the four regions (B, 2, 2)."""
    _, height, width = truth.shape
    area = truth.flatten(1).sum(1).clamp_min(1)
    y, x = (torch.arange(side, dtype=torch.float64, device=truth.device) for side in (height, width))
    row = ((truth.sum(2) @ y) / area).round() + 1
    column = ((truth.sum(1) @ x) / area).round() + 1
    above, left = (y < row.unsqueeze(1)).double(), (x < column.unsqueeze(1)).double()
    rows, columns = torch.stack([above, 1 - above], 1), torch.stack([left, 1 - left], 2)
    return (rows, columns), rows.sum(2).unsqueeze(2) * columns.sum(1).unsqueeze(1)


def _summed(values: Tensor, parts: tuple[Tensor, Tensor]) -> Tensor:
    return parts[0] @ (values @ parts[1])


def _similar(sums: Tensor, count: Tensor, mean: Tensor) -> Tensor:
    """Structural similarity (B, 2, 2) from sums (4, B, 2, 2) of centred map, its squares, mask and their product."""
    own, squares, true, inside = sums
    some, fewer = count.clamp_min(1), (count - 1).clamp_min(1)
    x, y = own / some, true / some
    var_x, var_y = (squares - some * x * x).clamp_min(0) / fewer, (true - some * y * y).clamp_min(0) / fewer
    both = (inside - some * x * y) / fewer
    x = x + mean.view(-1, 1, 1)
    tiny = 1e-13  # what sums leave where a region is constant
    var_x, var_y, both = (torch.where(t.abs() < tiny, 0, t) for t in (var_x, var_y, both))
    above, below = 4 * x * y * both, (x * x + y * y) * (var_x + var_y)
    empty = (below == 0) & (above == 0)
    return torch.where(count == 0, 0, torch.where(empty, 1.0, above / (below + EPS)))


# Alignment ------------------------------------------------------------------------------------------------------------


def adaptive_e(maps: Tensor, masks: Tensor) -> Tensor:
    """The enhanced alignment measure (Fan et al., IJCAI 2018) of each map cut at twice its mean: the mean over pixels
    of (ξ + 1)² / 4. (The authors' code divides by the number of pixels less one.)"""
    return _e_of(*_counted(adaptive(maps), masks.bool()), masks[0].numel())


def e_curve(maps: Tensor, masks: Tensor) -> Tensor:
    """The same at each of 256 thresholds, (B, 256)."""
    return _e_of(*_curve_counts(maps, masks.bool()), masks[0].numel())


def _e_of(hits: Tensor, found: Tensor, true: Tensor, pixels: int) -> Tensor:
    """Cut map and mask have two values each, so there are four kinds of pixels, which are counted."""
    map_mean, mask_mean = found / pixels, true / pixels
    total = torch.zeros_like(hits + found)
    kinds = ((1, 1, hits), (1, 0, found - hits), (0, 1, true - hits), (0, 0, pixels - found - true + hits))
    for in_map, in_mask, count in kinds:
        a, b = in_map - map_mean, in_mask - mask_mean
        total = total + count * (2 * a * b / (a * a + b * b + EPS) + 1) ** 2 / 4
    whole = torch.where(true == pixels, map_mean, total / pixels)
    return torch.where(true == 0, 1 - map_mean, whole)


# Boundaries -----------------------------------------------------------------------------------------------------------


def boundaries(masks: Tensor) -> Tensor:
    """Pixels of masks (B, H, W) with a neighbour outside, to the left, right, above or below; beyond the picture the
    mask goes on."""
    inside = F.pad(masks.float().unsqueeze(1), (1, 1, 1, 1), mode="replicate")[:, 0]
    least = torch.stack([inside[:, 1:-1, :-2], inside[:, 1:-1, 2:], inside[:, :-2, 1:-1], inside[:, 2:, 1:-1]])
    return masks.bool() & (least.amin(0) < 0.5)


def boundary_f(maps: Tensor, masks: Tensor, reach: int | None = None) -> Tensor:
    """F (β = 1) of the boundaries of maps cut at twice their mean: a boundary pixel is right if the other boundary is
    within ``reach`` pixels; by default 0.8 % of the diagonal, as for DAVIS, but at least 1."""
    ours, theirs = boundaries(adaptive(maps)), boundaries(masks)
    if reach is None:
        reach = max(round(0.008 * (maps.shape[1] ** 2 + maps.shape[2] ** 2) ** 0.5), 1)
    near_ours, near_theirs = widened(ours, reach), widened(theirs, reach)
    count = [edge.flatten(1).sum(1, dtype=torch.float64) for edge in (ours, theirs)]
    precision = (ours & near_theirs).flatten(1).sum(1) / count[0].clamp_min(1)
    recall = (theirs & near_ours).flatten(1).sum(1) / count[1].clamp_min(1)
    f = torch.where(precision + recall > 0, 2 * precision * recall / (precision + recall).clamp_min(EPS), 0)
    return torch.where((count[0] == 0) & (count[1] == 0), 1.0, f)


def widened(masks: Tensor, reach: int) -> Tensor:
    """Masks (B, H, W) with all pixels within ``reach`` of them, by a disc: rows are widened as far as it reaches at
    each distance from its centre, from the farthest to the nearest."""
    masks = masks.bool()
    _, height, width = masks.shape
    row, out, half = masks.clone(), torch.zeros_like(masks), 0
    for down in range(reach, -1, -1):
        while half < min(int((reach * reach - down * down) ** 0.5), width - 1):
            half += 1
            row[..., half:] |= masks[..., :-half]
            row[..., :-half] |= masks[..., half:]
        if down < height:
            out[:, down:] |= row[:, : height - down]
            out[:, : height - down] |= row[:, down:]
    return out
