"""Explanations that need a classifier's answers alone: RISE, occlusion, LIME, Kernel SHAP; and two that ask nothing.

Each takes a subject, a number of queries and a generator, and returns the importance of each pixel (H, W), float64.
"""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.spectra import window_counts
from vergence.robustness.blackbox import Subject

CELLS, VISIBLE = 7, 0.5
"""RISE: cells along a side of a random grid, and the share of them that is visible."""
WINDOW = 0.2
"""Occlusion: side of the window, relative to the picture's shorter side."""
SEGMENTS = 50
"""LIME and SHAP: superpixels, at most; a picture of few pixels has fewer."""
WIDTH, RIDGE = 0.25, 1.0
"""LIME: width of the kernel over cosine distances, and the strength of the ridge regression; its package's defaults."""


def rise(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """RISE (Petsiuk et al., 2018): the mean probability over random soft masks, weighted by the pixel's visibility."""
    height, width = subject.size
    total = torch.zeros(height, width, dtype=torch.float64, device=subject.image.device)
    for start in range(0, queries, subject.box.batch):
        visible = rise_masks(min(subject.box.batch, queries - start), height, width, generator).to(subject.image)
        chances = subject.chances(subject.blended(visible))
        total += (chances[:, None, None] * visible).sum(0)
    return total / (queries * VISIBLE)


def rise_masks(count: int, height: int, width: int, generator: torch.Generator) -> Tensor:
    """Random grids, enlarged bilinearly and shifted by up to a cell, (count, height, width) from 0 to 1."""
    device = generator.device
    rows, columns = math.ceil(height / CELLS), math.ceil(width / CELLS)
    grids = (torch.rand(count, 1, CELLS, CELLS, generator=generator, device=device) < VISIBLE).float()
    large = F.interpolate(grids, ((CELLS + 1) * rows, (CELLS + 1) * columns), mode="bilinear", align_corners=False)
    down = torch.randint(rows, (count,), generator=generator, device=device).tolist()
    across = torch.randint(columns, (count,), generator=generator, device=device).tolist()
    places = zip(large[:, 0], down, across, strict=True)
    return torch.stack([mask[top : top + height, left : left + width] for mask, top, left in places])


def occlusion(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """Occlusion (Zeiler and Fergus, 2014): the mean loss of probability over windows that hide the pixel, on a grid as
    dense as the queries allow."""
    height, width = subject.size
    half = max(round(WINDOW * min(height, width) / 2), 1)
    across = max(math.floor(math.sqrt(queries * width / height)), 1)
    rows = _spread(height, min(max(queries // across, 1), height))
    columns = _spread(width, min(across, width))
    centres = torch.tensor(list(product(rows, columns)))
    windows = torch.cat([centres - half, centres + half], 1)
    windows = torch.minimum(windows.clamp(min=0), torch.tensor([height, width, height, width])).to(subject.image.device)
    losses = []
    for part in windows.split(subject.box.batch):
        losses.append(subject.chance - subject.chances(hidden_windows(subject, part)))
    loss = torch.cat(losses)
    return window_counts(windows, height, width, loss) / window_counts(windows, height, width).clamp(min=1)


def hidden_windows(subject: Subject, windows: Tensor) -> Tensor:
    """The picture (B, C, H, W) with a window hidden in each copy; windows are (B, 4): top, left, bottom, right."""
    images = subject.image.repeat(len(windows), 1, 1, 1)
    for image, (top, left, bottom, right) in zip(images, windows.tolist(), strict=True):
        image[:, top:bottom, left:right] = subject.colour
    return images


def _spread(length: int, count: int) -> list[int]:
    return [(2 * number + 1) * length // (2 * count) for number in range(count)]


# Superpixels ----------------------------------------------------------------------------------------------------------


def superpixels(image: Tensor, most: int = SEGMENTS) -> Tensor:
    """SLIC's segments of a picture (C, H, W), (H, W) from 0 on; cells of a grid where it merges nearly everything, as
    in noise."""
    from skimage.segmentation import slic

    pixels = image.detach().float().cpu().permute(1, 2, 0).numpy()
    count = max(min(most, pixels.shape[0] * pixels.shape[1] // 32), 2)
    labels = torch.from_numpy(slic(pixels, n_segments=count, compactness=10, start_label=0, channel_axis=-1))
    if len(labels.unique()) < max(count // 4, 2):
        cells = math.ceil(math.sqrt(count))
        down, across = (torch.arange(extent) * cells // extent for extent in labels.shape)
        labels = cells * down[:, None] + across
    return labels.unique(return_inverse=True)[1].view(labels.shape).to(image.device)


def _worth(subject: Subject, segments: Tensor, coalitions: Tensor) -> Tensor:
    """The probability of the label with the segments of each coalition (m, k) visible, (m,) float64."""
    parts = [subject.chances(subject.masked(~rows[:, segments])) for rows in coalitions.split(subject.box.batch)]
    return torch.cat(parts).cpu()


def lime(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """LIME (Ribeiro et al., 2016): a ridge regression of the probability on visible superpixels, weighted by how much
    of the picture is visible."""
    segments = superpixels(subject.image)
    count = int(segments.max()) + 1
    coalitions = torch.rand(max(queries, 2), count, generator=generator, device=generator.device) < 0.5
    coalitions[0] = True
    worth = _worth(subject, segments, coalitions.to(segments.device))
    rows = coalitions.double().cpu()
    distance = 1 - (rows.sum(1) / count).sqrt()  # cosine distance to the whole picture
    weight = (-distance.square() / WIDTH**2).exp()
    centred = rows - (weight[:, None] * rows).sum(0) / weight.sum()
    target = worth - (weight * worth).sum() / weight.sum()
    weighted = centred * weight[:, None]
    normal = centred.mT @ weighted + RIDGE * torch.eye(count, dtype=torch.float64)
    return torch.linalg.solve(normal, weighted.mT @ target).to(segments.device)[segments]


def shap(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """Kernel SHAP (Lundberg and Lee, 2017) over superpixels: Shapley values by weighted least squares."""
    segments = superpixels(subject.image)
    count = int(segments.max()) + 1
    coalitions, weight = shapley_coalitions(count, max(queries - 2, 2 * count), generator)
    ends = torch.tensor([[False], [True]]).expand(2, count)
    worth = _worth(subject, segments, torch.cat([ends, coalitions]).to(segments.device))
    return shapley_values(coalitions, weight, worth[2:], worth[0], worth[1]).to(segments.device)[segments]


def shapley_coalitions(count: int, most: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Coalitions (m, count) of players, neither none nor all of them, and their weights (m,): all of them if ``most``
    allows, else pairs of complements drawn by the Shapley kernel."""
    if 2**count - 2 <= most:
        every = torch.tensor(list(product((False, True), repeat=count)))[1:-1]
        sizes = every.sum(1).double()
        subsets = torch.tensor([math.comb(count, int(size)) for size in sizes.tolist()], dtype=torch.float64)
        return every, (count - 1) / (subsets * sizes * (count - sizes))
    sizes = torch.arange(1, count, dtype=torch.float64, device=generator.device)
    chance = 1 / (sizes * (count - sizes))
    drawn = 1 + torch.multinomial(chance, most // 2, replacement=True, generator=generator)
    order = torch.rand(most // 2, count, generator=generator, device=generator.device).argsort(1).argsort(1)
    half = (order < drawn[:, None]).cpu()
    return torch.cat([half, ~half]), torch.ones(2 * len(half), dtype=torch.float64)


def shapley_values(coalitions: Tensor, weight: Tensor, worth: Tensor, none: Tensor, every: Tensor) -> Tensor:
    """Values (k,) whose sum is ``every - none`` and that fit the worth (m,) of coalitions (m, k) best."""
    players, last = coalitions[:, :-1].double(), coalitions[:, -1:].double()
    target = worth - none - last[:, 0] * (every - none)
    scale = weight.sqrt()
    fitted = torch.linalg.lstsq((players - last) * scale[:, None], (target * scale)[:, None]).solution[:, 0]
    return torch.cat([fitted, (every - none - fitted.sum())[None]])


# Without asking -------------------------------------------------------------------------------------------------------


def random(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """Pixels in random order."""
    return torch.rand(*subject.size, generator=generator, device=generator.device).double().to(subject.image.device)


def centre(subject: Subject, queries: int, generator: torch.Generator) -> Tensor:
    """The nearer to the centre, the more important."""
    height, width = subject.size
    rows, columns = ((torch.arange(extent) + 0.5) / extent - 0.5 for extent in (height, width))
    return (-(rows[:, None].square() + columns.square())).exp().double().to(subject.image.device)
