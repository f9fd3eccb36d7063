"""The networks: GSCNN with a vanishing point stream (Sec. 2.2), and the baselines with the same backbone.

All take images (B, 3, H, W) from -1 to 1 and votes V (B, 1, H, W) from 0 to 1. Columns of panoramas continue around.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.dense.camera360.settings import ModelConfig
from vergence.dense.vanishing import most_voted_axis
from vergence.dense.verticals import Centroid, axis_of, middles, upright
from vergence.nn.inception import TAPS, InceptionV3
from vergence.nn.wrapped import WrapConv2d
from vergence.ops.sphere import rotate

STEP = 32
"""Sides of images are multiples of this."""
COARSE, FINE = 18, 10
"""Classes of pitch and of roll: bins of 10 degrees over 180, and of 1 degree over 10."""


def _resized(x: Tensor, like: Tensor) -> Tensor:
    """Maps resized to the size of others; bilinear, with columns that continue around."""
    size, own = like.shape[-2:], x.shape[-2:]
    if size == own:
        return x
    if own[0] >= size[0]:
        return F.avg_pool2d(x, own[0] // size[0])
    wide = torch.cat([x[..., -1:], x, x[..., :1]], -1)
    each = size[1] // own[1]
    return F.interpolate(wide, (size[0], size[1] + 2 * each), mode="bilinear", align_corners=False)[..., each:-each]


class ConvNorm(nn.Sequential):
    """Convolution, norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1, wraps: bool = True) -> None:
        conv = WrapConv2d(inputs, outputs, size, stride, bias=False, wraps=wraps)
        super().__init__(conv, nn.BatchNorm2d(outputs), nn.ReLU())


class ResPreact(nn.Module):
    """BN-ReLU-3x3 twice, and the input added."""

    def __init__(self, channels: int, wraps: bool = True) -> None:
        super().__init__()
        conv = partial(WrapConv2d, channels, channels, 3, bias=False, wraps=wraps)
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), conv(), nn.BatchNorm2d(channels), nn.ReLU(), conv()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class SmallBackbone(nn.Module):
    """Four stages, each a strided convolution and residual blocks; the maps after each are its taps."""

    def __init__(self, widths: tuple[int, ...], strides: tuple[int, ...], blocks: int, wraps: bool) -> None:
        super().__init__()
        inputs = (3, *widths[:-1])
        self.stages = nn.ModuleList(
            nn.Sequential(ConvNorm(before, width, 3, stride, wraps), *(ResPreact(width, wraps) for _ in range(blocks)))
            for before, width, stride in zip(inputs, widths, strides, strict=True)
        )

    def taps(self, x: Tensor) -> list[Tensor]:
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


def backbone(config: ModelConfig) -> tuple[nn.Module, tuple[int, ...]]:
    """The backbone and the channels of its four taps."""
    if config.backbone == "inception":
        return InceptionV3(0, padded=True, wraps=config.wraps, last_stride=1), TAPS
    return SmallBackbone(config.widths, config.strides, config.blocks, config.wraps), config.widths


class GatedConv(nn.Module):
    """``1x1(x (1 + α))`` with the gate ``α = σ(BN(1x1(ReLU(1x1(BN([x, s]))))))``."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.BatchNorm2d(channels + 1), nn.Conv2d(channels + 1, channels + 1, 1), nn.ReLU(),
            nn.Conv2d(channels + 1, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid(),
        )  # fmt: skip
        self.out = nn.Conv2d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor, side: Tensor) -> Tensor:
        return self.out(x * (1 + self.gate(torch.cat([x, side], 1))))


class VanishingStream(nn.Module):
    """The shape stream with V in place of the image's gradient: taps and votes to one map a (B, 1, h, w)."""

    def __init__(self, taps: tuple[int, ...], widths: tuple[int, ...], wraps: bool) -> None:
        super().__init__()
        self.sides = nn.ModuleList(nn.Conv2d(channels, 1, 1) for channels in taps[1:])
        before = (taps[0], *widths[:2])
        self.residual = nn.ModuleList(ResPreact(channels, wraps) for channels in before)
        self.reduce = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(before, widths, strict=True))
        self.gates = nn.ModuleList(GatedConv(channels) for channels in widths)
        self.edge = nn.Conv2d(widths[2], 1, 1, bias=False)
        self.fuse = nn.Conv2d(2, 1, 1, bias=False)

    def forward(self, taps: list[Tensor], votes: Tensor) -> Tensor:
        x = taps[0]
        for residual, reduce, gate, side, tap in zip(
            self.residual, self.reduce, self.gates, self.sides, taps[1:], strict=True
        ):
            x = gate(reduce(residual(x)), _resized(side(tap), x))
        edge = self.edge(x).sigmoid()
        return self.fuse(torch.cat([edge, _resized(votes, edge)], 1)).sigmoid()


class ASPP(nn.Module):
    """Context of the last tap: its mean, a 1x1, and separable 3x3 of several rates, beside the stream's map."""

    def __init__(self, inputs: int, channels: int, rates: tuple[int, ...], stream: bool, wraps: bool) -> None:
        super().__init__()
        self.pool, self.single = ConvNorm(inputs, channels, 1), ConvNorm(inputs, channels, 1)
        self.side = ConvNorm(1, channels, 1) if stream else None
        self.rates = nn.ModuleList(
            nn.Sequential(
                WrapConv2d(inputs, inputs, 3, dilation=rate, groups=inputs, bias=False, wraps=wraps),
                ConvNorm(inputs, channels, 1),
            )
            for rate in rates
        )
        self.join = ConvNorm((2 + len(rates) + stream) * channels, channels, 1)

    def forward(self, x: Tensor, side: Tensor | None) -> Tensor:
        mean = self.pool(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[-2:])
        maps = [mean, self.single(x), *(rate(x) for rate in self.rates)]
        if self.side is not None and side is not None:
            maps.append(self.side(_resized(side, x)))
        return self.join(torch.cat(maps, 1))


