"""The published network: encoder and decoder that deform their features by view, discriminator and latent classifier.

A view is a row of weights over the labels, one-hot for a labelled view. :class:`ViewMLP` makes filters of it, and the
filters meet the features in :class:`CDM`: its flow is linear in them, so that filters between those of two views give
the flow between. Encoder and decoder see the view there only.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.generation import losses
from vergence.generation.cdvae.settings import Config, Facts, LossConfig, ModelConfig
from vergence.generation.players import Discriminator, FrozenFeatures
from vergence.ops.deform import deformable_convolution

TAPS = 9
"""Of a 3 x 3 convolution: each has a shift of its own."""
SLOPE = 0.1


class ViewMLP(nn.Module):
    """Ψ: rows over the labels (B, V) to filters (B, m). Its last layer starts small, so that flows start near zero."""

    def __init__(self, views: int, filters: int, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(views, width))
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, filters)
        with torch.no_grad():
            self.out.weight.mul_(0.1)

    def forward(self, view: Tensor) -> Tensor:
        filters: Tensor = self.out(F.leaky_relu(self.hidden(view @ self.embedding.to(view.dtype)), SLOPE))
        return filters


class CDM(nn.Module):
    """Conditional deformable module: a map (B, C, H, W) and filters (B, axes, m) to the deformed map.

    With two axes, filters for y and x read the same 9 groups of m channels; with one, a single filter reads 18 groups.
    """

    def __init__(self, channels: int, filters: int, axes: int) -> None:
        super().__init__()
        self.groups = 2 * TAPS // axes
        self.features = nn.Conv2d(channels, self.groups * filters, 3, padding=1)
        self.deformed = nn.Conv2d(channels, channels, 3, padding=1)

    def flow(self, x: Tensor, filters: Tensor) -> Tensor:
        """Shifts (B, 18, H, W) in pixels of the map, down and right of each tap in turn.

        The filters are a linear layer behind a linear layer: they are folded into the kernels of each sample, so that
        18 channels are convolved instead of 9 m.
        """
        batch, channels, height, width = x.shape
        weight = self.features.weight.view(self.groups, -1, channels * TAPS)
        bias = self.features.bias
        assert bias is not None
        kernel = torch.einsum("bam,gmn->bgan", filters, weight).reshape(-1, channels, 3, 3)
        shift = torch.einsum("bam,gm->bga", filters, bias.view(self.groups, -1)).flatten()
        side_by_side = x.reshape(1, batch * channels, height, width)
        flow = F.conv2d(side_by_side, kernel, shift, padding=1, groups=batch)
        return flow.view(batch, 2 * TAPS, height, width)

    def forward(self, x: Tensor, filters: Tensor) -> Tensor:
        flow = self.flow(x, filters)
        return deformable_convolution(x, flow, self.deformed.weight, self.deformed.bias, padding=1)


class Tiled(nn.Module):
    """The baseline's condition: the label (B, V) is repeated over a map (B, C, H, W) and convolved with it."""

    def __init__(self, channels: int, views: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels + views, channels, 3, padding=1)

    def forward(self, x: Tensor, view: Tensor) -> Tensor:
        tiles = view.to(x.dtype)[:, :, None, None].expand(-1, -1, *x.shape[2:])
        mixed: Tensor = self.convolution(torch.cat([x, tiles], 1))
        return mixed


