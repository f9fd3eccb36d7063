"""The volumetric transformer (Kim, Süsstrunk and Salzmann, ECCV 2020): a layer for the end of a CNN that bends every
group of channels by a field of its own, so that different parts of an object line up across pictures.

::

    layer = VolumetricTransformer(2048)
    warped, fields = layer.warp(features)      # (B, 2048, H, W), and (B, 32, 2, H, W) in pixels of the map
    vergence.attach(network, at="layer4", block="vtn")

At the start all residual logits are zero, and the fields follow the responses of the map alone (Eq. 2): they are *not*
zero, so attaching the layer changes what a trained network computes. Only where responses are equal does it start as
the identity, away from the border.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.nn.warping import AffineTransformer, SaliencySampler, Warp
from vergence.ops.fields import candidate_probabilities, expected_offsets

SQUEEZED = (3 / 4, 1 / 2, 3 / 8, 1 / 4)
"""Groups after each squeeze of the encoder, as shares of C; the decoder has them in reverse. The paper gives none."""
WIDTHS = (16, 32, 64, 64)
"""Channels of each shared convolution of the encoder; the decoder has them in reverse. The paper gives none."""


class SharedConv(nn.Module):
    """3x3-BN-ReLU on each group by itself, with weights shared by all: (B, G, D, H, W) to (B, G, D', H, W)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x.flatten(0, 1)))).unflatten(0, x.shape[:2])


class GroupMix(nn.Module):
    """Squeezes or expands the group axis, the same at every place and channel: (B, G, ...) to (B, G', ...)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * inputs**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight.mT @ x.flatten(2)).unflatten(2, x.shape[2:])


class Estimator(nn.Module):
    """Encoder and decoder: grouped responses (B, C, 2, H, W) to ``outputs`` numbers for each group and position."""

    def __init__(self, groups: int, outputs: int, widths: Sequence[int] = WIDTHS, mixing: bool = True) -> None:
        super().__init__()
        shares = SQUEEZED[: len(widths)] if mixing else ()
        counts = [groups, *(max(round(groups * share), 1) for share in shares)]
        depths = [2, *widths, *reversed(widths)]
        last = len(widths)
        self.encoder = nn.ModuleList(_Step(depths[i], depths[i + 1], counts[i : i + 2]) for i in range(last))
        self.decoder = nn.ModuleList(
            _Step(depths[last + i], depths[last + i + 1], counts[last - i - 1 : last - i + 1][::-1])
            for i in range(last)
        )
        self.out = nn.Conv2d(widths[0], outputs, 3, padding=1)
        for start in self.out.parameters():
            nn.init.zeros_(start)

    def forward(self, x: Tensor) -> Tensor:
        sizes = []
        for step in self.encoder:
            sizes.append(x.shape[-2:])
            x = step(x)
            # Rounded up: a map of 14 x 14 is halved four times, to 7, 4, 2 and 1.
            x = F.max_pool2d(x.flatten(0, 1), 2, ceil_mode=True).unflatten(0, x.shape[:2])
        for step in self.decoder:
            x = step(x)
            x = F.interpolate(x.flatten(0, 1), sizes.pop(), mode="bilinear", align_corners=False).unflatten(
                0, x.shape[:2]
            )
        return self.out(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class _Step(nn.Sequential):
    """A shared convolution, then a mix of groups where their numbers are given."""

    def __init__(self, inputs: int, outputs: int, groups: Sequence[int]) -> None:
        super().__init__(SharedConv(inputs, outputs), *([GroupMix(*groups)] if len(groups) == 2 else []))


class VolumetricTransformer(Warp):
    """Bends maps (B, K, H, W) by C fields: the channels are, in order, C groups of K / C.

    ``window`` is the side of the square of candidates, in pixels of the map; ``beta`` divides the logits and has to fit
    the scale of the responses: with features that are normalised, 10 makes all candidates equal. Without ``mixing``
    groups are estimated alone; without ``probability`` the field itself is regressed, from zero on.
    """

    def __init__(
        self,
        channels: int,
        groups: int = 32,
        window: int = 11,
        beta: float = 10.0,
        widths: Sequence[int] = WIDTHS,
        mixing: bool = True,
        probability: bool = True,
    ) -> None:
        super().__init__(channels)
        if not 1 <= groups <= channels or channels % groups:
            raise VergenceError(f"{channels} channels cannot be cut into {groups} equal groups")
        if window < 1 or window % 2 == 0 or not beta > 0:
            raise VergenceError(f"a window has an odd side and beta is above 0, got {window} and {beta}")
        if not 1 <= len(widths) <= len(SQUEEZED) or min(widths) < 1:
            raise VergenceError(f"an encoder has 1 to {len(SQUEEZED)} widths above 0, got {tuple(widths)}")
        self.groups, self.window, self.beta, self.probability = groups, window, beta, probability
        self.estimator = Estimator(groups, window**2 if probability else 2, widths, mixing)

    def pooled(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The largest and the mean response of each group, (B, C, H, W) each."""
        grouped = u.unflatten(1, (self.groups, -1))
        return grouped.amax(2), grouped.mean(2)

    def residual(self, largest: Tensor, mean: Tensor) -> Tensor:
        """E of Eq. 2, (B, C, window², H, W), from normalised responses; without probability, the fields."""
        x = torch.stack([largest, mean], 2)
        kind = self.estimator.out.weight.dtype
        normalised = F.group_norm(x.flatten(1, 2), self.groups).view_as(x)
        return self.estimator(normalised.to(kind)).to(x.dtype)

    def probabilities(self, u: Tensor) -> Tensor:
        """P of Eq. 2, (B, C, window², H, W)."""
        largest, mean = self.pooled(u)
        return candidate_probabilities(largest + mean, self.residual(largest, mean), self.window, self.beta)

    def fields(self, u: Tensor) -> Tensor:
        if self.probability:
            return expected_offsets(self.probabilities(u), self.window)
        return self.residual(*self.pooled(u))


WARPS: Mapping[str, Callable[..., Warp]] = {
    "vtn": VolumetricTransformer,
    "stn": AffineTransformer,
    "saliency": SaliencySampler,
}
"""Warps by name, for :func:`vergence.attach`."""
