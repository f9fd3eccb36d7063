"""Convolutions prepared once for inference on a CPU: bias, ReLU and the sum with an existing output are fused, so that
results are written to memory once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.scale import add_pointwise
from vergence.ops.winograd import tiled_convolution, tiled_kernel

FEWEST = 32
"""Number of channels from which Winograd's fewer products outweigh its additional sums."""


def quick(x: Tensor) -> torch.dtype | None:
    """The type in which `Prepared` convolutions can process images, or None if they cannot: real tensors in float32, on
    a CPU, without gradients. Under autocast to bfloat16 it is bfloat16, where the processor supports it."""
    here = type(x) is Tensor and x.device.type == "cpu" and x.dtype == torch.float32
    if not here or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return None
    if not torch.is_autocast_enabled("cpu"):
        return x.dtype
    return torch.bfloat16 if torch.get_autocast_dtype("cpu") == torch.bfloat16 and halves() else None


@cache
def fused() -> Any:
    """PyTorch's fused convolutions (oneDNN's), or None where it lacks them."""
    able = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
    return torch.ops.mkldnn if able else None


@cache
def halves() -> bool:
    """Whether fused convolutions of bfloat16 are faster than those of float32."""
    able = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    return fused() is not None and bool(able())


def _fuses(x: Tensor) -> bool:
    """Whether fused convolutions take images of this type: bfloat16 needs a processor that has it."""
    return fused() is not None and (x.dtype != torch.bfloat16 or halves())


class Prepared:
    """Images (B, I, H, W) convolved by a kernel (O, I, k, k) with a bias: (B, O, H', W'), channels last in memory.

    The output has the type of the images. A negative ``padding`` crops instead.
    """

    def __init__(self, kernel: Tensor, bias: Tensor | None, stride: int = 1, padding: int = 0) -> None:
        self.kernel, self.bias, self.stride, self.padding = kernel, bias, stride, padding
        tiled = stride == 1 and kernel.shape[-1] in (3, 5) and min(kernel.shape[:2]) >= FEWEST
        self.tiles = tiled_kernel(kernel) if tiled else None
        self.packed: dict[torch.dtype, tuple[Tensor, Tensor | None]] = {}

    def __call__(self, x: Tensor, rectified: bool = True) -> Tensor:
        """The convolution, followed by a ReLU if ``rectified``."""
        return self._made(*self._within(x), rectified)

    def _made(self, x: Tensor, padding: int, rectified: bool) -> Tensor:
        if self.tiles is not None:
            # In the kernel's type: Winograd's sums lose too many digits in half precision.
            out = tiled_convolution(x.to(self.tiles.dtype), self.tiles, self.bias, padding)
            # Cropping tiles at the border leaves a strided view: the ReLU also makes it contiguous.
            return (torch.relu(out) if rectified else out).to(x.dtype)
        if not _fuses(x):
            return _rectified(F.conv2d(x, *self._typed(x), self.stride, padding), rectified)
        after = "relu" if rectified else "none"
        result: Tensor = fused()._convolution_pointwise(x, *self._weights(x, padding), after, [], "")
        return result

    def add_to(self, out: Tensor, x: Tensor, rectified: bool = True) -> Tensor:
        """Adds the convolution to ``out`` in place, followed by a ReLU if ``rectified``."""
        x, padding = self._within(x)
        if not rectified and self.kernel.shape[-1] == self.stride == 1 and not padding:
            kernel, bias = self._typed(x)
            summed = add_pointwise(out, x, kernel.flatten(1))  # oneDNN is slow at it for some sizes
            return summed if bias is None else summed.add_(bias.view(-1, 1, 1))
        if self.tiles is not None or not _fuses(x):
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

    def _typed(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.kernel.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype)

    def _weights(self, x: Tensor, padding: int) -> tuple[Any, ...]:
        """The arguments of a fused convolution: packed kernel, bias, padding, stride, dilation and groups."""
        how = [padding] * 2, [self.stride] * 2, [1, 1], 1
        if x.dtype not in self.packed:
            pack: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
            kernel, bias = self._typed(x)
            self.packed[x.dtype] = pack(kernel.contiguous().to_mkldnn(), *how, list(x.shape)), bias
        return *self.packed[x.dtype], *how


def _rectified(x: Tensor, rectified: bool) -> Tensor:
    return F.relu(x, inplace=True) if rectified else x
