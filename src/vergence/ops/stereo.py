"""Stereo: the concatenation volume, its first convolution without the volume, and the expected disparity.

Level ``d`` of a concatenation volume holds the left features at ``x`` and the right ones at ``x - d``, both only where
``x >= d``. A 3 x 3 x 3 convolution of it is a sum of two maps: away from the borders its left part does not depend on
``d``, and its right part depends on ``x - d`` alone. :func:`volume_convolution` therefore computes a few convolutions
of flat maps, whatever the number of levels, and adds them up, the second one shifted; the volume is never built.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BAND = (-2, -1, 0, 1)
"""Values of ``x - d`` at which a part of the kernel lies where ``x < d``."""
CHUNK = 1 << 21
"""Values of the enlarged scores that are worked on at a time: they stay in the cache."""
APART = 300.0
"""Scores that differ by more than this would underflow as products of powers."""


def shifted(right: Tensor, levels: int) -> Tensor:
    """Features (B, C, H, W) moved to the right by 0 to ``levels`` - 1 pixels: (B, C, levels, H, W), zero where nothing
    moved in."""
    width = right.shape[-1]
    windows = F.pad(right, (levels - 1, 0)).unfold(-1, width, 1)  # the last window is the one that did not move
    return windows.permute(0, 1, 3, 2, 4).flip(2)


def concatenation_volume(left: Tensor, right: Tensor, levels: int) -> Tensor:
    """Features (B, C, H, W) of both pictures as a volume (B, 2C, levels, H, W): at level d, the left features and the
    right ones moved by d pixels, zero where x < d."""
    _refuse(left, right, levels)
    there = _apart(levels, left) >= 0
    return torch.cat([left.unsqueeze(2) * there, shifted(right, levels)], 1)


def _apart(levels: int, like: Tensor) -> Tensor:
    """``x - d``, (levels, 1, W)."""
    x, d = (torch.arange(n, device=like.device) for n in (like.shape[-1], levels))
    return (x - d.unsqueeze(1)).unsqueeze(1)


def _refuse(left: Tensor, right: Tensor, levels: int) -> None:
    if left.dim() != 4 or left.shape != right.shape:
        raise ValueError(
            f"features of a pair are two tensors (B, C, H, W) of one shape, got {tuple(left.shape)} and "
            f"{tuple(right.shape)}"
        )
    if levels < 1:
        raise ValueError(f"a volume has 1 or more levels, got {levels}")


# The first convolution ------------------------------------------------------------------------------------------------


def volume_convolution(
    left: Tensor, right: Tensor, weight: Tensor, bias: Tensor | None = None, levels: int = 48
) -> Tensor:
    """``conv3d(concatenation_volume(left, right, levels), weight, bias, padding=1)`` without the volume.

    Features are (B, C, H, W), the kernel is (O, 2C, 3, 3, 3), and the result (B, O, levels, H, W) has its channels last
    in memory.
    """
    _refuse(left, right, levels)
    channels = left.shape[1]
    if weight.shape[1:] != (2 * channels, 3, 3, 3):
        raise ValueError(
            f"a kernel for a volume of {channels} + {channels} channels is (O, {2 * channels}, 3, 3, 3), got "
            f"{tuple(weight.shape)}"
        )
    if levels < 4 or left.shape[-1] < 4:  # nothing but borders
        volume = concatenation_volume(left, right, levels)
        return F.conv3d(volume, weight, bias, padding=1).contiguous(memory_format=torch.channels_last_3d)
    of_left, of_right = weight[:, :channels], weight[:, channels:]
    # By x - d: the kernel's part that sees features, summed over the three levels.
    bands = torch.stack([_flat(of_left, e) for e in (*BAND, 2)])  # (5, O, C, 3, 3)
    outputs = weight.shape[0]
    maps = F.conv2d(left, bands.flatten(0, 1), padding=1).unflatten(1, (5, outputs))
    moved = F.conv2d(right, _skewed(of_right), bias, padding=(1, 2 + 2))  # at x - d = -2 and beyond
    moved = moved[..., : right.shape[-1] + 2]
    edge = F.conv2d(
        right, of_right[..., 2].transpose(2, 3).flip(3), padding=(1, 3)
    )  # what the last column must not see
    ends = [
        F.conv2d(_two(left, right, at), torch.cat([weight[:, :, k] for k in taps], 1), bias, padding=1)
        for at, taps in ((0, (1, 2)), (levels - 2, (0, 1)))
    ]
    if bias is not None:  # where no right feature is near
        moved = torch.cat([bias.to(moved).view(1, -1, 1, 1).expand(*moved.shape[:3], levels), moved], 3)
    else:
        moved = F.pad(moved, (levels, 0))
    result: Tensor = _Assembled.apply(maps, moved, edge, *ends, levels)  # type: ignore[no-untyped-call]
    return result


def _flat(kernel: Tensor, apart: int) -> Tensor:
    """A kernel (O, C, 3, 3, 3) over levels, rows and columns as a flat one, without taps where x < d."""
    if apart >= 2:
        return kernel.sum(2)
    seen = [[apart + (i - 1) - (k - 1) >= 0 for i in range(3)] for k in range(3)]
    mask = torch.tensor(seen, device=kernel.device).view(3, 1, 3)
    return (kernel * mask).sum(2)


def _skewed(kernel: Tensor) -> Tensor:
    """A kernel (O, C, 3, 3, 3) as a flat one (O, C, 3, 5) for features that move by one pixel with every level."""
    return sum(F.pad(kernel[:, :, k], (2 - k, k)) for k in range(3))  # type: ignore[return-value]


def _two(left: Tensor, right: Tensor, at: int) -> Tensor:
    """Two neighbouring levels of the volume as channels, (B, 4C, H, W)."""
    parts = []
    for d in (at, at + 1):
        reach = left.shape[-1] - d
        if reach <= 0:
            parts += [torch.zeros_like(left), torch.zeros_like(right)]
        else:
            parts += [F.pad(left[..., d:], (d, 0)), F.pad(right[..., :reach], (d, 0))]
    return torch.cat(parts, 1)


class _Assembled(torch.autograd.Function):
    """The levels put together from flat maps: a linear map and its adjoint.

    ``moved`` holds the right part at x - d = -levels - 2 to W - 1, ``maps`` the left part at each x - d of
    :data:`BAND` and beyond, ``first`` and ``last`` those two levels.
    """

    @staticmethod
    def forward(
        ctx: Any, maps: Tensor, moved: Tensor, edge: Tensor, first: Tensor, last: Tensor, levels: int
    ) -> Tensor:
        batch, _, outputs, height, width = maps.shape
        ctx.sizes, ctx.levels = (maps.shape, moved.shape, edge.shape), levels
        size, last_channels = (batch, outputs, levels, height, width), torch.channels_last_3d
        out = torch.empty(size, dtype=maps.dtype, device=maps.device, memory_format=last_channels)
        rows = moved[..., 3:].permute(0, 2, 3, 1).contiguous()  # (B, H, levels - 1 + W, O)
        windows = rows.unfold(2, width, 1).permute(0, 3, 2, 1, 4)  # (B, O, levels, H, W), the last level first
        out.copy_(windows.flip(2))
        inner = out[:, :, 1:-1]
        inner.addcmul_(maps[:, len(BAND)].unsqueeze(2), (_apart(levels, maps)[1:-1] >= 2).to(maps.dtype))
        for number, e in enumerate(BAND):
            diagonal = inner.diagonal(e + 1, 2, 4)  # (B, O, H, n)
            at = max(e + 1, 0)
            diagonal.add_(maps[:, number, ..., at : at + diagonal.shape[-1]])
        near, columns = _beyond(levels, width)
        inner[:, :, :near, :, -1] -= edge[..., columns].flip(-1).transpose(2, 3)
        out[:, :, 0], out[:, :, -1] = first, last
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad,), levels = grads, ctx.levels
        of_maps, of_moved, of_edge = (grad.new_zeros(shape) for shape in ctx.sizes)
        width = grad.shape[-1]
        inner = grad[:, :, 1:-1]
        of_maps[:, len(BAND)] = (inner * (_apart(levels, grad)[1:-1] >= 2)).sum(2)
        for number, e in enumerate(BAND):
            diagonal = inner.diagonal(e + 1, 2, 4)
            at = max(e + 1, 0)
            of_maps[:, number, ..., at : at + diagonal.shape[-1]] = diagonal
        # Rows that are one longer than they are read skew the levels: a sum over them then follows x - d.
        row = levels + width
        flat = F.pad(F.pad(inner.transpose(2, 3), (levels, 0)).flatten(-2), (0, levels)).contiguous()
        skewed = flat.as_strided((*flat.shape[:-1], levels - 2, row), (*flat.stride()[:-1], row + 1, 1))
        of_moved[..., 1 : 1 + row] = skewed.sum(-2)
        near, columns = _beyond(levels, width)
        of_edge[..., columns] = -inner[:, :, :near, :, -1].transpose(2, 3).flip(-1)
        return of_maps, of_moved, of_edge, grad[:, :, 0], grad[:, :, -1], None


def _beyond(levels: int, width: int) -> tuple[int, slice]:
    """For how many levels the kernel at the last column would see right features beyond it, and where those are."""
    near = min(levels - 2, width + 2)
    return near, slice(width + 2 - near, width + 2)


# Expected disparity ---------------------------------------------------------------------------------------------------


def soft_argmin(scores: Tensor) -> Tensor:
    """Scores (B, D, H, W) of quarter resolution enlarged four times along D, H and W, their softmax along D, and the
    mean disparity under it: (B, 4H, 4W), from 0 to 4D - 1.

    The enlarged scores are never held as a whole, forward or backward: rows are done in pieces.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if scores.is_meta or torch.compiler.is_compiling():
        levels = torch.arange(4.0 * scores.shape[1], device=scores.device, dtype=scores.dtype)
        whole = F.interpolate(scores.unsqueeze(1), scale_factor=4, mode="trilinear", align_corners=False)
        return torch.einsum("bdhw,d->bhw", whole.squeeze(1).softmax(1), levels)
    with torch.autocast(scores.device.type, enabled=False):
        result: Tensor = _SoftArgmin.apply(scores)  # type: ignore[no-untyped-call]
    return result


