"""Convolutions made ready once for a CPU, and without gradients: the bias, the ReLU and a sum with what is there are
part of them, so that results go to memory once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from saccade.ops.scale import add_pointwise
from saccade.ops.winograd import tiled_convolution, tiled_kernel

FEWEST = 32
"""Channels from which on fewer products are worth their sums."""


def quick(x: Tensor) -> bool:
    """Whether pictures can be convolved by what was `Prepared`: real ones in single precision, on a CPU, without
    gradients."""
    here = type(x) is Tensor and x.device.type == "cpu" and x.dtype == torch.float32
    return here and not (torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"))


@cache
def fused() -> Any:
    """PyTorch's fused convolutions (oneDNN's), where it has them."""
    able = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
    return torch.ops.mkldnn if able else None


class Prepared:
    """Pictures (B, I, H, W) convolved by a kernel (O, I, k, k) with a bias: (B, O, H', W'), channels last in memory.

    A negative ``padding`` cuts off what it would add.
    """

    def __init__(self, kernel: Tensor, bias: Tensor | None, stride: int = 1, padding: int = 0) -> None:
        self.kernel, self.bias, self.stride, self.padding = kernel, bias, stride, padding
        tiled = stride == 1 and kernel.shape[-1] in (3, 5) and min(kernel.shape[:2]) >= FEWEST
        self.tiles = tiled_kernel(kernel) if tiled else None
        self.packed: Tensor | None = None

    def __call__(self, x: Tensor, rectified: bool = True) -> Tensor:
        """The convolution, and its ReLU if asked for."""
        return self._made(*self._within(x), rectified)

    def _made(self, x: Tensor, padding: int, rectified: bool) -> Tensor:
        if self.tiles is not None:
            made = tiled_convolution(x, self.tiles, self.bias, padding)
            # Of tiles that reach over the border a part is kept: the ReLU puts that together as well.
            return torch.relu(made) if rectified else made
        if fused() is None:
            return _rectified(F.conv2d(x, self.kernel, self.bias, self.stride, padding), rectified)
        after = "relu" if rectified else "none"
        result: Tensor = fused()._convolution_pointwise(x, *self._weights(x, padding), after, [], "")
        return result

    def add_to(self, out: Tensor, x: Tensor, rectified: bool = True) -> Tensor:
        """The convolution added to what is in ``out``, and the ReLU of that."""
        x, padding = self._within(x)
        if not rectified and self.kernel.shape[-1] == self.stride == 1 and not padding:
            made = add_pointwise(out, x, self.kernel.flatten(1))  # oneDNN is slow at it for some sizes
            return made if self.bias is None else made.add_(self.bias.view(-1, 1, 1))
        if fused() is None or self.tiles is not None:
            return _rectified(out.add_(self._made(x, padding, rectified=False)), rectified)
        after = "relu" if rectified else None
        result: Tensor = fused()._convolution_pointwise_.binary(
            out, x, *self._weights(x, padding), "add", 1.0, after, [], ""
        )
        return result

    def _within(self, x: Tensor) -> tuple[Tensor, int]:
        if self.padding >= 0:
            return x, self.padding
        cut = x[..., -self.padding : self.padding, -self.padding : self.padding]
        return cut.contiguous(memory_format=torch.channels_last), 0

    def _weights(self, x: Tensor, padding: int) -> tuple[Any, ...]:
        """What a fused convolution takes: the kernel in its own order, the bias, and how to go."""
        how = [padding] * 2, [self.stride] * 2, [1, 1], 1
        if self.packed is None:
            pack: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
            self.packed = pack(self.kernel.contiguous().to_mkldnn(), *how, list(x.shape))
        return self.packed, self.bias, *how


def _rectified(x: Tensor, rectified: bool) -> Tensor:
    return F.relu(x, inplace=True) if rectified else x
