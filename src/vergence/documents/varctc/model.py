"""Recognisers of text: a convolutional trunk, two recurrent layers, and what they emit at each step.

The hierarchical head first decides on the blank and then on the symbol (Eq. 6); the posterior knows the label (Eq. 8)
and takes the place of the head's own decision on the blank while training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.documents.likelihood import bernoulli_kl, likelihood
from vergence.documents.varctc.settings import LossConfig, ModelConfig
from vergence.nn.convnorm import ConvNorm
from vergence.ops.ctc import hierarchical
from vergence.ops.precision import full_precision

HEIGHT = 32
"""Rows of the pictures."""
SIZES = (3, 3, 3, 3, 3, 3, 2)
"""Of CRNN's kernels."""
DEPTHS = (2, 2, 3, 3, 2)
STRIDES = ((2, 2), (2, 2), (2, 1), (2, 1), (2, 1))


class CRNN(nn.Module):
    """Seven convolutions and four pools (Shi et al., 2016): 32 rows become one, and four columns about a step."""

    def __init__(self, channels: tuple[int, ...], dropout: float, padded: bool, norms: Sequence[int]) -> None:
        super().__init__()
        ends = zip((1, *channels), channels, SIZES, strict=False)
        self.convs = nn.ModuleList(
            ConvNorm(i, o, k, bias=True, padding=int(k == 3), normed=place in norms)
            for place, (i, o, k) in enumerate(ends)
        )
        self.dropout, self.side, self.outputs = dropout, int(padded), channels[-1]

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (B, 1, 32, W) to (B, C, T)."""
        for number, conv in enumerate(self.convs):
            x = conv(x)
            if number < 2:
                x = F.max_pool2d(x, 2)
            elif number in (3, 5):
                x = F.max_pool2d(x, 2, (2, 1), (0, self.side))
            if 0 < number < 6 and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
        return x.squeeze(2)


class Residual(nn.Module):
    """Two convolutions of 3 x 3 with norms, and the input added."""

    def __init__(self, inputs: int, outputs: int, stride: tuple[int, int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        same = inputs == outputs and stride == (1, 1)
        self.shorter = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(out + self.shorter(x))


class ResNet25(nn.Module):
    """A residual network of 25 layers; the paper names it without its layout, so that this one is ours."""

    def __init__(self, stages: tuple[int, ...]) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, stages[0], 3, 1, 1, bias=False), nn.BatchNorm2d(stages[0]), nn.ReLU())
        blocks, inputs = [], stages[0]
        for outputs, depth, stride in zip(stages, DEPTHS, STRIDES, strict=True):
            for number in range(depth):
                blocks.append(Residual(inputs, outputs, (1, 1) if number else stride))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.outputs = inputs

    def forward(self, x: Tensor) -> Tensor:
        """Pictures (B, 1, 32, W) to (B, C, T)."""
        return self.blocks(self.stem(x)).squeeze(2)


class Recurrent(nn.Module):
    """Two bidirectional LSTM layers with one bias per gate, as published, or with PyTorch's two."""

    def __init__(self, inputs: int, hidden: int, biases: Literal[1, 2]) -> None:
        super().__init__()
        self.hidden, self.names = hidden, list[str]()
        for layer, width in enumerate((inputs, 2 * hidden)):
            for end in ("", "_reverse"):
                for kind, shape in {"weight_ih": (4 * hidden, width), "weight_hh": (4 * hidden, hidden),
                                    "bias_ih": (4 * hidden,), "bias_hh": (4 * hidden,)}.items():  # fmt: skip
                    name = f"{kind}_l{layer}{end}"
                    self.names.append(name)
                    if kind == "bias_hh" and biases == 1:
                        self.register_buffer(name, torch.zeros(shape), persistent=False)
                    else:
                        self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, C) to (T, B, 2 hidden)."""
        start = x.new_zeros(4, x.shape[1], self.hidden)
        weights = [getattr(self, name) for name in self.names]
        out: Tensor = torch.lstm(x, (start, start), weights, True, 2, 0.0, self.training, True, False)[0]
        return out


class CTCHead(nn.Module):
    """One softmax over the blank and all symbols."""

    def __init__(self, width: int, symbols: int) -> None:
        super().__init__()
        self.logits = nn.Linear(width, symbols + 1)

    def forward(self, x: Tensor) -> Tensor:
        """(T, B, C) to log probabilities (T, B, 1 + symbols), the blank first."""
        return self.logits(x).log_softmax(-1)


class HierarchicalHead(nn.Module):
    """First whether anything is emitted, then which symbol: Eqs. 6 and 7, with as many parameters as one softmax."""

    def __init__(self, width: int, symbols: int) -> None:
        super().__init__()
        self.blank = nn.Linear(width, 1)
        self.symbols = nn.Linear(width, symbols)

    def forward(self, x: Tensor, blank: Tensor | None = None) -> Tensor:
        """(T, B, C) to log probabilities (T, B, 1 + symbols), the blank first; ``blank`` are other log odds (T, B)."""
        return hierarchical(self.odds(x) if blank is None else blank, self.symbols(x))

    def odds(self, x: Tensor) -> Tensor:
        """Log odds of the prior that nothing is emitted (Eq. 7), (T, B)."""
        return self.blank(x).squeeze(-1)


class Posterior(nn.Module):
    """Log odds of the blank given picture and label (Eq. 8): features times the mean embedding of the label."""

    def __init__(self, width: int, symbols: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols + 2, size)  # the blank's and the padding's are counted, but not used
        self.features = nn.Linear(width, size)
        self.weight = nn.Linear(size, 1, bias=False)

    def forward(self, x: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
        """(T, B, C), labels (B, L) padded at will and their lengths (B,) to (T, B)."""
        inside = torch.arange(targets.shape[1], device=targets.device) < lengths.unsqueeze(1)
        named = self.embedding(torch.where(inside, targets, 0)) * inside.unsqueeze(-1)
        label = F.dropout(named.sum(1) / lengths.clamp(min=1).unsqueeze(1), 0.5, self.training)
        return self.weight(self.features(x) * label).squeeze(-1)


class Temperature(nn.Module):
    """Log probabilities, softened by a temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.zeros(()))

    def forward(self, log_probs: Tensor) -> Tensor:
        return (log_probs * (-self.log).exp()).log_softmax(-1)