class _SoftArgmin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        out = scores.new_empty(scores.shape[0], 4 * scores.shape[2], 4 * scores.shape[3])
        for some, own in _pieces(_framed(scores), out):
            own.copy_(_Levels(_enlarged(some).flatten(1)).mean.view_as(own))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (scores,) = ctx.saved_tensors
        framed = _framed(scores)
        total = torch.zeros_like(framed)
        both = zip(_pieces(framed, grads[0].contiguous()), _pieces(total, grads[0]), strict=True)
        for (some, own), (sums, _) in both:
            with torch.enable_grad():
                leaf = some.detach().requires_grad_()
                wide = _enlarged(leaf)
            slopes = _Levels(wide.detach().flatten(1)).slopes() * own.reshape(-1)
            sums += torch.autograd.grad(wide, leaf, slopes.view_as(wide))[0]
        total[:, :, 1] += total[:, :, 0]
        total[:, :, -2] += total[:, :, -1]
        return total[:, :, 1:-1]


def _framed(scores: Tensor) -> Tensor:
    """Scores with the first and the last row repeated."""
    return torch.cat([scores[:, :, :1], scores, scores[:, :, -1:]], 2)


def _pieces(framed: Tensor, out: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of the scores with a row above and below, (D, h + 2, W), and those of the result, (4h, 4W)."""
    _, depth, height, width = framed.shape
    step = max(CHUNK // (16 * depth * width), 1)
    for one, own in zip(framed, out, strict=True):
        for row in range(0, height - 2, step):
            last = min(row + step, height - 2)
            yield one[:, row : last + 2], own[4 * row : 4 * last]


def _enlarged(some: Tensor) -> Tensor:
    """Rows (D, h + 2, W) enlarged to (D, 4h, 4W)."""
    return F.interpolate(some[None], scale_factor=4, mode="bilinear", align_corners=False)[0, :, 4:-4]


class _Levels:
    """Softmax along D of scores (D, N) that are enlarged four times along D, and the mean of 0 to 4D - 1 under it.

    Between two levels the enlarged scores are their means with weights k/8 (k = 1, 3, 5, 7), so that the exponentials
    are products of powers: only D of them are computed instead of 4D. Scores too far apart for that are taken one by
    one."""

    def __init__(self, scores: Tensor) -> None:
        depth = len(scores)
        self.power: dict[int, Tensor] | None = None
        if float(scores.max() - scores.min()) <= APART:
            p = ((scores - scores.amax(0)) / 8).exp_()
            self.power = {1: p, 2: p * p}
            for k in (3, 5, 7):
                self.power[k] = self.power[k - 2] * self.power[2]
            self.first, self.last = (self.power[7][end] * p[end] for end in (0, -1))  # two equal scores at each end
        else:
            ends = torch.maximum(scores[0], scores[-1])
            near, far = torch.maximum(scores[:-1], scores[1:]), torch.minimum(scores[:-1], scores[1:])
            self.scores = scores - torch.maximum((near + (far - near) / 8).amax(0), ends)
            self.first, self.last = (self.scores[end].exp() for end in (0, -1))
        self.start = 4 * torch.arange(depth - 1, device=scores.device, dtype=scores.dtype)
        self.at_last = 8 * depth - 3
        self.total, mean = 2 * (self.first + self.last), self.first + self.at_last * self.last
        for k in (1, 3, 5, 7):
            sums = torch.stack([torch.ones_like(self.start), self.start + (k + 3) / 2]) @ self.weights(k)
            self.total += sums[0]
            mean += sums[1]
        self.mean = mean.div_(self.total)

    def weights(self, k: int) -> Tensor:
        """Exponentials of the scores k/8 above each level, (D - 1, N): those of disparity 4 level + (k + 3) / 2."""
        if self.power is None:
            return torch.lerp(self.scores[:-1], self.scores[1:], k / 8).exp_()
        return self.power[8 - k][:-1] * self.power[k][1:]

    def slopes(self) -> Tensor:
        """Derivatives of the mean, (D, N)."""
        out = self.mean.new_zeros(len(self.start) + 1, len(self.mean))
        out[0] = self.first * (1 - 2 * self.mean)
        out[-1] += self.last * (self.at_last - 2 * self.mean)
        for k in (1, 3, 5, 7):
            part = self.weights(k) * (self.start.unsqueeze(1) + (k + 3) / 2 - self.mean)
            out[:-1].add_(part, alpha=1 - k / 8)
            out[1:].add_(part, alpha=k / 8)
        return out.div_(self.total)


# The range of a pair --------------------------------------------------------------------------------------------------

SIDE = 7
"""Side of the windows by which pixels are compared."""
PLAIN = 0.01
"""Grey values (of 1) that vary less within a window match anywhere."""


def matched_shifts(left: Tensor, right: Tensor, most: int) -> Tensor:
    """Shifts from 0 to ``most`` of the pixels of a grey picture (H, W), from 0 to 1, that match a unique place of the
    other one and are matched from there: (N,). A search by windows, to find the range of a pair."""
    one, plain = _standard(left)
    other, _ = _standard(right)
    costs = _window_costs(one, other, most)  # (most + 1, H, W)
    best, shift = costs.min(0)
    near = (torch.arange(most + 1, device=left.device).view(-1, 1, 1) - shift).abs() <= 1
    unique = best < 0.85 * costs.masked_fill(near, torch.inf).amin(0)
    back = _window_costs(other.flip(-1), one.flip(-1), most).argmin(0).flip(-1)
    x = torch.arange(left.shape[1], device=left.device) - shift
    returned = back.gather(1, x.clamp_min(0)) - shift
    return shift[unique & ~plain & (x >= 0) & (returned.abs() <= 1)]


def _standard(picture: Tensor) -> tuple[Tensor, Tensor]:
    """A picture with the mean and the deviation of its windows taken out, and where it is plain."""
    mean = _windowed(picture)
    deviation = (_windowed(picture**2) - mean**2).clamp_min(0).sqrt()
    return (picture - mean) / (deviation + PLAIN), deviation < PLAIN


def _window_costs(one: Tensor, other: Tensor, most: int) -> Tensor:
    moved = shifted(other[None, None], most + 1)[0, 0]
    gone = _apart(most + 1, one) < 0
    return _windowed((one - moved).abs().clamp_max(2).masked_fill_(gone, 2))


def _windowed(values: Tensor) -> Tensor:
    """Means of windows of (..., H, W)."""
    flat = F.pad(values.reshape(-1, 1, *values.shape[-2:]), (SIDE // 2,) * 4, "replicate")
    return F.avg_pool2d(flat, SIDE, 1).view_as(values)
