"""Players of adversarial training beside the network itself: a projection discriminator, and frozen features."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from vergence.nn.vgg import WIDTHS

SLOPE = 0.1
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, which VGG was trained on."""


class SpectralNorm(nn.Module):
    """Divides a weight by its largest singular value (Miyato et al. 2018). The two singular vectors are buffers; in
    training, each use of the weight refines them by one power iteration."""

    u: Tensor
    v: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        matrix = weight.detach().flatten(1)
        self.register_buffer("u", F.normalize(torch.randn(matrix.shape[0], dtype=matrix.dtype), dim=0))
        self.register_buffer("v", F.normalize(matrix.mT @ self.u, dim=0))

    def forward(self, weight: Tensor) -> Tensor:
        matrix = weight.flatten(1)
        if self.training:
            with torch.no_grad():
                self.v.copy_(F.normalize(matrix.mT @ self.u, dim=0))
                self.u.copy_(F.normalize(matrix @ self.v, dim=0))
        # Copies, because the next use changes the buffers before this one is differentiated.
        return weight / (self.u.clone() @ (matrix @ self.v.clone()))


def spectral_norm(layer: nn.Module) -> nn.Module:
    """The layer with its weight under spectral normalisation."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return parametrize.register_parametrization(layer, "weight", SpectralNorm(weight))


class Stage(nn.Module):
    """A residual stage of the discriminator, which halves the map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = spectral_norm(nn.Conv2d(inputs, inputs, 3, padding=1))
        self.second = spectral_norm(nn.Conv2d(inputs, outputs, 3, padding=1))
        self.shortcut = spectral_norm(nn.Conv2d(inputs, outputs, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        main = F.leaky_relu(self.second(F.leaky_relu(self.first(x), SLOPE)), SLOPE)
        return F.avg_pool2d(main, 2) + self.shortcut(F.avg_pool2d(x, 2))


class Discriminator(nn.Module):
    """Projection discriminator: pictures and rows over the labels to scores (B,); spectral norm on all layers."""

    def __init__(self, channels: int, halvings: int, views: int, size: int) -> None:
        super().__init__()
        c, side = channels, size >> halvings
        widths = [2 * c, *(min(4 * c * 2**level, 8 * c) for level in range(halvings))]
        self.stem = spectral_norm(nn.Conv2d(3, 2 * c, 1))
        self.stages = nn.Sequential(*(Stage(a, b) for a, b in itertools.pairwise(widths)))
        self.mixed = spectral_norm(nn.Conv2d(widths[-1] + 1, 8 * c, 3, padding=1))
        self.end = spectral_norm(nn.Conv2d(8 * c, 8 * c, 4))
        features = 8 * c * (side - 3) ** 2
        self.real = spectral_norm(nn.Linear(features, 1))
        self.views = spectral_norm(nn.Linear(views, features, bias=False))

    def forward(self, pictures: Tensor, view: Tensor) -> Tensor:
        x = self.stages(F.leaky_relu(self.stem(pictures.contiguous(memory_format=torch.channels_last)), SLOPE))
        x = F.leaky_relu(self.mixed(torch.cat([x, spread_of(x)], 1)), SLOPE)
        features = F.leaky_relu(self.end(x), SLOPE).flatten(1)
        score: Tensor = self.real(features).squeeze(1) + (self.views(view.to(features.dtype)) * features).sum(1)
        return score


def spread_of(x: Tensor, group: int = 4) -> Tensor:
    """The mean standard deviation of a map (B, C, H, W) within each group of neighbouring samples, (B, 1, H, W)."""
    batch, _, height, width = x.shape
    size = group if batch % group == 0 else batch
    parts = x.reshape(batch // size, size, -1)
    spread = (parts.var(1, unbiased=False) + 1e-8).sqrt().mean(1)
    return spread.repeat_interleave(size).view(-1, 1, 1, 1).expand(-1, 1, height, width)


class FrozenFeatures(nn.Module):
    """Frozen features for content and style: after conv2_2 and conv5_3 of VGG-16, or of a small network with random
    weights."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if kind == "vgg16":
            inputs = 3
            for stage in WIDTHS:
                for outputs in stage:
                    layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
                    inputs = outputs
                layers.append(nn.MaxPool2d(2))
            layers.pop()
            self.taps = (8, 29)
        else:
            layers += [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()]
            self.taps = (1, 3)
        self.layers = nn.Sequential(*layers).requires_grad_(False)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """Maps at the two taps, for pictures (B, 3, S, S) from -1 to 1."""
        mean, std = (pictures.new_tensor(values).view(3, 1, 1) for values in (MEAN, STD))
        x, maps = ((pictures + 1) / 2 - mean) / std, []
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in self.taps:
                maps.append(x)
        return maps
