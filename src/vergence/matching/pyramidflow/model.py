"""A pyramid network of optical flow (HD³), with the changes of Hofinger et al. as switches.

Levels are counted from coarse to fine. Level l sees a cost volume around the flow of level l - 1, decodes it to a
density over the displacements of its reach (or, as PWC-Net does, to a residual), and adds what it finds. Flow has the
unit of its level's pixels. Both directions run as one batch, with the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.matching.pyramidflow.settings import ModelConfig
from vergence.nn.dla import SLOPE, DLAUp, conv, grid_size, initialised, normed
from vergence.ops.cost_volume import sampled_cost_volume, volume_channels, warped_cost_volume
from vergence.ops.density import confidence, density2vector, divergence, loss_max_pooling, vector2density
from vergence.ops.flow import CUES, disagreement, flow_cues, inside, resized_flow, warp
from vergence.ops.precision import full_precision, wide

DILATIONS = (1, 1, 2, 4, 8, 16, 1)
"""Of the context module."""


@dataclass(frozen=True)
class Level:
    """What one level found; D directions come one after the other along the batch."""

    stride: int
    """Pixels of the picture along a pixel of this level."""
    flow: Tensor
    """(D B, 2, h, w), in pixels of this level."""
    before: Tensor
    """(D B, 2, h, w): the flow of the level before in pixels of this one; zero at the first."""
    scores: Tensor
    """(D B, (2r + 1)², h, w) logits of the density; the residual (D B, 2, h, w) of a regression head."""


class Stack(nn.Module):
    """The vgg encoder: at each level convolutions, the first with stride 2. Maps from fine to coarse."""

    def __init__(self, channels: tuple[int, ...], convs: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList()
        for inputs, outputs in zip((3, *channels[:-1]), channels, strict=True):
            rest = [normed(outputs, outputs) for _ in range(convs - 1)]
            self.levels.append(nn.Sequential(normed(inputs, outputs, stride=2), *rest))

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []
        for level in self.levels:
            x = level(x)
            maps.append(x)
        return maps


def activated(channels: int) -> nn.Sequential:
    """Batch norm and leaky ReLU."""
    return nn.Sequential(nn.BatchNorm2d(channels), nn.LeakyReLU(SLOPE))


class PreActivated(nn.Module):
    """A residual block that begins with its norm; the first of a decoder has none there."""

    def __init__(self, inputs: int, outputs: int, first: bool) -> None:
        super().__init__()
        self.before = nn.Identity() if first else activated(inputs)
        self.conv1, self.between, self.conv2 = conv(inputs, outputs), activated(outputs), conv(outputs, outputs)
        self.shortcut = conv(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        seen = self.before(x)
        out: Tensor = self.conv2(self.between(self.conv1(seen)))
        return out + (x if self.shortcut is None else self.shortcut(seen))


class Decoder(nn.Module):
    """Scores of a level, and features for the next."""

    def __init__(self, inputs: int, width: int, outputs: int, carried: int, aggregated: bool) -> None:
        super().__init__()
        self.block1, self.block2 = PreActivated(inputs, width, True), PreActivated(width, width, False)
        self.root = nn.Sequential(activated(2 * width), conv(2 * width, width, 1)) if aggregated else None
        self.head = nn.Sequential(activated(width), nn.Conv2d(width, outputs, 1))
        self.up: nn.Module | None = None
        if carried:
            enlarge = nn.ConvTranspose2d(width, carried, 4, 2, 1, bias=False)
            self.up = nn.Sequential(activated(width), enlarge, activated(carried))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        first = self.block1(x)
        out = self.block2(first)
        if self.root is not None:
            out = self.root(torch.cat([first, out], 1))
        return self.head(out), None if self.up is None else self.up(out)


class Context(nn.Module):
    """Decoder of the finest level: dilated convolutions."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        sizes = (inputs, *[width] * len(DILATIONS))
        self.convs = nn.Sequential(
            *(normed(a, b, dilation=d) for a, b, d in zip(sizes, sizes[1:], DILATIONS, strict=False))
        )
        self.head = nn.Conv2d(width, outputs, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.head(self.convs(x)), None


class PyramidFlow(nn.Module):
    """Pictures (B, 3, H, W), normalised, with sides that are multiples of ``self.multiple``, to flow of both
    directions."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.settings = model
        dla = model.encoder == "dlaup"
        self.encoder: nn.Module = DLAUp(model.channels) if dla else Stack(model.channels, model.convs)
        depth = len(model.channels) - dla
        self.multiple = 2**depth
        costs = volume_channels(model.reach)
        outputs, carried = (costs if model.head == "density" else 2), model.carried or costs
        self.norms, self.decoders = nn.ModuleList(), nn.ModuleList()
        for level in range(model.levels):
            last = level == model.levels - 1
            inputs = costs
            if level:
                inputs += model.channels[-level - 1] + carried + 2 + (CUES if model.cues else 0)
            self.norms.append(nn.BatchNorm2d(costs))
            self.decoders.append(
                Context(inputs, model.width, outputs)
                if model.context and last
                else Decoder(inputs, model.width, outputs, 0 if last else carried, model.block == "hda")
            )
        initialised(self)

    def forward(self, first: Tensor, second: Tensor) -> dict[str, Tensor]:
        """Flow of both directions in pixels of the pictures, (B, 2, H, W) each."""
        finest = self.levels(first, second)[-1]
        height, width = first.shape[-2:]
        flow = resized_flow(finest.flow, height, width, self.settings.corners)
        forward, backward = flow.float().tensor_split(2)
        return {"flow": forward, "backward": backward}

    def levels(self, first: Tensor, second: Tensor, both: bool = True) -> list[Level]:
        """What each level found, coarse to fine: forward, and with ``both`` backward flow behind it."""
        # Which bins have the largest mass is decided by differences that half precision would round away.
        with full_precision(first):
            return self._levels(wide(first), wide(second), both or self.settings.cues)

    def _levels(self, first: Tensor, second: Tensor, both: bool) -> list[Level]:
        model = self.settings
        pyramid = self.encoder(torch.cat([first, second]))[::-1]
        flow, carried, found = None, None, []
        for level in range(model.levels):
            one, other = pyramid[level].tensor_split(2)
            own, target = (torch.cat([one, other]), torch.cat([other, one])) if both else (one, other)
            before = None
            if flow is not None:
                before = resized_flow(flow, own.shape[-2], own.shape[-1], model.corners)
                before = before.detach() if model.stop else before
            scores, carried = self._decoded(level, own, target, before, carried)
            residual = density2vector(scores) if model.head == "density" else scores
            flow = residual if before is None else before + residual
            start = torch.zeros_like(flow) if before is None else before
            found.append(Level(first.shape[-1] // flow.shape[-1], flow, start, scores))
        return found

    def _decoded(
        self, level: int, own: Tensor, target: Tensor, before: Tensor | None, carried: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        model = self.settings
        volume = sampled_cost_volume if model.volume == "sampled" else warped_cost_volume
        seen = [self.norms[level](volume(own, target, before, model.reach, model.metric))]
        if before is not None:
            assert carried is not None
            seen += [own, carried, before]
            if model.cues:
                forward, backward = before.tensor_split(2)
                seen.append(flow_cues(before, torch.cat([backward, forward])))
        decoded: tuple[Tensor, Tensor | None] = self.decoders[level](torch.cat(seen, 1))
        return decoded


def build(model: ModelConfig) -> PyramidFlow:
    """The network of a config."""
    return PyramidFlow(model)


def flows(network: PyramidFlow, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Flow of both directions for normalised pictures (B, 3, H, W) of any size: they are resized to multiples, and the
    flow is scaled back along each axis."""
    height, width = first.shape[-2:]
    size = grid_size(height, width, network.multiple)
    resized = [
        F.interpolate(picture, size, mode="bilinear", antialias=True) if size != (height, width) else picture
        for picture in (first, second)
    ]
    found = network(*resized)
    return tuple(resized_flow(found[name], height, width, False) for name in ("flow", "backward"))  # type: ignore[return-value]


# Losses ---------------------------------------------------------------------------------------------------------------

REGRESSION = {64: 0.32, 32: 0.08, 16: 0.02, 8: 0.01, 4: 0.005, 2: 0.0025}
"""PWC-Net's weights of levels, by stride; flow is divided by 20."""


def level_truth(flow: Tensor, valid: Tensor, stride: int, corners: bool) -> tuple[Tensor, Tensor]:
    """True flow (B, 2, H, W) on the grid of a level, in its pixels, and where it is known (B, h, w). Sparse flow is
    averaged; of dense flow one pixel is taken, or with ``corners`` interpolated as in HD³: a mean of two motions is
    none."""
    if not bool(valid.all()):
        mask = valid.unsqueeze(1).to(flow.dtype)
        share = F.avg_pool2d(mask, stride)
        return F.avg_pool2d(flow * mask, stride) / (share + 1e-9) / stride, share[:, 0] > 0
    if corners:
        size = [side // stride for side in flow.shape[-2:]]
        near = F.interpolate(flow, size, mode="bilinear", align_corners=True)
    else:
        near = flow[..., stride // 2 :: stride, stride // 2 :: stride]
    return near / stride, torch.ones_like(near[:, 0], dtype=torch.bool)


def flow_loss(
    found: list[Level], flow: Tensor, valid: Tensor, model: ModelConfig, share: float = 1.0, in_reach: bool = False
) -> Tensor:
    """The sum over levels of their mean loss over the hardest ``share`` of valid pixels. Of a density: its divergence
    from the true residual's, whose target carries no gradient; with ``in_reach``, 0 where that is beyond the reach. Of
    a regression: the distance of its flow from the truth."""
    total = flow.new_zeros(())
    for level in found:
        truth, known = level_truth(flow, valid, level.stride, model.corners)
        residual = truth - level.before.detach()
        if model.head == "density":
            losses = divergence(level.scores, vector2density(residual, model.reach))
            weight = 1.0
        else:
            losses = (level.flow - truth).square().sum(1).add(1e-8).sqrt() * level.stride / 20
            weight = REGRESSION[level.stride] * losses[0].numel()
        if in_reach:
            losses = losses * (residual.abs().amax(1) <= model.reach)
        total = total + weight * loss_max_pooling(losses, share, known)
    return total


def pseudo_labels(
    network: PyramidFlow, first: Tensor, second: Tensor, least: float = 0.5, gap: float = 1.0, dark: float = 0.6
) -> tuple[Tensor, Tensor]:
    """A teacher's flow (B, 2, H, W) and where it can be believed (B, H, W): forward and backward flow agree within
    ``gap`` pixels, the finest density has a mass of at least ``least`` at its displacement, and the normalised pictures
    differ by at most ``dark`` after warping."""
    finest = network.levels(first, second)[-1]
    height, width = first.shape[-2:]
    flow, backward = resized_flow(finest.flow, height, width, network.settings.corners).tensor_split(2)
    good = (disagreement(flow, backward)[:, 0] <= gap) & inside(flow)[:, 0]
    good &= (warp(second, flow) - first).abs().mean(1) <= dark
    if network.settings.head == "density":
        sure = confidence(finest.scores[: len(first)]).unsqueeze(1)
        good &= F.interpolate(sure, (height, width), mode="bilinear")[:, 0] >= least
    return flow, good
