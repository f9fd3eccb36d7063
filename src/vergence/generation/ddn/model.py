"""Two networks and a measurement: F estimates the noise in the range of H†, G the part in the null space of H.

``x̂ = z - P_r F(z) + P_n G(z - P_r F(z))`` with ``z = H†y``: the cascade (Eq. 8), with the sign of the public code, in
which F predicts the noise. ResUNet, the null-space network and unrolled proximal gradients have the same F and G.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.generation.ddn.settings import ModelConfig
from vergence.generation.measurements import operator_for, visible
from vergence.generation.measuring import Measure
from vergence.ops.linear import Operator
from vergence.ops.precision import full_precision, wide
from vergence.ops.tiles import tiled


class Restored(NamedTuple):
    """A picture and its parts: ``image = z - noise + detail``, but for networks without projections."""

    image: Tensor
    noise: Tensor
    """``P_r F``, what was subtracted from the measured part."""
    detail: Tensor
    """``P_n G``, what was added."""
    raw: Tensor
    """F's output before it is projected."""


class Denoiser(nn.Sequential):
    """F: 3x3 convolutions with ReLU between them, and batch norm in all but the first and last."""

    multiple = 1

    def __init__(self, inputs: int, outputs: int, width: int = 64, depth: int = 4, momentum: float = 0.95) -> None:
        layers: list[nn.Module] = [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False),
                       nn.BatchNorm2d(width, 1e-4, momentum), nn.ReLU(inplace=True)]  # fmt: skip
        super().__init__(*layers, nn.Conv2d(width, outputs, 3, padding=1, bias=False))
        self.reach = depth
        for layer in self:
            if isinstance(layer, nn.Conv2d) and not layer.weight.is_meta:
                nn.init.orthogonal_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for number in range(2):
        layers += [nn.Conv2d(outputs if number else inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs),
                   nn.ReLU(inplace=True)]  # fmt: skip
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """G: an encoder by max-pooling and a decoder by repetition and convolution, with skip connections."""

    def __init__(self, inputs: int, outputs: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip((inputs, *widths), widths, strict=False))
        falling = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(
            nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b),
                          nn.ReLU(inplace=True))
            for a, b in falling
        )  # fmt: skip
        self.merge = nn.ModuleList(_twice(2 * b, b) for _, b in falling)
        self.last = nn.Conv2d(widths[0], outputs, 1)
        self.multiple = 2 ** (len(widths) - 1)
        # Two convolutions on the way down and three on the way up, and a pixel for each change of size.
        self.reach = 2 ** len(widths) + sum(5 * 2**level for level in range(len(widths)))

    def forward(self, x: Tensor) -> Tensor:
        """Pictures of any size: borders are repeated up to a multiple."""
        height, width = x.shape[-2:]
        padding = (0, -width % self.multiple, 0, -height % self.multiple)
        x = F.pad(x, padding, mode="replicate") if any(padding) else x
        skips = []
        for level, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if level else x)
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, skips[-2::-1], strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        out: Tensor = self.last(x)
        return out[..., :height, :width]


