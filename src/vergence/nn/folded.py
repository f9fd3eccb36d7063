"""A convolution, its batch norm and its ReLU as one: in evaluation the norm is folded into the kernels, which are made
once and kept until the weights change.
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
    """What was made of some tensors, kept until one of them changes.

    A change is another tensor, or a write into one that PyTorch counts: an optimiser's step, ``load_state_dict``,
    ``copy_``. What it does not count (a batch norm that trains, writes into ``.data``) must be followed by `forget`.
    Copies and pickles of a layer start with nothing kept.
    """

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._made: list[Made] = []

    def __call__(self, make: Callable[[], list[Made]], *sources: Tensor, kind: Any = None) -> list[Made]:
        """``make()``, or what it gave the last time for the same sources and ``kind``."""
        learning = torch.is_grad_enabled() and any(source.requires_grad for source in sources)
        if learning or torch.compiler.is_compiling() or any(source.is_inference() for source in sources):
            return make()
        key = (kind, *((source.data_ptr(), source._version, source.dtype, source.device) for source in sources))
        if key != self._key:
            with torch.inference_mode(False), torch.no_grad():
                made = make()
            first = made[0]
            if isinstance(first, Tensor) and (type(first) is not Tensor or first.is_meta):  # shapes alone are not kept
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

    def drawn(self) -> list[list[Tensor]]:
        """All as plain ones (O, I, k, k): for each scale, one for each that it reaches; of 1x1 kernels, once."""

    def placed(self, side: int, crop: int) -> tuple[int, int]:
        """Stride and padding for a kernel of that side, without ``crop`` places of each border of the result."""

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

    def drawn(self) -> list[list[Tensor]]:
        """The one there is."""
        return [[self.weight]]

    def placed(self, side: int, crop: int) -> tuple[int, int]:
        """Stride and padding without ``crop`` places of each border."""
        return self.stride[0], int(self.padding[0]) - crop * self.stride[0]

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
        self._kept: Kept[Tensor] = Kept()
        self._ready: Kept[list[Prepared]] = Kept()

    def forward(self, x: Tensor, crop: int = 0) -> Tensor:
        """The result without ``crop`` places of each border, as if cut off afterwards. In training the norm sees them
        before they are."""
        if self.training:
            self._kept.forget()  # PyTorch does not count what a norm writes into its statistics
            self._ready.forget()
            out = cropped(self.norm(self.conv.convolve(x, self.conv.kernels())), crop)
        else:
            kernels, bias = self.folded(x)
            out = self.conv.convolve(x.to(bias.dtype), kernels, bias, crop)
        return F.relu(out, inplace=True) if self.rectified else out

    def folded(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The kernels with the norm in them and the bias that it leaves, in the type that ``x`` is to be computed in:
        autocast's, where it is on."""
        kind = computed_in(x)

        def make() -> list[Tensor]:
            return [made.to(kind) for made in self._normed(self.conv.kernels())]

        *kernels, bias = self._kept(make, *self._sources(), kind=kind)
        return kernels, bias

    def prepared(self, crop: int = 0) -> list[list[Prepared]]:
        """The same made ready for a CPU, without ``crop`` places of each border: for each scale, one for each that it
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
        """Kernels with the norm in them, and then the bias that it leaves."""
        _, weight, bias, mean, variance = self._sources()
        gain = weight * (variance + self.norm.eps).rsqrt()
        return [*(k * gain.view(-1, *[1] * (k.dim() - 1)) for k in kernels), bias - mean * gain]


def computed_in(x: Tensor) -> torch.dtype:
    """The type that convolutions of ``x`` are computed in."""
    on = torch.amp.is_autocast_available(x.device.type) and torch.is_autocast_enabled(x.device.type)
    return torch.get_autocast_dtype(x.device.type) if on and x.dtype != torch.float64 else x.dtype
