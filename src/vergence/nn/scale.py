"""Layers of scale-equivariant networks: the operators of `vergence.ops.scale` with learned weights.

Functions on scale and place are (B, C, S, H, W). In evaluation a layer computes its kernels once and caches them until
the weights change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vergence.nn.folded import Kept, computed_in
from vergence.ops.scale import (
    Border,
    Pooling,
    by_scale,
    cropped,
    hermite_basis,
    hermite_sides,
    kernel_sizes,
    kernel_weights,
    lift,
    over_scales,
    pictures,
    pointwise_scale_convolution,
    scale_convolution,
    scale_kernels,
    scale_pool,
)

Kernels = list[Tensor]
FEWEST = 16
"""Number of channels from which separable filtering pays off."""
LEAST_GAIN = 2.5
"""Kernel places per basis function from which filtering and mixing is cheaper than a convolution; measured on a CPU."""
BORDERS: tuple[Border, Border] = ("circular", "zeros")
"""The padding technique: circular in training, so that no place is special, and zeros in evaluation."""


class _Steered(nn.Module):
    """Weights over the Hermite basis, and the kernels computed from them."""

    functions: Tensor

    def __init__(
        self, shape: Sequence[int], scales: Sequence[float], size: int, order: int | None, stride: int, padding: int,
        borders: tuple[Border, Border],
    ) -> None:  # fmt: skip
        super().__init__()
        self.sizes = kernel_sizes(size, scales)
        self.scales, self.size, self.order = tuple(scales), size, order or self.sizes[0]
        self.stride, self.padding, self.borders = stride, padding, borders
        self.weight = nn.Parameter(torch.empty(*shape, self.order**2))
        self.register_buffer("functions", torch.empty(0), persistent=False)
        self._kept: Kept[Tensor] = Kept()
        self._lay_functions()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise kernels at the smallest scale to the energy of PyTorch's plain kernels of side ``order``."""
        _reset(self.weight)

    def _lay_functions(self) -> None:
        self.functions = torch.cat(hermite_sides(self.size, self.scales, self.order), 1).to(self.weight)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._lay_functions()  # from their definition: float64 converted from float32 would keep its rounding
        return self

    def sides(self, like: Tensor) -> tuple[Tensor, ...]:
        """The basis functions (order, k) of each scale, in the type of ``like``."""
        return self.functions.to(like.dtype).split(list(self.sizes), 1)

    @property
    def border(self) -> Border:
        """The border mode of the current mode, training or evaluation."""
        return self.borders[0 if self.training else 1]

    @property
    def separable(self) -> list[bool]:
        """For each scale, whether its kernel is cheaper as two 1D filters and a mixture, on a CPU: when its places
        sufficiently outnumber its functions, and there are enough channels."""
        able = self.weight.device.type == "cpu" and self.weight.shape[1] >= FEWEST
        return [able and k * k > LEAST_GAIN * self.order**2 for k in self.sizes]

    def kernels(self) -> Kernels:
        """One kernel per scale, each of its own size. Cached in evaluation, recomputed in training."""

        def make() -> Kernels:
            return scale_kernels(self.weight, self.sides(self.weight), self.separable)

        return make() if self.training else self._kept(make, self.weight)

    def drawn(self) -> list[Kernels]:
        """All kernels as plain ones (O, I, k, k): for each scale, one per scale it reaches."""
        plain = scale_kernels(self.weight, self.sides(self.weight), [False] * len(self.sizes))
        return [[*kernel.unbind(2)] if kernel.dim() == 5 else [kernel] for kernel in plain]

    def placed(self, side: int, crop: int) -> tuple[int, int]:
        """Stride and padding for a kernel of that side, with ``crop`` places cut from each border of the output."""
        return self.stride, self.padding - crop * self.stride - (self.size - side) // 2

    def start_from(self, kernel: Tensor) -> None:
        """Set the weights so that the kernel at the smallest scale is a plain kernel (O, I, K, K), or the nearest in
        the basis; weights to other scales become zero."""
        weight = kernel_weights(kernel.detach().double(), hermite_basis(self.size, self.scales, self.order)[0])
        with torch.no_grad():
            self.weight.zero_()
            first = self.weight if self.weight.dim() == 3 else self.weight[:, :, 0]
            first.copy_(weight)

    def extra_repr(self) -> str:
        """As PyTorch shows its own layers."""
        scales = ", ".join(f"{scale:.3g}" for scale in self.scales)
        return f"{tuple(self.weight.shape)}, scales=({scales}), size={self.size}, stride={self.stride}"


