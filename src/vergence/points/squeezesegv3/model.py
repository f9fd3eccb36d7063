"""SqueezeSegV3: a range image through a backbone of spatially-adaptive blocks, a decoder, and a head at each level."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from vergence.nn.adaptive import Block, Coordinates, Head, Normed, Residual, plus
from vergence.points.squeezesegv3.settings import ModelConfig

INPUTS = 5
"""Channels of a range image: range, x, y, z, intensity."""
SLOPE = 0.1
"""Of leaky ReLUs below zero."""
BLOCKS = {"21": (1, 1, 2, 2, 1), "53": (1, 2, 8, 8, 4)}


class Stage(nn.Module):
    """Blocks at one width, and at the end a convolution that halves the image's width where more channels follow."""

    def __init__(self, blocks: int, channels: int, outputs: int | None, settings: ModelConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(channels, settings.operator, settings.reach) for _ in range(blocks))
        down = [] if outputs is None else [halving(channels, outputs)]
        self.end = nn.Sequential(*down, nn.Dropout2d(settings.dropout))
        self.halves = outputs is not None


def halving(inputs: int, outputs: int) -> Normed:
    """A convolution that halves the width and keeps the height: a scanner has few beams."""
    return Normed(nn.Conv2d(inputs, outputs, 3, (1, 2), 1, bias=False), SLOPE)


class Rise(nn.Module):
    """One level of the decoder: up to twice the width where ``doubles``, and a residual block."""

    def __init__(self, inputs: int, outputs: int, doubles: bool) -> None:
        super().__init__()
        conv: nn.Conv2d | nn.ConvTranspose2d
        if doubles:
            conv = nn.ConvTranspose2d(inputs, outputs, (1, 4), (1, 2), (0, 1))
        else:
            conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.up = Normed(conv, SLOPE)
        self.residual = Residual(outputs, inputs)


class SqueezeSegV3(nn.Module):
    """Range images (B, 5, H, W), normalised and zero where empty, to scores (B, classes, H, w) of each level: the
    finest first, with w = W, W/2, W/4, W/8, W/8; or the finest alone, if only that has a loss."""

    def __init__(self, settings: ModelConfig, classes: int) -> None:
        super().__init__()
        a, b, c, d = settings.widths
        counts = BLOCKS[settings.layers]
        self.settings, self.classes = settings, classes
        self.stem = Normed(nn.Conv2d(INPUTS, a, 3, padding=1, bias=False), SLOPE)
        below = ((a, b), (b, c), (c, d), (d, None), (d, None))
        self.stages: Any = nn.ModuleList(Stage(n, *ends, settings) for n, ends in zip(counts, below, strict=True))
        self.rises: Any = nn.ModuleList(
            Rise(*ends) for ends in ((d, d, False), (d, d, False), (d, c, True), (c, b, True), (b, a, True))
        )
        self.dropout = nn.Dropout2d(settings.dropout)
        heads = [Head(a, classes, 3, padding=1)]
        if settings.levels == "every":
            heads += [Head(width, classes, 1) for width in (b, c, d, d)]
        self.heads: Any = nn.ModuleList(heads)

    def forward(self, image: Tensor) -> list[Tensor]:
        x, at, skips = self.stem(image), Coordinates(image[:, 1:4]), []
        for stage in self.stages:
            if stage.halves:
                skips.append(x.detach() if self.settings.skips == "detached" else x)
            for block in stage.blocks:  # here, not in a function of the stage, which would hold its input to the end
                x = block(x, at)
            x = stage.end(x)
            at = at.halved() if stage.halves else at
        levels = []
        for number, rise in enumerate(self.rises):
            x = rise.up(x)  # a line of its own, so that what it was computed from is not held
            x = rise.residual(x)
            x = x if number < 2 else plus(x, skips.pop())
            last = number == len(self.rises) - 1
            x = self.dropout(x) if last else x
            if last or len(self.heads) > 1:
                levels.append(self.heads[len(self.rises) - 1 - number](self.dropout(x)))
        return levels[::-1]


class RangeNet(nn.Module):
    """The baseline (Milioto et al. 2019): five stages that halve the width, each followed by residual blocks."""

    def __init__(self, settings: ModelConfig, classes: int) -> None:
        super().__init__()
        first = settings.widths[0]
        self.settings, self.classes = settings, classes
        self.stem = Normed(nn.Conv2d(INPUTS, first, 3, padding=1, bias=False), SLOPE)
        widths = [first * 2**n for n in range(6)]
        self.stages: Any = nn.ModuleList(
            nn.Sequential(
                halving(inputs, outputs), *(Residual(outputs, inputs) for _ in range(n)), nn.Dropout2d(settings.dropout)
            )
            for n, inputs, outputs in zip(BLOCKS[settings.layers], widths, widths[1:], strict=False)
        )
        self.rises: Any = nn.ModuleList(Rise(2 * width, width, True) for width in reversed(widths[:-1]))
        self.head = nn.Sequential(nn.Dropout2d(settings.dropout), Head(first, classes, 3, padding=1))

    def forward(self, image: Tensor) -> list[Tensor]:
        x, skips = self.stem(image), []
        for stage in self.stages:
            skips.append(x.detach() if self.settings.skips == "detached" else x)
            x = stage(x)
        for rise in self.rises:
            x = plus(rise.residual(rise.up(x)), skips.pop())
        return [self.head(x)]


def build(settings: ModelConfig, classes: int) -> Any:
    """The network of a config."""
    return (RangeNet if settings.shape == "rangenet" else SqueezeSegV3)(settings, classes)