class DFNM(nn.Module):
    """Normalisation by the deformed map: statistics of the batch, and at each place a scale and an offset of its own,
    computed from ``side``. It starts as plain batch normalisation."""

    def __init__(self, channels: int, side: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.shared = nn.Conv2d(side, width, 3, padding=1)
        self.scale_offset = nn.Conv2d(width, 2 * channels, 3, padding=1)
        with torch.no_grad():
            assert self.scale_offset.bias is not None
            self.scale_offset.weight.mul_(0.5)
            self.scale_offset.bias.copy_(torch.cat([torch.ones(channels), torch.zeros(channels)]))

    def forward(self, h: Tensor, side: Tensor) -> Tensor:
        scale, offset = self.scale_offset(self.shared(side)).chunk(2, 1)
        out: Tensor = scale * self.norm(h) + offset
        return out


def adain(h: Tensor, style: Tensor) -> Tensor:
    """Adaptive instance normalisation of (B, C, H, W) by scales and offsets (B, 2 C)."""
    scale, offset = style[:, :, None, None].chunk(2, 1)
    return F.instance_norm(h) * (1 + scale) + offset


def normal(kind: str, channels: int) -> nn.Module:
    """Normalisation of each channel by itself, or of all channels of a picture together."""
    return nn.GroupNorm(1, channels) if kind == "layer" else nn.InstanceNorm2d(channels, affine=True)


def step(kind: str, inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    """A convolution of the encoder."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2)
    return nn.Sequential(convolution, normal(kind, outputs), nn.LeakyReLU(SLOPE))


class Block(nn.Module):
    """A residual block; convolutions on both paths are followed by normalisation and a leaky ReLU.

    The encoder normalises by the deformed map (or by instance), the decoder by the code (AdaIN) and by the deformed
    map side by side. The two convolutions of the main path share one layer for AdaIN, as in the public code.
    """

    def __init__(self, inputs: int, width: int, latent: int, side: int, hidden: int, kind: str) -> None:
        super().__init__()
        outputs = width * (2 if latent and side else 1)
        self.first = nn.Conv2d(inputs, width, 3, padding=1)
        self.second = nn.Conv2d(outputs, width, 3, padding=1)
        self.shortcut = nn.Conv2d(inputs, width, 3, padding=1)
        self.styles = nn.ModuleList(nn.Linear(latent, 2 * width) for _ in range(2 if latent else 0))
        self.norms = nn.ModuleList(
            DFNM(width, side, hidden) if side else normal(kind, width) for _ in range(0 if latent and not side else 3)
        )
        self.outputs = outputs

    def forward(self, x: Tensor, code: Tensor | None, side: Tensor | None) -> Tensor:
        styles = [style(code) for style in self.styles] or [None, None]
        main = self._normal(self.first(x), 0, styles[0], side)
        main = self._normal(self.second(main), 1, styles[0], side)
        return main + self._normal(self.shortcut(x), 2, styles[1], side)

    def _normal(self, h: Tensor, number: int, style: Tensor | None, side: Tensor | None) -> Tensor:
        parts = [] if style is None else [adain(h, style)]
        if self.norms:
            parts.append(self.norms[number](h) if side is None else self.norms[number](h, side))
        return F.leaky_relu(torch.cat(parts, 1) if len(parts) > 1 else parts[0], SLOPE)


class Deformed(nn.Module):
    """What encoder and decoder have in common: a map meets the view, and residual blocks follow.

    With DFNM the map goes on as it is, and the blocks are normalised by it and its deformed copy; without, the
    deformed copy goes on alone.
    """

    def __init__(self, config: ModelConfig, views: int, latent: int) -> None:
        super().__init__()
        width = 4 * config.channels
        self.dfnm = config.norm == "dfnm"
        self.view: nn.Module = (
            Tiled(width, views) if config.condition == "concat" else CDM(width, config.filter_size, config.axes)
        )
        kind = config.encoder_norm
        self.norm = normal(kind, width * (2 if self.dfnm else 1))
        side = 2 * width if self.dfnm else 0
        self.blocks, inputs = nn.ModuleList(), width
        for _ in range(config.blocks):
            self.blocks.append(block := Block(inputs, width, latent, side, config.channels, kind))
            inputs = block.outputs
        self.outputs = inputs

    def forward(self, x: Tensor, condition: Tensor, code: Tensor | None = None) -> Tensor:
        deformed = self.view(x, condition)
        deformed = torch.cat([x, deformed], 1) if self.dfnm else deformed
        side = F.leaky_relu(self.norm(deformed), SLOPE)
        x = x if self.dfnm else side
        for block in self.blocks:
            x = block(x, code, side if self.dfnm else None)
        return x


class Encoder(nn.Module):
    """Pictures (B, 3, S, S) from -1 to 1 and conditions to the mean and the log variance of the code (B, latent)."""

    def __init__(self, config: ModelConfig, views: int, size: int) -> None:
        super().__init__()
        c, side, kind = config.channels, size >> (config.halvings + 2), config.encoder_norm
        widths = [c * min(2**level, 4) for level in range(config.halvings + 1)]
        pairs = itertools.pairwise(widths)
        self.stem = nn.Sequential(step(kind, 3, c, config.kernel, 1), *(step(kind, a, b, 4, 2) for a, b in pairs))
        self.deformed = Deformed(config, views, 0)
        self.end = nn.Sequential(step(kind, 4 * c, 4 * c, 4, 2), step(kind, 4 * c, 4 * c, 3, 2), nn.Flatten())
        self.hidden = nn.Linear(4 * c * side * side, config.hidden)
        self.mean, self.spread = nn.Linear(config.hidden, config.latent), nn.Linear(config.hidden, config.latent)

    def forward(self, pictures: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        features = self.end(self.deformed(self.stem(pictures), condition))
        features = F.leaky_relu(self.hidden(features), SLOPE)
        return self.mean(features), self.spread(features)


class Decoder(nn.Module):
    """Codes (B, latent) and conditions to pictures (B, 3, S, S) from -1 to 1."""

    def __init__(self, config: ModelConfig, views: int, size: int) -> None:
        super().__init__()
        c, self.side = config.channels, size >> (config.halvings + 2)
        self.seed = nn.Linear(config.latent, c * self.side**2)
        self.stem = nn.Sequential(
            nn.Conv2d(c, 4 * c, 3, padding=1), nn.LeakyReLU(SLOPE),
            nn.ConvTranspose2d(4 * c, 4 * c, 4, 2, 1), nn.LeakyReLU(SLOPE),
            nn.ConvTranspose2d(4 * c, 4 * c, 4, 2, 1), nn.LeakyReLU(SLOPE),
        )  # fmt: skip
        self.deformed = Deformed(config, views, config.latent)
        widths = [self.deformed.outputs, *[4 * c] * (config.halvings - 1), 2 * c]
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.GroupNorm(1, b), nn.LeakyReLU(SLOPE)]
        layers += [nn.Conv2d(2 * c, c, config.kernel, padding=config.kernel // 2), nn.GroupNorm(1, c)]
        layers += [nn.LeakyReLU(SLOPE), nn.Conv2d(c, 3, 1)]
        self.end = nn.Sequential(*layers)

    def forward(self, codes: Tensor, condition: Tensor) -> Tensor:
        seed = self.seed(codes).view(len(codes), -1, self.side, self.side)
        return torch.tanh(self.end(self.deformed(self.stem(seed), condition, codes)))


class Translator(nn.Module):
    """Encoder, decoder and the MLPs of their views: what one optimiser updates."""

    def __init__(self, config: ModelConfig, views: int, size: int) -> None:
        super().__init__()
        self.axes = config.axes
        self.encoder, self.decoder = Encoder(config, views, size), Decoder(config, views, size)
        self.concat, self.shared = config.condition == "concat", config.shared
        sets = 0 if self.concat else self.axes * (1 if self.shared else 2)
        self.filters = nn.ModuleList(ViewMLP(views, config.filter_size) for _ in range(sets))

    def condition(self, view: Tensor, decoder: bool) -> Tensor:
        """Filters (B, axes, m) of rows over the labels (B, V), for the encoder or the decoder; the baseline's are the
        rows themselves."""
        if self.concat:
            return view
        first = self.axes if decoder and not self.shared else 0
        return torch.stack([self.filters[first + axis](view) for axis in range(self.axes)], 1)

    def encode(self, pictures: Tensor, view: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.encoder(pictures, self.condition(view, False))
        return mean, spread

    def decode(self, codes: Tensor, view: Tensor) -> Tensor:
        pictures: Tensor = self.decoder(codes, self.condition(view, True))
        return pictures


class CDVAE(nn.Module):
    """All players: ``translator``, ``discriminator`` and ``dac``, the latent classifier; and the frozen features."""

    def __init__(self, config: ModelConfig, views: int, size: int) -> None:
        super().__init__()
        self.views = views
        self.translator = Translator(config, views, size)
        self.discriminator = Discriminator(config.critic, config.halvings, views, size)
        self.dac = nn.Sequential(nn.Linear(config.latent, 256), nn.ReLU(), nn.Linear(256, views))
        self.features = FrozenFeatures(config.features) if config.features != "none" else None

    def rows(self, views: Tensor) -> Tensor:
        """Labels (B,) as one-hot rows (B, V)."""
        known = torch.arange(self.views, device=views.device)
        return (views.unsqueeze(1) == known).to(self.translator.encoder.mean.weight.dtype)

    def forward(self, pictures: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Pictures (B, 3, S, S) from -1 to 1 of views ``source`` (B,), seen from views ``target`` (B,)."""
        mean, _ = self.translator.encode(pictures, self.rows(source))
        return self.translator.decode(mean, self.rows(target))


def build(config: Config, facts: Facts) -> CDVAE:
    """The network of a config for the views of the data."""
    return CDVAE(config.model, len(facts.views), config.data.size)


def drawn(mean: Tensor, spread: Tensor, source: torch.Generator | None) -> Tensor:
    """Codes from N(mean, exp(spread)), by reparameterisation."""
    noise = torch.randn(mean.shape, generator=source, device=mean.device, dtype=mean.dtype)
    return mean + (spread / 2).exp() * noise


class Step:
    """A batch of pictures (B, 3, S, S) with labels (B,), its codes, and the fakes made of them once for all players."""

    def __init__(self, model: CDVAE, pictures: Tensor, labels: Tensor, source: torch.Generator) -> None:
        self.model, self.pictures, self.labels = model, pictures, labels
        self.view = model.rows(labels)
        order = torch.randperm(len(labels), generator=source, device=labels.device)
        other = self.view[order]  # Y_b: the labels of the batch in another order
        self.mean, self.spread = model.translator.encode(pictures, self.view)
        self.code = drawn(self.mean, self.spread, source)
        self.prior = drawn(torch.zeros_like(self.mean), torch.zeros_like(self.mean), source)
        self.views = torch.cat([self.view, other, self.view])
        # Reconstructed, translated, and drawn from the prior.
        self.fakes = model.translator.decode(torch.cat([self.code, self.code, self.prior]), self.views)

    def losses(self, player: str, weights: LossConfig) -> dict[str, Tensor]:
        """What a player minimises, given all others as they are now."""
        if player == "discriminator":
            return self._discriminator()
        return self._dac() if player == "dac" else self._translator(weights)

    def _discriminator(self) -> dict[str, Tensor]:
        both = torch.cat([self.pictures, self.fakes.detach()])
        scores = self.model.discriminator(both, torch.cat([self.view, self.views])).float()
        count = len(self.labels)
        return {"discriminator": losses.hinge(scores[:count], scores[count:])}

    def _dac(self) -> dict[str, Tensor]:
        """Eq. 3."""
        return {"classifier": F.cross_entropy(self.model.dac(self.code.detach()).float(), self.labels)}

    def _translator(self, weights: LossConfig) -> dict[str, Tensor]:
        """Eq. 9."""
        rebuilt, _, sampled = self.fakes.chunk(3)
        terms = {
            "kl": weights.kl * losses.divergence(self.mean.float(), self.spread.float()),
            "pixel": weights.pixel * F.l1_loss(rebuilt.float(), self.pictures.float()),
        }
        if weights.adversarial:
            scores = self.model.discriminator(self.fakes, self.views).float()
            terms["adversarial"] = weights.adversarial * losses.fooled(scores, weights.generator)
        if weights.dac:
            terms["dac"] = weights.dac * losses.to_equal_shares(self.model.dac(self.code).float())
        if weights.code:
            again, _ = self.model.translator.encode(sampled, self.view)
            terms["code"] = weights.code * F.l1_loss(again.float(), self.prior.float())
        if self.model.features is not None and (weights.content or weights.style):
            with torch.no_grad():
                real = self.model.features(self.pictures)
            content, style = losses.likeness(self.model.features(rebuilt), real)
            terms |= {"content": weights.content * content.float(), "style": weights.style * style.float()}
        return terms


def parameters(module: Any) -> int:
    """The number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())