class LiftingConv2d(_Steered):
    """From images to functions of scale and place: (B, inputs, H, W) to (B, outputs, S, H', W').

    ``size`` is the side of the largest scale's kernel, ``order`` the number of functions per side: the number of
    parameters is that of a plain convolution of side ``order``. By default it is the side of the smallest kernel, so
    that the basis spans all plain kernels of that size.
    """

    def __init__(
        self, inputs: int, outputs: int, size: int, scales: Sequence[float], order: int | None = None, stride: int = 1,
        padding: int = 0, borders: tuple[Border, Border] = BORDERS,
    ) -> None:  # fmt: skip
        super().__init__((outputs, inputs), scales, size, order, stride, padding, borders)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.kernels())

    def convolve(self, x: Tensor, kernels: Kernels, bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """Convolve by given kernels, with ``crop`` places cut from each border of the output."""
        return over_scales(torch.cat([*self.by_scale(x, kernels, bias, crop)]), len(kernels))

    def by_scale(self, x: Tensor, kernels: Kernels, bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, one scale (B, outputs, H', W') after the other."""
        padding, kind = self.padding - crop * self.stride, computed_in(x)
        x, kernels = x.to(kind), [kernel.to(kind) for kernel in kernels]
        return lift(x, kernels, self.sides(x), bias, self.stride, padding, self.border)


class ScaleConv2d(_Steered):
    """From functions of scale and place to the same: (B, inputs, S, H, W) to (B, outputs, S, H', W').

    ``extent`` is the number of scales that a kernel covers, its own and those above it.
    """

    def __init__(
        self, inputs: int, outputs: int, size: int, scales: Sequence[float], order: int | None = None, extent: int = 1,
        stride: int = 1, padding: int = 0, borders: tuple[Border, Border] = BORDERS,
    ) -> None:  # fmt: skip
        super().__init__((outputs, inputs, extent), scales, size, order, stride, padding, borders)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.kernels())

    def convolve(self, x: Tensor, kernels: Kernels, bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """Convolve by given kernels, with ``crop`` places cut from each border of the output."""
        return over_scales(torch.cat([*self.by_scale(x, kernels, bias, crop)]), len(kernels))

    def by_scale(self, x: Tensor, kernels: Kernels, bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, one scale (B, outputs, H', W') after the other."""
        padding, kind = self.padding - crop * self.stride, computed_in(x)
        x, kernels = x.to(kind), [kernel.to(kind) for kernel in kernels]
        return scale_convolution(x, kernels, self.sides(x), bias, self.stride, padding, self.border)


class ScalePointwise2d(nn.Module):
    """A 1x1 scale-convolution, (B, inputs, S, H, W) to (B, outputs, S, H, W): no basis, the same at all scales."""

    def __init__(self, inputs: int, outputs: int, extent: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs, extent))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as PyTorch does plain kernels."""
        _reset(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return pointwise_scale_convolution(x, self.weight)

    def kernels(self) -> Kernels:
        """The single kernel."""
        return [self.weight]

    def drawn(self) -> list[Kernels]:
        """One kernel (O, I, 1, 1) per scale it reaches, the same at every scale."""
        return [[tap[..., None, None] for tap in self.weight.unbind(2)]]

    def placed(self, side: int, crop: int) -> tuple[int, int]:
        """Stride and padding: cropping the output crops the input."""
        return 1, -crop

    def convolve(self, x: Tensor, kernels: Kernels, bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """Convolve by a given kernel, with ``crop`` places cut from each border."""
        return pointwise_scale_convolution(cropped(x, crop), kernels[0], bias)

    def by_scale(self, x: Tensor, kernels: Kernels, bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, one scale after the other."""
        yield from by_scale(self.convolve(x, kernels, bias, crop))

    def start_from(self, kernel: Tensor) -> None:
        """Copy a plain kernel (O, I, 1, 1); weights to other scales become zero."""
        with torch.no_grad():
            self.weight.zero_()
            self.weight[:, :, 0].copy_(kernel[:, :, 0, 0])


class ScaleBatchNorm2d(nn.BatchNorm2d):
    """Batch norm with one mean and variance per channel, over batch, scales and places of (B, C, S, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return over_scales(super().forward(pictures(x)), x.shape[2])


class ScaleMaxPool2d(nn.MaxPool2d):
    """Max pooling over places, at each scale of (B, C, S, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        return over_scales(super().forward(pictures(x)), x.shape[2])


class ScalePool(nn.Module):
    """Pooling over scales: (B, C, S, H, W) to (B, C, H, W), the maximum or the first scale alone."""

    def __init__(self, how: Pooling = "max") -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        return scale_pool(x, self.how)


def _reset(weight: Tensor) -> None:
    bound = 1 / math.sqrt(math.prod(weight.shape[1:]))
    nn.init.uniform_(weight, -bound, bound)
