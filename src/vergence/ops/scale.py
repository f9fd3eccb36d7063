"""Convolutions over scale and place, for scale-equivariant networks (`Scale-Equivariant Steerable Networks`, ICLR 2020;
`Scale Equivariance Improves Siamese Tracking`, WACV 2021).

A function on scale and place is a tensor (B, C, S, H, W). A scale-convolution filters it at each of S scales by one
kernel drawn at that scale: weights times a fixed basis of Hermite functions, which alone depends on the scale. Two
things make it cheap without changing the result:

* every scale's kernel has its own size, because the basis vanishes beyond it. (Kernels padded to the largest size, one
  grouped convolution, cost up to three times as much.)
* in memory the scales come first and channels last, so that a scale is a batch of images: convolutions need no copy,
  and layers that treat all scales alike (1x1 convolutions, norms, pooling) are one call on images.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Border = Literal["zeros", "circular"]
"""The padding at the border of an image: zeros, or the opposite side."""
Pooling = Literal["max", "first"]


# Kernels -------------------------------------------------------------------------------------------------------------


def kernel_sizes(size: int, scales: Sequence[float]) -> tuple[int, ...]:
    """The odd side of each scale's kernel, when the largest scale has ``size``."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a kernel has an odd side, got {size}")
    if not scales or min(scales) <= 0 or list(scales) != sorted(scales):
        raise ValueError(f"scales are positive and grow, got {tuple(scales)}")
    # Rounding must not push a ratio of 1 below it.
    return tuple(int(size * scale / max(scales) + 1e-9) // 2 * 2 + 1 for scale in scales)


def hermite_sides(size: int, scales: Sequence[float], order: int) -> list[Tensor]:
    """For each scale σ, ``H_n(x/σ) exp(-x² / 2σ²) / σ`` with n < ``order``, each (order, k) in float64 with the scale's
    own k. Probabilists' polynomials; every function has norm 1 at the smallest scale. Other scales share its factors:
    normalising each separately would break the equivariance.
    """
    if order < 1:
        raise ValueError(f"a basis has at least one function per side, got {order}")
    sides = []
    for k, scale in zip(kernel_sizes(size, scales), scales, strict=True):
        place = torch.arange(-(k // 2), k // 2 + 1, dtype=torch.float64, device="cpu") / scale
        polynomials = [torch.ones_like(place), place]
        for n in range(1, order - 1):
            polynomials.append(place * polynomials[n] - n * polynomials[n - 1])
        sides.append(torch.stack(polynomials[:order]) * torch.exp(-place.square() / 2) / scale)
    norms = sides[0].norm(dim=1, keepdim=True)
    if not norms.all():  # at a single place odd functions vanish
        raise ValueError(f"order {order} needs a kernel side above {sides[0].shape[1]} at scale {scales[0]:g}")
    return [functions / norms for functions in sides]


def hermite_basis(size: int, scales: Sequence[float], order: int) -> list[Tensor]:
    """The products of two `hermite_sides` at each scale, (order², k, k) in float64, the order along rows first."""
    return [torch.einsum("my,nx->mnxy", s, s).flatten(0, 1) for s in hermite_sides(size, scales, order)]


def scale_kernels(weight: Tensor, sides: Sequence[Tensor], separable: Sequence[bool]) -> list[Tensor]:
    """One kernel per scale from ``weight`` (O, I, ..., F) and the scales' ``sides`` (n, k), n² = F. Differentiable.

    A plain one is (O, I, ..., k, k). A ``separable`` one keeps its weights over the functions, for
    `separable_convolution`: (O, ..., n, n I).
    """
    folded = weight.unflatten(-1, (len(sides[0]), -1))  # (O, I, ..., m, n)
    kernels = []
    for side, apart in zip(sides, separable, strict=True):
        if apart:
            kernels.append(folded.movedim(1, -1).flatten(-2))
        else:
            kernels.append(torch.einsum("...mn,my,nx->...xy", folded, side, side))
    return kernels


def kernel_weights(kernel: Tensor, basis: Tensor) -> Tensor:
    """The weights (..., F) whose kernel at the scale of ``basis`` (F, k, k) is nearest to ``kernel`` (..., K, K),
    centred. Exact when K <= k and the functions span all k x k kernels."""
    side, wanted = basis.shape[-1], kernel.shape[-1]
    margin = (side - wanted) // 2
    if (side - wanted) % 2:
        raise ValueError(f"a kernel of side {wanted} has no centre on a grid of side {side}")
    target = F.pad(kernel, (margin,) * 4).flatten(-2).to(basis)
    return (target @ torch.linalg.pinv(basis.flatten(1))).to(kernel)


# Layout --------------------------------------------------------------------------------------------------------------


def pictures(x: Tensor) -> Tensor:
    """(B, C, S, H, W) as images (S B, C, H, W), scale after scale: a view of the output of `over_scales`."""
    return x.permute(2, 0, 1, 3, 4).flatten(0, 1)


def cropped(x: Tensor, crop: int) -> Tensor:
    """Maps (B, C, H, W) or (B, C, S, H, W) without ``crop`` places of each border. Differentiable."""
    if not crop:
        return x
    if not torch.is_grad_enabled():
        return x[..., crop:-crop, crop:-crop]
    # As negative padding, whose gradient keeps the memory layout; that of a slice does not, which slows down norms.
    return F.pad(x, (-crop,) * 4) if x.dim() == 4 else over_scales(F.pad(pictures(x), (-crop,) * 4), x.shape[2])


def by_scale(x: Tensor) -> tuple[Tensor, ...]:
    """(B, C, S, H, W) as S batches of images (B, C, H, W): views."""
    return x.unbind(2)


def over_scales(x: Tensor, scales: int) -> Tensor:
    """The inverse of `pictures`: (S B, C, H, W) as a function of scale and place (B, C, S, H, W), a view."""
    return x.unflatten(0, (scales, -1)).permute(1, 2, 0, 3, 4)


# Convolutions --------------------------------------------------------------------------------------------------------


def lift(
    x: Tensor, kernels: Sequence[Tensor], sides: Sequence[Tensor], bias: Tensor | None = None, stride: int = 1,
    padding: int = 0, border: Border = "zeros",
) -> Iterator[Tensor]:  # fmt: skip
    """Images (B, I, H, W) convolved by the `scale_kernels` of each of S scales, one after the other: (B, O, H', W').

    ``padding`` is that of the largest kernel; all kernels are centred at the same places. Differentiable.
    """
    for kernel, side in zip(kernels, sides, strict=True):
        yield _filtered(x, kernel, side, bias, stride, padding - _smaller(side, sides), border)


def scale_convolution(
    x: Tensor, kernels: Sequence[Tensor], sides: Sequence[Tensor], bias: Tensor | None = None, stride: int = 1,
    padding: int = 0, border: Border = "zeros",
) -> Iterator[Tensor]:  # fmt: skip
    """A function of scale and place (B, I, S, H, W) convolved by `scale_kernels` that reach i scales up, one scale
    after the other: ``out[s] = Σ_{j<i} x[s + j] * kernel_s[j]``, (B, O, H', W'), with zeros beyond the last scale.

    ``padding`` is that of the largest kernel. Differentiable.
    """
    if x.shape[2] != len(kernels):
        raise ValueError(f"a function of {x.shape[2]} scales needs as many kernels, got {len(kernels)}")
    layers = by_scale(x)
    for s, (kernel, side) in enumerate(zip(kernels, sides, strict=True)):
        margin = padding - _smaller(side, sides)
        taps = kernel.unbind(2 if kernel.dim() == 5 else 1)
        out = _filtered(layers[s], taps[0], side, bias, stride, margin, border)
        for above, tap in zip(layers[s + 1 :], taps[1:]):  # noqa: B905
            out = out + _filtered(above, tap, side, None, stride, margin, border)
        yield out


def _smaller(side: Tensor, sides: Sequence[Tensor]) -> int:
    """By how many places on each side a kernel is smaller than the largest."""
    return (sides[-1].shape[1] - side.shape[1]) // 2


def _filtered(
    x: Tensor, kernel: Tensor, side: Tensor, bias: Tensor | None, stride: int, padding: int, border: Border
) -> Tensor:
    if kernel.dim() == 3:
        return separable_convolution(x, kernel, side, bias, stride, padding, border)
    return bordered_convolution(x, kernel, bias, stride, padding, border)


def pointwise_scale_convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`scale_convolution` by 1x1 kernels, the same at all scales: ``weight`` (O, I, i). Differentiable."""
    scales, first = x.shape[2], weight[:, :, 0]
    if weight.shape[2] == 1:
        return over_scales(pointwise(pictures(x), first, bias), scales)
    layers = by_scale(x)
    outputs = []
    for s, layer in enumerate(layers):
        out = pointwise(layer, first, bias)
        for j, above in enumerate(layers[s + 1 : s + weight.shape[2]], 1):
            out = out + pointwise(above, weight[:, :, j])
        outputs.append(out)
    return over_scales(torch.cat(outputs), scales)


def pointwise(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A 1x1 convolution of images (B, I, H, W) by ``weight`` (O, I): (B, O, H, W). Differentiable.

    Without gradients it is computed as a matrix product: on one CPU thread PyTorch's convolution copies its input and
    its output. With gradients it is PyTorch's convolution, whose gradients have channels last too.
    """
    if torch.is_grad_enabled():
        return F.conv2d(x, weight[..., None, None], bias)
    return F.linear(x.permute(0, 2, 3, 1).contiguous(), weight, bias).permute(0, 3, 1, 2)


def add_pointwise(out: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """``out + pointwise(x, weight)``; in place when gradients are off. Differentiable."""
    rows, columns = out.permute(0, 2, 3, 1), x.permute(0, 2, 3, 1)
    if torch.is_grad_enabled() or not rows.is_contiguous():
        return out + pointwise(x, weight)
    rows.view(-1, rows.shape[-1]).addmm_(columns.reshape(-1, x.shape[1]), weight.mT)
    return out


def bordered_convolution(
    x: Tensor, kernel: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0, border: Border = "zeros",
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.conv2d` with a choice of border; a negative ``padding`` crops instead."""
    x, padding = _bordered(x, padding, border)
    return F.conv2d(x, kernel, bias, stride, padding, 1, groups)


def separable_convolution(
    x: Tensor, weight: Tensor, side: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    border: Border = "zeros",
) -> Tensor:  # fmt: skip
    """Images (B, I, H, W) convolved by kernels that are sums of n² products of the n functions ``side`` (n, k), with
    ``weight`` (O, n, n I): (B, O, H', W'). Differentiable, but not in ``side``.

    Channels are filtered along one side and then the other, which costs next to nothing, and then n² I of them are
    mixed: n² products per place and pair of channels, not k².
    """
    x, padding = _bordered(x, padding, border)
    inputs, (n, k) = x.shape[1], side.shape
    down, across = side.view(n, 1, 1, k, 1), side.view(n, 1, 1, 1, k)
    rows = [F.conv2d(x, f.expand(inputs, -1, -1, -1), None, (stride, 1), (padding, 0), 1, inputs) for f in down]
    tall = torch.cat(rows, 1)
    total: Tensor | None = None
    for m, f in enumerate(across):
        wide = F.conv2d(tall, f.expand(n * inputs, -1, -1, -1), None, (1, stride), (0, padding), 1, n * inputs)
        if total is None:
            total = pointwise(wide, weight[:, m], bias)
        else:
            total = add_pointwise(total, wide, weight[:, m])
    assert total is not None
    return total


def _bordered(x: Tensor, padding: int, border: Border) -> tuple[Tensor, int]:
    """``x`` with its border added, and the zero padding that remains to be done."""
    if padding < 0:
        return x[..., -padding:padding, -padding:padding], 0
    if padding and border == "circular":
        return wrapped(x, padding), 0
    return x, padding


def wrapped(x: Tensor, padding: int) -> Tensor:
    """Images (B, C, H, W) with ``padding`` pixels of the other side around them; channels stay last in memory."""
    if padding > min(x.shape[-2:]):
        raise ValueError(f"circular padding by {padding} needs pictures that large, got {tuple(x.shape[-2:])}")
    x = torch.cat([x[:, :, -padding:], x, x[:, :, :padding]], 2)
    return torch.cat([x[..., -padding:], x, x[..., :padding]], 3)


def halved(x: Tensor) -> Tensor:
    """2x2 max pooling of images (B, C, H, W), rows and then columns: PyTorch's own computes indices as well."""
    height, width = (side // 2 * 2 for side in x.shape[-2:])
    rows = torch.maximum(x[..., 0:height:2, :], x[..., 1:height:2, :])
    return torch.maximum(rows[..., 0:width:2], rows[..., 1:width:2])


def scale_pool(x: Tensor, how: Pooling = "max") -> Tensor:
    """Pooling over scales, (B, C, S, H, W) to (B, C, H, W): the maximum, or the first (smallest) scale alone."""
    # Pairwise: a maximum over a dimension with a large stride is slow.
    return reduce(torch.maximum, by_scale(x)) if how == "max" else x[:, :, 0]
