"""A convolution, its batch norm and its ReLU as one layer: in evaluation the norm is folded into the kernels, which are
computed once and cached until the weights change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.prepared import Prepared
from vergence.ops.scale import Border, bordered_convolution, cropped, pointwise

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """A cache of values computed from tensors, valid until one of them changes.

    A change is another tensor, or an in-place write that PyTorch's version counter sees: an optimiser step,
    ``load_state_dict``, ``copy_``. Other writes (a batch norm in training, writes to ``.data``) must be followed by
    `forget`. Copies and pickles of a layer start with an empty cache.
    """

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._made: list[Made] = []

    def __call__(self, make: Callable[[], list[Made]], *sources: Tensor, kind: Any = None) -> list[Made]:
        """``make()``, or its cached result for the same sources and ``kind``."""
        learning = torch.is_grad_enabled() and any(source.requires_grad for source in sources)
        if learning or torch.compiler.is_compiling() or any(source.is_inference() for source in sources):
            return make()
        key = (kind, *((source.data_ptr(), source._version, source.dtype, source.device) for source in sources))
        if key != self._key:
            with torch.inference_mode(False), torch.no_grad():
                values = make()
            first = values[0]
            if isinstance(first, Tensor) and (type(first) is not Tensor or first.is_meta):  # no values to cache
                return values
            self._key, self._made = key, values
        return self._made

    def forget(self) -> None:
        """Empty the cache."""
        self._key, self._made = None, []

    def __reduce__(self) -> Any:
        return Kept, ()


class Convolution(Protocol):
    """A layer that can be run with kernels other than its own."""

    @property
    def weight(self) -> Tensor:
        """The learned parameter."""

    def kernels(self) -> list[Tensor]:
        """The kernels it convolves by, each with the output channels as first dimension."""

    def drawn(self) -> list[list[Tensor]]:
        """All kernels as plain ones (O, I, k, k): for each scale, one per scale it reaches; 1x1 kernels only once."""

    def placed(self, side: int, crop: int) -> tuple[int, int]:
        """Stride and padding for a kernel of that side, with ``crop`` places cut from each border of the output."""

    def convolve(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """Convolve by given kernels, with ``crop`` places cut from each border of the output."""

    def by_scale(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, one scale after the other."""


class PlainConv2d(nn.Conv2d):
    """`torch.nn.Conv2d` without bias that can be folded, with one border mode for training and one for evaluation."""

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0, groups: int = 1,
        borders: tuple[Border, Border] = ("zeros", "zeros"),
    ) -> None:  # fmt: skip
        self.borders = borders
        super().__init__(inputs, outputs, size, stride, padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.kernels())

    def kernels(self) -> list[Tensor]:
        """The single kernel."""
        return [self.weight]

    def drawn(self) -> list[list[Tensor]]:
        """The single kernel."""
        return [[self.weight]]

    def placed(self, side: int, crop: int) -> tuple[int, int]:
        """Stride and padding with ``crop`` places cut from each border of the output."""
        return self.stride[0], int(self.padding[0]) - crop * self.stride[0]

    def convolve(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """Convolve by a given kernel; ``crop`` places at each border of the output are not computed."""
        if self.kernel_size == (1, 1) and self.stride == (1, 1) and self.groups == 1:
            return pointwise(cropped(x, crop), kernels[0][..., 0, 0], bias)
        padding, border = int(self.padding[0]) - crop * self.stride[0], self.borders[0 if self.training else 1]
        return bordered_convolution(x, kernels[0], bias, self.stride[0], padding, border, self.groups)

    def by_scale(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, for the single scale."""
        yield self.convolve(x, kernels, bias, crop)

    def start_from(self, kernel: Tensor) -> None:
        """Copy a kernel into the weights."""
        with torch.no_grad():
            self.weight.copy_(kernel)


class Folded(nn.Module):
    """``relu(norm(conv(x)))``, the ReLU if ``rectified``; a single convolution with bias in evaluation."""

    def __init__(self, conv: Convolution, norm: nn.BatchNorm2d, rectified: bool = True) -> None:
        super().__init__()
        self.conv, self.norm, self.rectified = conv, norm, rectified
        self._kept: Kept[Tensor] = Kept()
        self._ready: Kept[list[Prepared]] = Kept()

    def forward(self, x: Tensor, crop: int = 0) -> Tensor:
        """The output with ``crop`` places cut from each border. In training the norm's statistics include them."""
        if self.training:
            self._kept.forget()  # PyTorch's version counter does not see a norm's writes to its statistics
            self._ready.forget()
            out = cropped(self.norm(self.conv.convolve(x, self.conv.kernels())), crop)
        else:
            kernels, bias = self.folded(x)
            out = self.conv.convolve(x.to(bias.dtype), kernels, bias, crop)
        return F.relu(out, inplace=True) if self.rectified else out

    def folded(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The kernels with the norm folded in and the remaining bias, in the type that convolutions of ``x`` use:
        autocast's, where it is on."""
        kind = computed_in(x)

        def make() -> list[Tensor]:
            return [value.to(kind) for value in self._normed(self.conv.kernels())]

        *kernels, bias = self._kept(make, *self._sources(), kind=kind)
        return kernels, bias

    def prepared(self, crop: int = 0) -> list[list[Prepared]]:
        """The same prepared for a CPU, with ``crop`` places cut from each border: for each scale, one per scale it
        reaches, of which the first has the bias."""

        def make() -> list[list[Prepared]]:
            drawn = self.conv.drawn()
            *kernels, bias = self._normed([tap for taps in drawn for tap in taps])
            biases = [None if above else bias for taps in drawn for above, _ in enumerate(taps)]
            flat = iter(
                [Prepared(k, b, *self.conv.placed(k.shape[-1], crop)) for k, b in zip(kernels, biases, strict=True)]
            )
            return [[next(flat) for _ in taps] for taps in drawn]

        return self._ready(make, *self._sources(), kind=crop)

    def _sources(self) -> tuple[Tensor, ...]:
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        return self.conv.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var

    def _normed(self, kernels: list[Tensor]) -> list[Tensor]:
        """Kernels with the norm folded in, followed by the remaining bias."""
        _, weight, bias, mean, variance = self._sources()
        gain = weight * (variance + self.norm.eps).rsqrt()
        return [*(k * gain.view(-1, *[1] * (k.dim() - 1)) for k in kernels), bias - mean * gain]


def computed_in(x: Tensor) -> torch.dtype:
    """The type that convolutions of ``x`` are computed in."""
    on = torch.amp.is_autocast_available(x.device.type) and torch.is_autocast_enabled(x.device.type)
    return torch.get_autocast_dtype(x.device.type) if on and x.dtype != torch.float64 else x.dtype
