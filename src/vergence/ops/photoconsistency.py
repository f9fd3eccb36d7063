"""Patches aligned between pictures by Gauss-Newton, thousands at a time.

A patch is a grid of points q in the square from -1 to 1. An affine map (2, 3) takes (q, 1) to pixels of a picture; the
template is what the first picture shows there. :func:`align` changes the parameters of a family of maps
(:mod:`vergence.ops.warps`) until other pictures show the same (Raposo and Barreto, ECCV 2020, Eq. 14 to 17).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.warps import Family

# Pictures -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pictures:
    """Grey pictures of any sizes, each with copies of half the size, a quarter, ..., in one table of pixels."""

    pixels: Tensor
    start: Tensor
    """(pictures, levels): where each copy begins in the table."""
    height: Tensor
    width: Tensor

    @classmethod
    def of(cls, pictures: Sequence[Tensor], levels: int = 5, blur: float = 1.0) -> Pictures:
        """From grey pictures (H, W), smoothed by a Gaussian with a deviation of ``blur`` pixels. Copies end before a
        side is shorter than 8 pixels."""
        shortest = min(min(picture.shape) for picture in pictures)
        if shortest < 2:
            raise ValueError(f"pictures have at least 2 x 2 pixels, got one with {shortest} along a side")
        levels = max(min(levels, int(math.log2(max(shortest, 8))) - 2), 1)
        parts, starts, heights, widths, total = [], [], [], [], 0
        for picture in pictures:
            level = _blurred(picture, blur)
            for number in range(levels):
                if number:
                    level = F.avg_pool2d(level[None, None], 2)[0, 0]
                height, width = level.shape
                parts.append(level.reshape(-1))
                starts.append(total)
                heights.append(height)
                widths.append(width)
                total += height * width
        shape, device = (len(pictures), levels), pictures[0].device
        tables = (torch.tensor(v, device=device).reshape(shape) for v in (starts, heights, widths))
        return cls(torch.cat(parts), *tables)

    @property
    def levels(self) -> int:
        return self.start.shape[1]

    def sample(self, picture: Tensor, level: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Values (..., n) of pictures (...,) at levels (...,) between pixels, and their derivatives by x and by y:
        those of the interpolation itself. Places (..., n) are finite, in pixels of the full size; beyond the border
        the nearest pixel counts."""
        start, height, width = (table[picture, level].unsqueeze(-1) for table in (self.start, self.height, self.width))
        scale = torch.pow(2.0, -level.to(x.dtype)).unsqueeze(-1)
        shift = 0.5 * scale - 0.5
        x = torch.addcmul(shift, x, scale).clamp(torch.zeros_like(scale), width - 1.001)
        y = torch.addcmul(shift, y, scale).clamp(torch.zeros_like(scale), height - 1.001)
        left, top = x.long(), y.long()
        right, down = x - left, y - top
        at = torch.addcmul(start, top, width).add_(left)
        a, b, c, d = (
            self.pixels.index_select(0, (at + offset).reshape(-1)).view_as(x)
            for offset in (0, 1, width.clone(), width + 1)
        )
        upper = b.sub_(a)
        by_x = torch.addcmul(upper, down, d.sub_(c) - upper)
        a = a.addcmul_(right, upper)
        by_y = c.addcmul_(right, d).sub_(a)
        return torch.addcmul(a, down, by_y), by_x.mul_(scale), by_y.mul_(scale)


def _blurred(picture: Tensor, sigma: float) -> Tensor:
    if sigma <= 0:
        return picture
    reach = max(math.ceil(3 * sigma), 1)
    taps = torch.arange(-reach, reach + 1, dtype=picture.dtype, device=picture.device)
    weights = torch.exp(-taps.square() / (2 * sigma**2))
    weights = (weights / weights.sum()).view(1, 1, -1, 1)
    padded = F.pad(picture[None, None], (reach,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, weights), weights.mT)[0, 0]