class Shuffled(nn.Module):
    """A small network for photographs: pixels of a block become channels, convolutions with skips work on them, and
    their output becomes a block of pixels again."""

    def __init__(self, inputs: int, outputs: int, width: int, depth: int, factor: int) -> None:
        super().__init__()
        self.factor = self.multiple = factor
        self.first = nn.Conv2d(inputs * factor**2, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True),
                          nn.Conv2d(width, width, 3, padding=1))
            for _ in range(depth)
        )  # fmt: skip
        self.last = nn.Conv2d(width, outputs * factor**2, 3, padding=1)
        self.reach = (2 + 2 * depth) * factor
        nn.init.zeros_(self.last.weight)
        assert self.last.bias is not None
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Pictures of any size: borders are repeated up to a multiple."""
        height, width = x.shape[-2:]
        padding = (0, -width % self.factor, 0, -height % self.factor)
        x = F.pad(x, padding, mode="replicate") if any(padding) else x
        x = F.relu(self.first(F.pixel_unshuffle(x, self.factor)))
        for block in self.blocks:
            x = x + block(x)
        return F.pixel_shuffle(self.last(x), self.factor)[..., :height, :width]


Network = Denoiser | UNet | Shuffled


def range_network(c: ModelConfig, inputs: int, outputs: int) -> Network:
    """F."""
    if c.family == "shuffled":
        return Shuffled(inputs, outputs, c.range_width, c.range_depth, c.block)
    return Denoiser(inputs, outputs, c.range_width, c.range_depth, c.momentum)


def null_network(c: ModelConfig, inputs: int, outputs: int) -> Network:
    """G."""
    if c.family == "shuffled":
        return Shuffled(inputs, outputs, c.null_widths[0], c.null_depth, c.block)
    return UNet(inputs, outputs, c.null_widths)


class DDN(nn.Module):
    """Restores pictures (B, C, H, W) from their measurements."""

    tile = 0
    """Networks work on tiles of this side, if it is not 0; projections are always of the whole picture."""

    def __init__(self, config: ModelConfig, measure: Measure) -> None:
        super().__init__()
        self.settings, self.measure = config, measure
        channels = config.channels
        # Inpainting: the networks see a smooth fill and the mask. A chain G∘F passes pictures, not masks, between them.
        seen = visible(measure) * channels
        between = seen if config.method == "ddn" else channels
        self.noise = range_network(config, seen, channels) if config.use_range else None
        self.detail = null_network(config, between, channels) if config.use_null else None
        self.length = nn.Parameter(torch.full((), 0.5)) if config.method == "npgd" else None

    def forward(self, y: Tensor, operator: Operator | None = None) -> Restored:
        """``operator`` is that of the config for measurements of this size, if none is given."""
        operator = operator or operator_for(self.measure, y)
        y = y if y.is_complex() else wide(y)
        with full_precision(y):
            z = operator.pinv(y)
        return getattr(self, f"_{self.settings.method}")(z, y, operator)

    # The methods ------------------------------------------------------------------------------------------------------

    def _ddn(self, z: Tensor, y: Tensor, operator: Operator) -> Restored:
        """Eqs. 7 and 8; without both projections it is DDN1, without G DDN3, without F DDN2."""
        projected = self.settings.projected
        if self.noise is None:
            raw = noise = torch.zeros_like(z)
        else:
            raw = self._run(self.noise, self._seen(z, operator))
            noise = _precise(operator.range, raw) if projected else raw
        clean = z - noise
        if self.detail is None:
            return Restored(clean, noise, torch.zeros_like(z), raw)
        start = clean if self.settings.connection == "cascade" else z
        start = start.detach() if self.settings.decoupled else start
        seen = self._seen(start, operator)
        detail = self._run(self.detail, seen)
        detail = detail + seen[:, : z.shape[1]] if visible(self.measure) > 1 else detail  # corrects the fill
        detail = _precise(operator.null, detail) if projected else detail
        return Restored(clean + detail, noise, detail, raw)

    def _resunet(self, z: Tensor, y: Tensor, operator: Operator) -> Restored:
        detail = self._chain(z, operator)
        return Restored(z + detail, torch.zeros_like(z), detail, torch.zeros_like(z))

    def _nsn(self, z: Tensor, y: Tensor, operator: Operator) -> Restored:
        """Eq. 5 with the same two networks in a chain."""
        detail = _precise(operator.null, self._chain(z, operator))
        return Restored(z + detail, torch.zeros_like(z), detail, torch.zeros_like(z))

    def _npgd(self, z: Tensor, y: Tensor, operator: Operator) -> Restored:
        """Unrolled proximal gradients: steps of a learned share of 1 / |H|² toward the measurement, each followed by
        the chain."""
        assert self.length is not None
        x, length = z, self.length * _largest(operator) ** -2
        for _ in range(self.settings.steps):
            x = x - length * _precise(lambda u: operator.adjoint(operator.forward(u) - y), x)
            x = x + self._chain(x, operator) if self.settings.residual else self._chain(x, operator)
        return Restored(x, torch.zeros_like(z), x - z, torch.zeros_like(z))

    # Parts ------------------------------------------------------------------------------------------------------------

    def _chain(self, x: Tensor, operator: Operator) -> Tensor:
        """G∘F."""
        assert self.noise is not None
        assert self.detail is not None
        return self._run(self.detail, self._run(self.noise, self._seen(x, operator)))

    def _run(self, network: Network, x: Tensor) -> Tensor:
        if not self.tile or max(x.shape[-2:]) <= self.tile:
            return network(x)
        return tiled(network, x, self.tile, network.reach, multiple=network.multiple)

    def _seen(self, x: Tensor, operator: Operator) -> Tensor:
        """What a network sees of a picture: for inpainting, holes are filled smoothly and the mask is beside it."""
        if visible(self.measure) == 1:
            return x
        known = operator.known.to(x.device).expand_as(x)  # type: ignore[attr-defined]
        return torch.cat([filled(x, known), known.to(x.dtype)], 1)


def _largest(operator: Operator) -> float:
    """|H|, computed once for each operator."""
    if not hasattr(operator, "_largest"):
        operator._largest = operator.largest(20)  # type: ignore[attr-defined]
    return float(operator._largest)  # type: ignore[attr-defined]


def _precise(project: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """A projection in float32 at least, whatever the networks compute in."""
    with full_precision(x):
        return project(wide(x))


def filled(x: Tensor, known: Tensor) -> Tensor:
    """Pictures (B, C, H, W) whose unknown pixels are filled from ever coarser means of the known ones (pull-push)."""
    weight = known.to(x.dtype)
    if min(x.shape[-2:]) < 2 or bool(known.all()):
        total = weight.sum((-2, -1), keepdim=True)
        return torch.where(known, x, (x * weight).sum((-2, -1), keepdim=True) / total.clamp_min(1))
    pool = partial(F.avg_pool2d, kernel_size=2, ceil_mode=True)
    share = pool(weight)
    coarse = filled(pool(x * weight) / share.clamp_min(1e-6), share > 0)
    size = x.shape[-2:]
    smooth = F.interpolate(coarse, size, mode="bilinear", align_corners=False)
    return torch.where(known, x, smooth)