class Recogniser(nn.Module):
    """Pictures of text to what is emitted at each step."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        symbols, width = len(config.alphabet), 2 * config.hidden
        self.trunk: CRNN | ResNet25 = (
            CRNN(config.channels, config.dropout, config.padded, (2, 4, 6) if config.norms == "published" else range(7))
            if config.trunk == "crnn"
            else ResNet25(config.stages)
        )
        self.recurrent = Recurrent(self.trunk.outputs, config.hidden, config.biases)
        self.head: CTCHead | HierarchicalHead = (
            CTCHead(width, symbols) if config.head == "ctc" else HierarchicalHead(width, symbols)
        )
        self.posterior = Posterior(width, symbols, config.embedding) if config.head == "var" else None
        self.temperature = Temperature() if config.calibrated else None

    def features(self, images: Tensor) -> Tensor:
        """Pictures (B, 1, 32, W) to (T, B, 2 hidden)."""
        maps = self.trunk(images)
        with full_precision(maps):
            return self.recurrent(maps.permute(2, 0, 1).to(self.recurrent.weight_ih_l0.dtype))

    def losses(self, images: Tensor, targets: Tensor, lengths: Tensor, config: LossConfig) -> dict[str, Tensor]:
        """Named losses of pictures (B, 1, 32, W) with labels (B, L), padded with -1, of ``lengths`` (B,).

        Var-CTC puts the posterior's chance of a blank into the likelihood of a label, which sums over what is blank:
        that is ``log Σ q(b) p(Y | b)``, and by Jensen's inequality at least the expectation ``Σ q(b) log p(Y | b)`` of
        Eq. 5. It is what the paper computes, and not a lower bound of the likelihood.
        """
        more = {"entropy": config.entropy, "spacing": config.spacing, "smoothing": config.smoothing}
        features = self.features(images)
        with full_precision(features):
            if self.posterior is not None:
                assert isinstance(self.head, HierarchicalHead)
                odds = self.posterior(features, targets, lengths)
                found = likelihood(self.head(features, odds), targets, lengths, **more)
                divergence = bernoulli_kl(odds, self.head.odds(features)).sum(0).mean()
                return {**found, "divergence": config.kl * divergence}
            log_probs = self.head(features)
            if self.temperature is not None:
                log_probs = self.temperature(log_probs)
            return likelihood(log_probs, targets, lengths, **more)

    def forward(self, images: Tensor) -> Tensor:
        """Pictures (B, 1, 32, W) to log probabilities (T, B, 1 + symbols), the blank first. Test time uses the prior
        alone: the posterior would know the answer."""
        features = self.features(images)
        with full_precision(features):
            log_probs = self.head(features)
            return log_probs if self.temperature is None else self.temperature(log_probs)


def steps_of(config: ModelConfig, width: int) -> int:
    """The steps that a trunk makes of pictures this wide."""
    if config.trunk == "resnet":
        return (width + 3) // 4
    return width // 4 + (1 if config.padded else -3)


def build(config: ModelConfig) -> Recogniser:
    return Recogniser(config)