def grid(side: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """(3, side²): points (q, 1) of a patch."""
    line = torch.linspace(-1, 1, side, dtype=dtype)
    y, x = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([x.reshape(-1), y.reshape(-1), torch.ones(side * side, dtype=dtype)])


# Gauss-Newton ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alignment:
    """How patches are aligned."""

    side: int = 21
    """Points along a patch."""
    steps: int = 40
    """The most steps at each level."""
    tolerance: float = 5e-3
    """Pixels: a patch is finished when no point of it moves by more."""
    coarse: int = 1
    """Begin with pictures reduced by 2 to this power."""
    gain: bool = True
    """Compare patches of mean 0 and norm 1, so that brightness and contrast do not matter."""


@dataclass(frozen=True)
class Aligned:
    """Parameters of aligned patches."""

    p: Tensor
    """(B, P)."""
    error: Tensor
    """(B, V), mean squared difference from the template; with ``gain``, 2 - 2 times the correlation."""
    inside: Tensor
    """(B, V), whether the whole patch is inside the picture."""
    converged: Tensor
    """(B,)."""
    steps: Tensor
    """(B,), steps taken at all levels."""


AT_ONCE = 1 << 16
"""Samples that are handled at once, so that they stay in the cache."""


def align(
    pictures: Pictures,
    first: Tensor,
    template: Tensor,
    others: Tensor,
    family: Family,
    p: Tensor,
    settings: Alignment = Alignment(),
    weight: Tensor | None = None,
) -> Aligned:
    """Align patches of pictures ``first`` (B,), which maps ``template`` (B, 2, 3) take there, with pictures ``others``
    (B, V), from parameters ``p`` (B, P) of a family of maps to their pixels. ``weight`` (B, V) is 0 for views that do
    not count.

    Steps are those of Gauss-Newton with the analytic derivatives of warp and interpolation. One that raises the sum
    of squares is taken back and damped (Levenberg-Marquardt). Not differentiable.
    """
    with torch.no_grad():
        weight = torch.ones(others.shape, dtype=p.dtype, device=p.device) if weight is None else weight.to(p)
        maps = family.at(p)[0]
        own, theirs = (_level(M, settings.side) for M in (template, maps))
        none = torch.zeros(len(p), dtype=torch.long, device=p.device)
        result = Aligned(p, torch.zeros_like(weight), weight > 0, none.bool(), none)
        for coarser in range(settings.coarse, -1, -1):
            levels = [(level + coarser).clamp(max=pictures.levels - 1) for level in (own, theirs)]
            stage = _Stage(pictures, first, template, others, weight, levels[0], levels[1], settings)
            result = stage.minimise(family, result.p, settings.tolerance * 10 ** (coarser > 0), result.steps)
    return result


def _level(maps: Tensor, side: int) -> Tensor:
    """The copies (...,) of pictures whose pixels are about as far apart as the points of a patch."""
    step = 2 / (side - 1) * torch.linalg.det(maps[..., :2]).abs().nan_to_num(1, 1, 1).sqrt()
    return step.clamp(1, 2**16).log2().round().long()


class _Stage:
    """Patches at one size of the pictures."""

    def __init__(
        self,
        pictures: Pictures,
        first: Tensor,
        template: Tensor,
        others: Tensor,
        weight: Tensor,
        own: Tensor,
        theirs: Tensor,
        settings: Alignment,
    ) -> None:
        self.pictures, self.others, self.weight, self.level, self.gain = pictures, others, weight, theirs, settings.gain
        self.steps, self.points = settings.steps, grid(settings.side, template.dtype).to(template.device)
        self.corners = grid(2, template.dtype).to(template.device)
        self.chunk = max(AT_ONCE // (settings.side**2 * max(others.shape[1], 1)), 1)
        values = []
        for rows in torch.arange(len(template), device=template.device).split(self.chunk):
            places = template[rows].nan_to_num(0, 0, 0) @ self.points
            values.append(pictures.sample(first[rows], own[rows], places[:, 0], places[:, 1])[0])
        value = torch.cat(values) if values else template.new_zeros(0, self.points.shape[1])
        self.template = _normalised(value)[0] if settings.gain else value

    def evaluate(self, family: Family, p: Tensor, rows: Tensor) -> _Equations:
        """The sums of squares and the normal equations of patches ``rows`` (b,) with parameters (b, P)."""
        parts = [
            self._evaluate(family.rows(some), p[chunk], some)
            for chunk, some in zip(
                torch.arange(len(rows), device=rows.device).split(self.chunk), rows.split(self.chunk), strict=True
            )
        ]
        return _Equations(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _evaluate(self, family: Family, p: Tensor, rows: Tensor) -> _Equations:
        maps, derivatives = family.at(p)
        broken = ~maps.isfinite().all(-1).all(-1)  # (b, V)
        maps = maps.masked_fill(broken[..., None, None], 0)
        places = maps @ self.points
        value, by_x, by_y = self.pictures.sample(
            self.others[rows], self.level[rows], places[..., 0, :], places[..., 1, :]
        )
        moved = derivatives @ self.points  # (b, V, P, 2, n)
        J = torch.addcmul(by_x.unsqueeze(2) * moved[..., 0, :], by_y.unsqueeze(2), moved[..., 1, :])
        gap = self.template[rows].unsqueeze(1)
        if self.gain:
            value, norm = _normalised(value)
            J = J.sub_(J.mean(-1, keepdim=True))
            J = J.addcmul_(J @ value.unsqueeze(-1), value.unsqueeze(-2), value=-1).div_(norm.unsqueeze(-2))
        gap = gap - value
        error = gap.square().sum(-1) if self.gain else gap.square().mean(-1)
        error = error.masked_fill(broken, torch.nan)
        weight = self.weight[rows]
        error = torch.where(weight > 0, error, 0)
        right = ((J @ gap.unsqueeze(-1)).squeeze(-1) * weight.unsqueeze(-1)).sum(1)
        matrix = ((J @ J.mT) * weight[..., None, None]).sum(1)
        return _Equations((weight * error).sum(1), error, matrix, right, maps, derivatives)

    def minimise(self, family: Family, p: Tensor, tolerance: float, taken: Tensor) -> Aligned:
        rows = torch.arange(len(p), device=p.device)
        best, done, taken = p.clone(), torch.zeros_like(rows).bool(), taken.clone()
        found = self.evaluate(family, p, rows)
        cost, error, maps = found.cost.clone(), found.error.clone(), found.maps.clone()
        damping = torch.zeros_like(cost)
        for _ in range(self.steps):
            if not len(rows):
                break
            step = _solved(found.matrix, found.right, damping)
            trial = best[rows] + step
            new = self.evaluate(family, trial, rows)
            better = new.cost < cost[rows]
            moved = torch.einsum("bp,bvprc->bvrc", step, found.derivatives).abs().sum(-1).amax((1, 2))
            won = rows[better]
            best[won], cost[won] = trial[better], new.cost[better]
            error[won], maps[won] = new.error[better], new.maps[better]
            taken[rows] += 1
            finished = ~(moved > tolerance * 2.0 ** self.level[rows].amax(1))  # what is not a number is finished too
            done[rows[finished]] = True
            found = _Equations(*(_chosen(better, *pair)[~finished] for pair in zip(new, found, strict=True)))
            damping = torch.where(better, damping / 10, (damping * 10).clamp(min=1e-2))[~finished]
            rows = rows[~finished]
        good = best.isfinite().all(1) & error.isfinite().all(1)
        return Aligned(best, error, self._inside(maps), done & good, taken)

    def _inside(self, maps: Tensor) -> Tensor:
        """Whether patches are inside their pictures, (B, V): affine maps of a square are, if its corners are."""
        corners = maps @ self.corners
        zero = torch.zeros_like(self.others)
        height, width = (
            table[self.others, zero].unsqueeze(-1) for table in (self.pictures.height, self.pictures.width)
        )
        x, y = corners[..., 0, :], corners[..., 1, :]
        return ((x >= 0) & (y >= 0) & (x <= width - 1) & (y <= height - 1)).all(-1)


class _Equations(NamedTuple):
    """Of b patches."""

    cost: Tensor
    """(b,)."""
    error: Tensor
    """(b, V)."""
    matrix: Tensor
    """(b, P, P)."""
    right: Tensor
    """(b, P)."""
    maps: Tensor
    """(b, V, 2, 3)."""
    derivatives: Tensor
    """(b, V, P, 2, 3)."""


def _chosen(which: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(which.view(-1, *[1] * (new.dim() - 1)), new, old)


def _normalised(values: Tensor) -> tuple[Tensor, Tensor]:
    """Patches (..., n) of mean 0 and norm 1, and the norms (..., 1) they had."""
    centred = values - values.mean(-1, keepdim=True)
    norm = centred.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return centred.div_(norm), norm


def _solved(H: Tensor, g: Tensor, damping: Tensor) -> Tensor:
    diagonal = H.diagonal(dim1=-2, dim2=-1)
    return torch.linalg.solve_ex(H + torch.diag_embed(diagonal * damping.unsqueeze(1)), g)[0]
