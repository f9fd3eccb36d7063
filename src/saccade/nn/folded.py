"""A convolution, its batch norm and its ReLU as one: in evaluation the norm is folded into the kernels, which are made
once and kept until the weights change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.ops.scale import Border, bordered_convolution, cropped, pointwise


class Kept:
    """What was made of some tensors, kept until one of them changes.

    A change is another tensor, or a write into one that PyTorch counts: an optimiser's step, ``load_state_dict``,
    ``copy_``. What it does not count (a batch norm that trains, writes into ``.data``) must be followed by `forget`.
    Copies and pickles of a layer start with nothing kept.
    """

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._made: list[Tensor] = []

    def __call__(self, make: Callable[[], list[Tensor]], *sources: Tensor, kind: Any = None) -> list[Tensor]:
        """``make()``, or what it gave the last time for the same sources and ``kind``."""
        learning = torch.is_grad_enabled() and any(source.requires_grad for source in sources)
        if learning or torch.compiler.is_compiling() or any(source.is_inference() for source in sources):
            return make()
        key = (kind, *((source.data_ptr(), source._version, source.dtype, source.device) for source in sources))
        if key != self._key:
            with torch.inference_mode(False), torch.no_grad():
                made = make()
            if type(made[0]) is not Tensor or made[0].is_meta:  # shapes alone are not to be kept
                return made
            self._key, self._made = key, made
        return self._made

    def forget(self) -> None:
        """Make it anew the next time."""
        self._key, self._made = None, []

    def __reduce__(self) -> Any:
        return Kept, ()


class Convolution(Protocol):
    """A layer that can be run with kernels other than its own."""

    @property
    def weight(self) -> Tensor:
        """What is learnt."""

    def kernels(self) -> list[Tensor]:
        """What it convolves by, each with the outputs as first dimension."""

    def convolve(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """By given kernels, without ``crop`` places of each border of the result."""

    def by_scale(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, one scale after the other."""


class PlainConv2d(nn.Conv2d):
    """`torch.nn.Conv2d` without bias that knows how to be folded, with a border in training and one in evaluation."""

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0, groups: int = 1,
        borders: tuple[Border, Border] = ("zeros", "zeros"),
    ) -> None:  # fmt: skip
        self.borders = borders
        super().__init__(inputs, outputs, size, stride, padding, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolve(x, self.kernels())

    def kernels(self) -> list[Tensor]:
        """The one there is."""
        return [self.weight]

    def convolve(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Tensor:
        """By a given kernel, without ``crop`` places of each border: those are not computed."""
        if self.kernel_size == (1, 1) and self.stride == (1, 1) and self.groups == 1:
            return pointwise(cropped(x, crop), kernels[0][..., 0, 0], bias)
        padding, border = int(self.padding[0]) - crop * self.stride[0], self.borders[0 if self.training else 1]
        return bordered_convolution(x, kernels[0], bias, self.stride[0], padding, border, self.groups)

    def by_scale(self, x: Tensor, kernels: list[Tensor], bias: Tensor | None = None, crop: int = 0) -> Iterator[Tensor]:
        """The same, of the one scale there is."""
        yield self.convolve(x, kernels, bias, crop)

    def start_from(self, kernel: Tensor) -> None:
        """Take over a kernel."""
        with torch.no_grad():
            self.weight.copy_(kernel)


class Folded(nn.Module):
    """``relu(norm(conv(x)))``, the ReLU if asked for; one convolution with a bias in evaluation."""

    def __init__(self, conv: Convolution, norm: nn.BatchNorm2d, rectified: bool = True) -> None:
        super().__init__()
        self.conv, self.norm, self.rectified = conv, norm, rectified
        self._kept = Kept()

    def forward(self, x: Tensor, crop: int = 0) -> Tensor:
        """The result without ``crop`` places of each border, as if cut off afterwards. In training the norm sees them
        before they are."""
        if self.training:
            self._kept.forget()  # PyTorch does not count what a norm writes into its statistics
            out = cropped(self.norm(self.conv.convolve(x, self.conv.kernels())), crop)
        else:
            kernels, bias = self.folded(x)
            out = self.conv.convolve(x.to(bias.dtype), kernels, bias, crop)
        return F.relu(out, inplace=True) if self.rectified else out

    def folded(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The kernels with the norm in them and the bias that it leaves, in the type that ``x`` is to be computed in:
        autocast's, where it is on."""
        norm, kind = self.norm, computed_in(x)
        assert norm.running_mean is not None
        assert norm.running_var is not None
        mean, variance = norm.running_mean, norm.running_var

        def make() -> list[Tensor]:
            gain = norm.weight * (variance + norm.eps).rsqrt()
            kernels = [k * gain.view(-1, *[1] * (k.dim() - 1)) for k in self.conv.kernels()]
            return [made.to(kind) for made in (*kernels, norm.bias - mean * gain)]

        sources = (self.conv.weight, norm.weight, norm.bias, mean, variance)
        *kernels, bias = self._kept(make, *sources, kind=kind)
        return kernels, bias


def computed_in(x: Tensor) -> torch.dtype:
    """The type that convolutions of ``x`` are computed in."""
    on = torch.amp.is_autocast_available(x.device.type) and torch.is_autocast_enabled(x.device.type)
    return torch.get_autocast_dtype(x.device.type) if on and x.dtype != torch.float64 else x.dtype
