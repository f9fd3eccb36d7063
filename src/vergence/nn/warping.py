"""Layers that bend a feature map by one field for all channels: an affine map, a saliency sampler, moved taps.

Every one of them is a :class:`Warp`, and so is :class:`vergence.nn.vtn.VolumetricTransformer`, which has one field per
group of channels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops.deform import deformable_convolution
from vergence.ops.fields import field_of_grid, sampled
from vergence.ops.precision import full_precision, wide


class Warp(nn.Module):
    """Maps (B, K, H, W) to maps of the same size, sampled where ``fields`` says. Fields are computed in float32 at
    least: a coordinate in half precision would be a fraction of a pixel off."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    def fields(self, u: Tensor) -> Tensor:
        """Fields (B, C, 2, H, W) of a map (B, K, H, W), in its pixels, to the right and down."""
        raise NotImplementedError

    def forward(self, u: Tensor) -> Tensor:
        return self.warp(u)[0]

    def warp(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The warped map (B, K, H, W), and the fields (B, C, 2, H, W)."""
        self._refuse(u)
        with full_precision(u):
            x = wide(u)
            fields = self.fields(x)
            return sampled(x, fields).to(u.dtype), fields

    def _refuse(self, u: Tensor) -> None:
        name = type(self).__name__
        if u.ndim != 4 or u.shape[1] != self.channels or not u.shape[2] * u.shape[3]:
            raise VergenceError(
                f"a {name} needs a map (B, {self.channels}, H, W), got {tuple(u.shape)}: attach it where there is one"
            )
        # grid_sample takes NaN for a place like any other, so it would be hidden.
        if not (u.is_meta or torch.compiler.is_compiling()) and not u.isfinite().all():
            raise VergenceError(f"a {name} needs finite numbers, but its map holds NaN or infinity")


class AffineTransformer(Warp):
    """A spatial transformer (Jaderberg et al., 2015): one affine map of the picture plane, predicted from the map by a
    convolution, an average over 4 x 4 cells and two linear layers; it starts as the identity."""

    def __init__(self, channels: int, width: int = 32) -> None:
        super().__init__(channels)
        self.conv = nn.Conv2d(channels, width, 3, padding=1)
        self.hidden = nn.Linear(16 * width, width)
        self.affine = nn.Linear(width, 6)
        nn.init.zeros_(self.affine.weight)
        with torch.no_grad():
            self.affine.bias.copy_(torch.tensor([1.0, 0, 0, 0, 1, 0]))

    def fields(self, u: Tensor) -> Tensor:
        x = F.adaptive_avg_pool2d(F.relu(self.conv(u.to(self.conv.weight.dtype))), 4)
        theta = self.affine(F.relu(self.hidden(x.flatten(1)))).unflatten(1, (2, 3)).to(u.dtype)
        grid = F.affine_grid(theta, [len(u), 1, *u.shape[-2:]], align_corners=False)
        return field_of_grid(grid).unsqueeze(1)


class SaliencySampler(Warp):
    """The sampler of Recasens et al. (2018) on a feature map: positions are drawn to saliency, predicted by a 1 x 1
    convolution, through a Gaussian kernel of a third of the map. It starts with equal saliency everywhere, when it
    still pulls positions at the border inwards."""

    def __init__(self, channels: int, share: float = 1 / 3) -> None:
        super().__init__(channels)
        self.saliency = nn.Conv2d(channels, 1, 1)
        self.share = share
        for start in self.saliency.parameters():
            nn.init.zeros_(start)

    def fields(self, u: Tensor) -> Tensor:
        height, width = u.shape[-2:]
        salient = (
            self.saliency(u.to(self.saliency.weight.dtype))
            .to(u.dtype)
            .flatten(2)
            .softmax(2)
            .unflatten(2, (height, width))
        )
        down, across = (self._kernel(side, u) for side in (height, width))
        y, x = (torch.arange(side, device=u.device, dtype=u.dtype) for side in (height, width))

        def smooth(m: Tensor) -> Tensor:  # the kernel is separable
            return down @ m @ across

        mass = smooth(salient)
        to_x, to_y = smooth(salient * x) / mass, smooth(salient * y.unsqueeze(1)) / mass
        return torch.stack([to_x - x, to_y - y.unsqueeze(1)], 2)

    def _kernel(self, side: int, like: Tensor) -> Tensor:
        place = torch.arange(side, device=like.device, dtype=like.dtype)
        return (-0.5 * ((place - place.unsqueeze(1)) / max(self.share * side, 0.5)).square()).exp()


class DeformableConv2d(nn.Conv2d):
    """A convolution whose taps are moved by offsets, which another convolution of the same input predicts (Dai et al.,
    2017). Offsets start at zero, so it starts as the convolution it replaces."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        sizes = self.kernel_size, self.stride, self.padding, self.dilation
        if self.padding_mode != "zeros" or any(isinstance(size, str) or len(set(size)) > 1 for size in sizes):
            raise VergenceError("a deformable convolution has square kernels, strides and zero padding")
        taps = math.prod(self.kernel_size)
        like = {"device": self.weight.device, "dtype": self.weight.dtype}
        self.offset = nn.Conv2d(self.in_channels, 2 * taps, *sizes, **like)  # type: ignore[arg-type]
        for start in self.offset.parameters():
            nn.init.zeros_(start)

    def forward(self, x: Tensor) -> Tensor:
        with full_precision(x):
            own = x.to(self.weight.dtype)
            moved = deformable_convolution(
                own, self.offset(own), self.weight, self.bias, self.stride[0], int(self.padding[0]), self.dilation[0]
            )
        return moved.to(x.dtype)


def deformed(model: nn.Module, name: str) -> DeformableConv2d:
    """Replace the convolution with this name by a deformable one with the same weights, in place."""
    plain = model.get_submodule(name)
    if not isinstance(plain, nn.Conv2d):
        raise VergenceError(f"{name!r} is a {type(plain).__name__}: only a Conv2d can become deformable")
    new = DeformableConv2d(
        plain.in_channels, plain.out_channels, plain.kernel_size, plain.stride, plain.padding, plain.dilation,
        plain.groups, plain.bias is not None, device=plain.weight.device, dtype=plain.weight.dtype,
    )  # fmt: skip
    new.load_state_dict(plain.state_dict(), strict=False)
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, new)
    return new
