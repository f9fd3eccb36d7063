"""Convolutions over scale and place, for networks that know about size (`Scale-Equivariant Steerable Networks`, ICLR
2020; `Scale Equivariance Improves Siamese Tracking`, WACV 2021).

A function on scale and place is a tensor (B, C, S, H, W). A scale-convolution filters it at each of S scales by one
kernel drawn at that scale: weights times a fixed basis of Hermite functions, which alone know the scale. Two things
make it cheap, and change nothing:

* every scale's kernel has its own size, for the basis vanishes beyond it. (Kernels padded to the largest size, one
  grouped convolution, cost up to three times as much.)
* in memory the scales come first and channels last, so that a scale is a batch of pictures: no copy goes into a
  convolution, and what treats all scales alike (1x1 convolutions, norms, pooling) is one call for pictures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Border = Literal["zeros", "circular"]
"""What is beyond the border of a picture: nothing, or its other side."""
Pooling = Literal["max", "first"]
CUBIC = -0.75
"""The cubic of PyTorch's and OpenCV's bicubic resampling."""


# Kernels -------------------------------------------------------------------------------------------------------------


def kernel_sizes(size: int, scales: Sequence[float]) -> tuple[int, ...]:
    """The odd side of each scale's kernel, when the largest scale has ``size``."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a kernel has an odd side, got {size}")
    if not scales or min(scales) <= 0 or list(scales) != sorted(scales):
        raise ValueError(f"scales are positive and grow, got {tuple(scales)}")
    # A ratio that should be 1 must not fall below it by rounding.
    return tuple(int(size * scale / max(scales) + 1e-9) // 2 * 2 + 1 for scale in scales)


def hermite_basis(size: int, scales: Sequence[float], order: int) -> list[Tensor]:
    """For each scale σ, ``H_n(x/σ) H_m(y/σ) exp(-(x² + y²) / 2σ²) / σ²`` with n, m < ``order``, each (order², k, k) in
    float64 with the scale's own k. Probabilists' polynomials; every function has norm 1 at the smallest scale, and at
    the others what follows: norms of their own would undo the equivariance.
    """
    if order < 1:
        raise ValueError(f"a basis has at least one function a side, got {order}")
    made = [_functions(k, scale, order) for k, scale in zip(kernel_sizes(size, scales), scales, strict=True)]
    norms = made[0].flatten(1).norm(dim=1)
    if not norms.all():
        # At a single place only even functions are seen.
        raise ValueError(f"order {order} needs more places than the {made[0].shape[-1]} a side of scale {scales[0]:g}")
    return [functions / norms[:, None, None] for functions in made]


def _functions(size: int, scale: float, order: int) -> Tensor:
    place = torch.arange(-(size // 2), size // 2 + 1, dtype=torch.float64, device="cpu") / scale
    polynomials = [torch.ones_like(place), place]
    for n in range(1, order - 1):
        polynomials.append(place * polynomials[n] - n * polynomials[n - 1])
    side = torch.stack(polynomials[:order]) * torch.exp(-place.square() / 2) / scale
    return torch.einsum("nx,my->mnxy", side, side).flatten(0, 1)


def scale_kernels(weight: Tensor, bases: Sequence[Tensor]) -> list[Tensor]:
    """One kernel a scale (..., k, k), from ``weight`` (..., F) and the scales' ``bases`` (F, k, k). Differentiable."""
    sides = [basis.shape[-1] for basis in bases]
    drawn = weight @ torch.cat([basis.flatten(1) for basis in bases], 1)
    parts = drawn.split([side**2 for side in sides], -1)
    return [part.unflatten(-1, (side, side)) for part, side in zip(parts, sides, strict=True)]


def kernel_weights(kernel: Tensor, basis: Tensor) -> Tensor:
    """The weights (..., F) whose kernel at the scale of ``basis`` (F, k, k) is nearest to ``kernel`` (..., K, K), which
    is centred on it. It is reached when K <= k and the functions span all k x k kernels."""
    side, wanted = basis.shape[-1], kernel.shape[-1]
    margin = (side - wanted) // 2
    if (side - wanted) % 2:
        raise ValueError(f"a kernel of side {wanted} has no centre on a grid of side {side}")
    target = F.pad(kernel, (margin,) * 4).flatten(-2).to(basis)
    return (target @ torch.linalg.pinv(basis.flatten(1))).to(kernel)


# Layout --------------------------------------------------------------------------------------------------------------


def pictures(x: Tensor) -> Tensor:
    """(B, C, S, H, W) as (S B, C, H, W), scale after scale: a view of what `over_scales` gave."""
    return x.permute(2, 0, 1, 3, 4).flatten(0, 1)


def over_scales(x: Tensor, scales: int) -> Tensor:
    """(S B, C, H, W) as the function of scale and place (B, C, S, H, W) that it is: a view."""
    return x.unflatten(0, (scales, -1)).permute(1, 2, 0, 3, 4)


# Convolutions --------------------------------------------------------------------------------------------------------


def lift(
    x: Tensor, kernels: Sequence[Tensor], bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    border: Border = "zeros",
) -> Tensor:  # fmt: skip
    """Pictures (B, I, H, W) convolved by the kernel of each of S scales (O, I, k, k): (B, O, S, H', W').

    ``padding`` is that of the largest kernel: all are centred at the same places. Differentiable.
    """
    largest = kernels[-1].shape[-1]
    made = [bordered_convolution(x, kernel, bias, stride, padding - (largest - kernel.shape[-1]) // 2, border)
            for kernel in kernels]  # fmt: skip
    return over_scales(torch.cat(made), len(kernels))


def scale_convolution(
    x: Tensor, kernels: Sequence[Tensor], bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    border: Border = "zeros",
) -> Tensor:  # fmt: skip
    """A function of scale and place (B, I, S, H, W) convolved by kernels (O, I, i, k, k), one a scale, that reach i
    scales up: ``out[s] = Σ_{j<i} x[s + j] * kernel_s[j]``, nothing beyond the last scale. (B, O, S, H', W').

    ``padding`` is that of the largest kernel. Differentiable.
    """
    if x.shape[2] != len(kernels):
        raise ValueError(f"a function of {x.shape[2]} scales was given kernels for {len(kernels)}")
    largest = kernels[-1].shape[-1]
    layers = pictures(x).unflatten(0, (len(kernels), -1)).unbind()
    made = []
    for s, kernel in enumerate(kernels):
        margin = padding - (largest - kernel.shape[-1]) // 2
        out = bordered_convolution(layers[s], kernel[:, :, 0], bias, stride, margin, border)
        for j, above in enumerate(layers[s + 1 : s + kernel.shape[2]], 1):
            out = out + bordered_convolution(above, kernel[:, :, j], None, stride, margin, border)
        made.append(out)
    return over_scales(torch.cat(made), len(kernels))


def pointwise_scale_convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`scale_convolution` by kernels of one place, the same at all scales: ``weight`` (O, I, i). Differentiable."""
    batch, _, scales = x.shape[:3]
    flat = pictures(x)
    out = F.conv2d(flat, weight[:, :, 0, None, None], bias)
    for j in range(1, min(weight.shape[2], scales)):
        out[: (scales - j) * batch] += F.conv2d(flat[j * batch :], weight[:, :, j, None, None])
    return over_scales(out, scales)


def bordered_convolution(
    x: Tensor, kernel: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0, border: Border = "zeros",
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """`torch.nn.functional.conv2d` with a choice of border; a negative ``padding`` cuts off what it would add."""
    if padding < 0:
        x = x[..., -padding:padding, -padding:padding]
    elif padding and border == "circular":
        x = wrapped(x, padding)
    return F.conv2d(x, kernel, bias, stride, padding if padding > 0 and border == "zeros" else 0, 1, groups)


def wrapped(x: Tensor, padding: int) -> Tensor:
    """Pictures (B, C, H, W) with ``padding`` pixels of the other side around them; channels stay last in memory."""
    if padding > min(x.shape[-2:]):
        raise ValueError(f"circular padding by {padding} needs pictures that large, got {tuple(x.shape[-2:])}")
    x = torch.cat([x[:, :, -padding:], x, x[:, :, :padding]], 2)
    return torch.cat([x[..., -padding:], x, x[..., :padding]], 3)


def scale_pool(x: Tensor, how: Pooling = "max") -> Tensor:
    """(B, C, S, H, W) without its scales, (B, C, H, W): their greatest, or the first (smallest) alone."""
    return x.amax(2) if how == "max" else x[:, :, 0]


# Connections ---------------------------------------------------------------------------------------------------------


def cross_correlation(template: Tensor, search: Tensor) -> Tensor:
    """Each ``template`` (B, C, h, w) at all places of its ``search`` (B, C, H, W), (B, H - h + 1, W - w + 1). A single
    template serves all searches. Differentiable."""
    if len(template) == 1:
        return F.conv2d(search, template)[:, 0]
    if len(template) != len(search):
        raise ValueError(f"{len(template)} templates for {len(search)} searches: give one, or one each")
    stacked = search.reshape(1, -1, *search.shape[-2:])
    return F.conv2d(stacked, template, groups=len(template))[0]


def rescale(x: Tensor, factor: float, size: Sequence[int] | None = None) -> Tensor:
    """Maps (..., H, W) enlarged by ``factor`` about their centre, ``L_s[f](t) = f(t / s)``, on a grid of ``size`` (as
    large as they become, when not given). Bicubic, the border repeated, zero beyond it. Differentiable.

    A linear map a side, so it is two small products. It equals PyTorch's ``align_corners=True`` where that keeps the
    factor; a size of that function's own rounds the factor.
    """
    sizes = size or [_covering(side, factor) for side in x.shape[-2:]]
    rows, columns = (_resampling(side, new, factor).to(x) for side, new in zip(x.shape[-2:], sizes, strict=True))
    return rows @ x @ columns.mT


def _covering(side: int, factor: float) -> int:
    """Of the same parity as ``side``, so that the centre stays a place."""
    return side + 2 * math.ceil((side - 1) * (factor - 1) / 2 - 1e-9)


def _resampling(side: int, new: int, factor: float) -> Tensor:
    """The matrix (new, side), in float64."""
    place = (torch.arange(new, dtype=torch.float64) - (new - 1) / 2) / factor + (side - 1) / 2
    inside = (place > -1e-9) & (place < side - 1 + 1e-9)
    first = place.floor().clamp(0, side - 1)
    t = (place - first).clamp(0, 1)
    matrix = torch.zeros(new, side, dtype=torch.float64)
    for offset in range(-1, 3):
        weights = _cubic((t - offset).abs()) * inside
        column = (first.long() + offset).clamp(0, side - 1)
        matrix.scatter_add_(1, column.unsqueeze(1), weights.unsqueeze(1))
    return matrix


def _cubic(distance: Tensor) -> Tensor:
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance.square() + 1
    far = CUBIC * (((distance - 5) * distance + 8) * distance - 4)
    return torch.where(distance <= 1, near, torch.where(distance < 2, far, 0.0))


def nonparametric_scale_convolution(
    template: Tensor, search: Tensor, factors: Sequence[float], step: float | None = None
) -> Tensor:
    """``[f1 ⋆ f2](s, t) = L_{1/s}[L_s[f1] ⋆ f2](t)`` (Eq. 2) with f1 the ``search`` and f2 the ``template``, at the
    ``factors`` s: (B, factors, H - h + 1, W - w + 1). Differentiable.

    Both are functions of place (B, C, h, w), or of scale and place (B, C, S, h, w) with scales that grow by ``step``.
    Then ``L_s`` moves scales too, by a whole number of steps; scales that leave the grid are lost, and the rest is
    weighed up for them.
    """
    size = [big - small + 1 for big, small in zip(search.shape[-2:], template.shape[-2:], strict=True)]
    if min(size) < 1:
        raise ValueError(f"a template of {tuple(template.shape[-2:])} does not fit in {tuple(search.shape[-2:])}")
    return torch.stack([_at_factor(template, search, s, step, size) for s in factors], 1)


def _at_factor(template: Tensor, search: Tensor, factor: float, step: float | None, size: Sequence[int]) -> Tensor:
    if search.dim() == 5:
        template, search = _moved(template, search, factor, step)
    if factor == 1:
        return cross_correlation(template, search)
    # As many places as the response needs to be read at `factor` times its own.
    wide = [_covering(out, factor) + kernel - 1 for out, kernel in zip(size, template.shape[-2:], strict=True)]
    return rescale(cross_correlation(template, rescale(search, factor, wide)), 1 / factor, size)


def _moved(template: Tensor, search: Tensor, factor: float, step: float | None) -> tuple[Tensor, Tensor]:
    """The scales at which the rescaled search meets the template, as channels."""
    scales = search.shape[2]
    steps = math.log(factor) / math.log(step) if step else 0.0
    if not step or abs(steps - round(steps)) > 1e-6 or abs(round(steps)) >= scales:
        raise ValueError(f"a factor of {factor:g} moves {scales} scales by no whole number of steps of {step}")
    up = round(steps)  # what was at scale i is at scale i + up, once enlarged
    old, new = search[:, :, max(-up, 0) : scales - max(up, 0)], template[:, :, max(up, 0) : scales + min(up, 0)]
    weight = scales / (scales - abs(up))
    return new.flatten(1, 2) * weight, old.flatten(1, 2)