class GSCNN(nn.Module):
    """Logits (B, 2, H, W): background, and the two spots of the vertical."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.backbone, taps = backbone(config)
        wraps, low, hidden = config.wraps, config.low, config.hidden
        self.stream = VanishingStream(taps, config.stream, wraps) if config.votes else None
        self.aspp = ASPP(taps[3], config.context, config.rates, config.votes, wraps)
        self.low = nn.Conv2d(taps[1], low, 1, bias=False)
        joined = config.context + low
        self.logits = nn.Sequential(
            nn.BatchNorm2d(joined), WrapConv2d(joined, hidden, 3, bias=False, wraps=wraps), nn.ReLU(),
            nn.BatchNorm2d(hidden), WrapConv2d(hidden, hidden, 3, bias=False, wraps=wraps), nn.ReLU(),
            nn.BatchNorm2d(hidden), nn.Conv2d(hidden, 2, 1),
        )  # fmt: skip
        last = self.logits[-1]
        assert isinstance(last, nn.Conv2d)
        assert last.bias is not None
        with torch.no_grad():  # the spots are 0.4 % of the sphere: begin near that
            last.bias.copy_(torch.tensor([2.0, -2.0]))

    def forward(self, images: Tensor, votes: Tensor) -> Tensor:
        taps = list(self.backbone.taps(_checked(images)))  # type: ignore[operator]
        side = self.stream(taps, votes) if self.stream is not None else None
        context = _resized(self.aspp(taps[3], side), taps[1])
        return _resized(self.logits(torch.cat([context, self.low(taps[1])], 1)), images)


class Regressor(nn.Module):
    """Unit vectors (B, 3): the vertical, directly. Without circular padding: means over maps that continue around
    cannot tell where in the picture the vertical is."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.backbone, taps = backbone(config)
        self.cells = config.cells
        cells, hidden = config.cells[0] * config.cells[1], config.regressed
        inputs = taps[3] * cells
        self.head: nn.Module = nn.Linear(inputs, 3)
        if hidden:
            self.head = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def forward(self, images: Tensor, votes: Tensor) -> Tensor:
        last = self.backbone.taps(_checked(images))[3]  # type: ignore[operator]
        return F.normalize(self.head(F.adaptive_avg_pool2d(last, self.cells).flatten(1)), dim=1)


class CoarseToFine(nn.Module):
    """Logits (B, 36): bins of 10 degrees of pitch and roll; ``fine`` gives (B, 20), bins of 1 degree, for images that
    were turned to the middle of their coarse bins."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        cells = config.cells[0] * config.cells[1]
        self.cells = config.cells
        (self.first, taps), (self.second, _) = backbone(config), backbone(config)
        self.coarse_head = nn.Linear(taps[3] * cells, 2 * COARSE)
        self.fine_head = nn.Linear(taps[3] * cells, 2 * FINE)

    def forward(self, images: Tensor, votes: Tensor) -> Tensor:
        last = self.first.taps(_checked(images))[3]  # type: ignore[operator]
        return self.coarse_head(F.adaptive_avg_pool2d(last, self.cells).flatten(1))

    def fine(self, images: Tensor) -> Tensor:
        last = self.second.taps(_checked(images))[3]  # type: ignore[operator]
        return self.fine_head(F.adaptive_avg_pool2d(last, self.cells).flatten(1))


class VoteMaximiser(nn.Module):
    """Unit vectors (B, 3) from the votes alone: nothing is learned."""

    def forward(self, images: Tensor, votes: Tensor) -> Tensor:
        return torch.stack([most_voted_axis(own[0].float().cpu()) for own in votes]).to(votes)


Network = GSCNN | Regressor | CoarseToFine | VoteMaximiser


def build(config: ModelConfig) -> Network:
    """The network of a config."""
    if config.method == "votes":
        return VoteMaximiser()
    if config.method == "segmentation":
        return GSCNN(config)
    return Regressor(config) if config.method == "regression" else CoarseToFine(config)


def _checked(images: Tensor) -> Tensor:
    height, width = images.shape[-2:]
    if images.dim() != 4 or height % STEP or width != 2 * height:
        raise VergenceError(f"images are (B, 3, H, 2 H) with H a multiple of {STEP}, got {tuple(images.shape)}")
    return images


def coarse_to_fine(model: CoarseToFine, images: Tensor, votes: Tensor) -> Tensor:
    """The verticals (B, 3): the likeliest coarse bins, then the fine bins of the pictures turned by them."""
    coarse = model(images, votes).unflatten(1, (2, COARSE)).argmax(2)
    rough = middles(coarse, COARSE, 10.0).to(images)
    turns = upright(rough)
    fine = model.fine(rotate(images, turns)).unflatten(1, (2, FINE)).argmax(2)
    rest = middles(fine, FINE, 1.0).to(images)
    return (turns @ rest.unsqueeze(-1)).squeeze(-1)


def verticals(model: Network, images: Tensor, votes: Tensor, centroid: Centroid) -> tuple[Tensor, Tensor | None]:
    """The verticals (B, 3) that a network finds, and the probabilities (B, H, W) of the spots if it segments."""
    if isinstance(model, CoarseToFine):
        axes, maps = coarse_to_fine(model, images, votes), None
    else:
        found = model(images, votes).float()
        maps = found.softmax(1)[:, 1] if found.dim() == 4 else None
        axes = found if maps is None else torch.stack([axis_of(own, centroid) for own in maps]).to(images)
    return axes * torch.where(axes[:, 2:] < 0, -1, 1), maps
