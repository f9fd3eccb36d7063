"""A convolution with its batch norm and its ReLU, for networks of many of them that also have to be fast on a CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.folded import Kept, computed_in
from vergence.nn.prepared import Prepared, quick
from vergence.ops.winograd import TILE, tiled_convolution

FEWEST = 64
"""Number of channels from which Winograd's transform pays here."""
BAND = 2_500_000
"""Values of a band of a map after the transform: more would not stay in the cache."""


class ConvNorm(nn.Module):
    """A convolution, its batch norm (if ``normed``) and, if ``rectified``, a ReLU. Without a ``padding`` the size of a
    map is kept.

    In evaluation the norm is folded into the kernel, which is kept until the weights change; on a CPU in float32, wide
    3 x 3 kernels go through Winograd's transform."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int = 3,
        stride: int = 1,
        bias: bool = False,
        rectified: bool = True,
        padding: int | None = None,
        normed: bool = True,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2 if padding is None else padding, bias=bias)
        self.norm: nn.BatchNorm2d | nn.Identity = nn.BatchNorm2d(outputs) if normed else nn.Identity()
        self.rectified = rectified
        self._kept: Kept[Tensor] = Kept()
        self._ready: Kept[Prepared] = Kept()

    def forward(self, x: Tensor, scale: int = 1) -> Tensor:
        """``scale`` enlarges the map bilinearly before the norm. For a 1 x 1 kernel that is the same as enlarging the
        input, since the weights of an interpolation sum to one, with fewer products."""
        if self.training:
            self._kept.forget()  # PyTorch's version counter does not see a norm's writes to its statistics
            self._ready.forget()
            out = self.norm(enlarged(self.conv(x), scale))
        else:
            out = enlarged(self._convolved(x, rectified=self.rectified and scale == 1), scale)
            if scale == 1:
                return out
        return F.relu(out, inplace=True) if self.rectified else out

    def _convolved(self, x: Tensor, rectified: bool) -> Tensor:
        if quick(x) == torch.float32:
            (layer,) = self._ready(lambda: [self._prepared()], *self._sources())
            x = x.contiguous(memory_format=torch.channels_last)
            return layer(x, rectified) if layer.tiles is None else _banded(layer, x, rectified)
        kind = computed_in(x)
        kernel, bias = self._kept(lambda: [t.to(kind) for t in self.folded()], *self._sources(), kind=kind)
        out = F.conv2d(x.to(kind), kernel, bias, self.conv.stride, self.conv.padding)
        return F.relu(out, inplace=True) if rectified else out

    def _prepared(self) -> Prepared:
        kernel, bias = self.folded()
        layer = Prepared(kernel, bias, self.conv.stride[0], int(self.conv.padding[0]))
        if min(layer.kernel.shape[:2]) < FEWEST:
            layer.tiles = None
        return layer

    def folded(self) -> list[Tensor]:
        """The kernel with the norm folded in, and the remaining bias."""
        if isinstance(self.norm, nn.Identity):
            kernel, *own = self._sources()
            return [kernel, own[0] if own else kernel.new_zeros(len(kernel))]
        weight, scale, shift, mean, variance, *bias = self._sources()
        gain = scale * (variance + self.norm.eps).rsqrt()
        return [weight * gain.view(-1, 1, 1, 1), shift + ((bias[0] if bias else 0) - mean) * gain]

    def _sources(self) -> tuple[Tensor, ...]:
        norm = self.norm
        own: tuple[Tensor, ...] = (self.conv.weight,)
        if isinstance(norm, nn.BatchNorm2d):
            assert norm.running_mean is not None
            assert norm.running_var is not None
            own = (*own, norm.weight, norm.bias, norm.running_mean, norm.running_var)
        return own if self.conv.bias is None else (*own, self.conv.bias)


def _banded(layer: Prepared, x: Tensor, rectified: bool) -> Tensor:
    """Winograd's convolution of a map (B, I, H, W) with zeros around it, a band of rows at a time."""
    assert layer.tiles is not None
    batch, inputs, height, width = x.shape
    outputs = layer.tiles.shape[2]
    rows = BAND * 4 // (9 * batch * width * max(inputs, outputs)) // TILE * TILE
    if rows >= height:
        return layer(x, rectified)
    rows, framed = max(rows, TILE), F.pad(x, (1, 1, 1, 1))
    out = x.new_empty(batch, height, width, outputs).permute(0, 3, 1, 2)
    for top in range(0, height, rows):
        band, own = framed[:, :, top : top + rows + 2], out[:, :, top : top + rows]
        made = tiled_convolution(band, layer.tiles, layer.bias)
        torch.clamp(made, min=0, out=own) if rectified else own.copy_(made)
    return out


class GreyConvNorm(ConvNorm):
    """:class:`ConvNorm` of a picture whose three channels are one map, given once: kernels are summed over channels."""

    def __init__(self, outputs: int) -> None:
        super().__init__(3, outputs, bias=True)

    def forward(self, x: Tensor, scale: int = 1) -> Tensor:
        if not self.training:
            return super().forward(x, scale)
        self._kept.forget()
        self._ready.forget()
        conv = self.conv
        summed = F.conv2d(x, conv.weight.sum(1, keepdim=True), conv.bias, padding=conv.padding)
        return F.relu(self.norm(summed), inplace=True)

    def folded(self) -> list[Tensor]:
        kernel, bias = super().folded()
        return [kernel.sum(1, keepdim=True), bias]


def enlarged(x: Tensor, scale: int) -> Tensor:
    """Bilinear interpolation that keeps the corners in place, as published."""
    return x if scale == 1 else F.interpolate(x, scale_factor=scale, mode="bilinear", align_corners=True)
