"""A foreground encoder that classifies patterns, and a query encoder that lands in its embedding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.data.assets import LITE
from vergence.nn.efficientnet_lite import EfficientNetLite, public_names
from vergence.nn.resnet import ResNet, load_imagenet
from vergence.ops.precision import full_precision, wide
from vergence.reading.weights import load_archive
from vergence.retrieval.fosearch.settings import ModelConfig, Network


class CentreLoss(nn.Module):
    """Half the sum of squared distances of embeddings to the centres of their patterns (Eq. 2; Wen et al., 2016).

    Centres are not learned by gradients: :meth:`follow` moves them towards the embeddings of a batch.
    """

    centres: Tensor

    def __init__(self, patterns: int, dimension: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.zeros(patterns, dimension))

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Embeddings (B, D) with labels (B,); a scalar, summed over the batch as printed."""
        with full_precision(embeddings):
            x = wide(embeddings)
            return 0.5 * (x - self.centres[labels].to(x)).square().sum()

    @torch.no_grad()
    def follow(self, embeddings: Tensor, labels: Tensor, rate: float = 0.5) -> None:
        """``c_j -= rate * sum_i (c_j - x_i) / (1 + n_j)`` over the n_j embeddings of pattern j; others stay."""
        x = embeddings.detach().to(self.centres)
        counts = torch.bincount(labels, minlength=len(self.centres)).to(x).unsqueeze(1)
        sums = torch.zeros_like(self.centres).index_add_(0, labels, x)
        self.centres -= rate * (counts * self.centres - sums) / (1 + counts)


def bilinear(features: Tensor, layout: Tensor) -> Tensor:
    """The outer product of features (B, D) and layouts (B, 4), flattened: (B, 4 D)."""
    return (features.unsqueeze(2) * layout.to(features).unsqueeze(1)).flatten(1)


class QueryHead(nn.Sequential):
    """Two linear layers with ReLU; the last ReLU makes queries non-negative, as the foreground embeddings are."""

    def __init__(self, inputs: int, hidden: int, outputs: int, rectified: bool = True) -> None:
        last = [nn.ReLU()] if rectified else []
        super().__init__(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs), *last)


class FOSearch(nn.Module):
    """Both encoders. ``scenes`` are the numbers of values of the attributes that the background encoder is pre-trained
    on, if any."""

    def __init__(self, model: ModelConfig, patterns: int, scenes: Sequence[int] = ()) -> None:
        super().__init__()
        self.settings = model
        self.foreground = _encoder(model.network)
        self.background = _encoder(model.network) if model.background == "own" else ImageNetEncoder()
        size, seen = self.foreground.outputs, self.background.outputs
        inputs = {"bilinear": 4 * seen, "concat": seen + 4, "early": seen}[model.fusion]
        self.classifier = nn.Linear(size, patterns)
        self.centre_loss = CentreLoss(patterns, size)
        self.head = QueryHead(inputs, model.hidden or size, size, model.rectified)
        self.sizes = tuple(scenes)
        self.scenes = nn.Linear(seen, sum(scenes)) if scenes else None

    def forward(self, background: Tensor, layout: Tensor, foreground: Tensor) -> dict[str, Tensor]:
        """Squares (B, 3, S, S), layouts (B, 4) and cut-outs on white (B, 3, S, S) to ``query`` and ``foreground``
        embeddings (B, D) and ``patterns``, logits (B, K) of the cut-outs."""
        embedding = self.foreground(foreground)
        query = self.query(background, layout)
        return {"query": query, "foreground": embedding, "patterns": self.classifier(embedding)}

    def query(self, background: Tensor, layout: Tensor) -> Tensor:
        """Query embeddings (B, D) of squares (B, 3, S, S) with layouts (B, 4): centre, width and height as shares of
        the side."""
        return self.asked(self.features(background, layout), layout)

    def features(self, background: Tensor, layout: Tensor) -> Tensor:
        """Features (B, D) of squares; with early fusion their boxes are masked."""
        return self.background(masked(background, layout) if self.settings.fusion == "early" else background)

    def asked(self, features: Tensor, layout: Tensor) -> Tensor:
        """Query embeddings (B, D) of features (B, D) and layouts (B, 4)."""
        fusion = self.settings.fusion
        if fusion == "bilinear":
            return self.head(bilinear(features, layout))
        return self.head(features if fusion == "early" else torch.cat([features, layout.to(features)], 1))

    def scene_logits(self, background: Tensor) -> tuple[Tensor, ...]:
        """Logits (B, n) of each attribute of the scenes that squares show."""
        assert self.scenes is not None
        return self.scenes(self.background(background)).split(self.sizes, 1)

    def learn(self, *parts: str) -> None:
        """Only these parts are trained from now on; frozen encoders also stay in evaluation mode."""
        for name, part in self.named_children():
            part.requires_grad_(name in parts)
        self.train(self.training)

    def train(self, mode: bool = True) -> FOSearch:
        """A frozen encoder stays in evaluation mode, or its normalisation would drift."""
        super().train(mode)
        for encoder in (self.foreground, self.background):
            encoder.train(mode and any(parameter.requires_grad for parameter in encoder.parameters()))
        return self


def masked(background: Tensor, layout: Tensor) -> Tensor:
    """Normalised pictures (B, 3, H, W) whose boxes are filled with the mean of all pictures, which is zero: the early
    fusion of Zhao et al. (2018)."""
    height, width = background.shape[-2:]
    centre, size = layout[:, :2], layout[:, 2:]
    low, high = centre - size / 2, centre + size / 2
    x = (torch.arange(width, device=layout.device, dtype=layout.dtype) + 0.5) / width
    y = (torch.arange(height, device=layout.device, dtype=layout.dtype) + 0.5) / height
    across = (x >= low[:, :1]) & (x <= high[:, :1])
    down = (y >= low[:, 1:]) & (y <= high[:, 1:])
    box = (down.unsqueeze(2) & across.unsqueeze(1)).unsqueeze(1)
    return background.masked_fill(box, 0)


def triplet(query: Tensor, positive: Tensor, negative: Tensor, margin: float = 0.1, printed: bool = False) -> Tensor:
    """Eq. 3 with the sign that its text means: ``max(0, cos(query, negative) - cos(query, positive) + margin)``, the
    mean over a batch of (B, D) each. ``printed`` swaps the two, as the equation does."""
    with full_precision(query):
        near, far = (F.cosine_similarity(wide(query), wide(other), dim=1) for other in (positive, negative))
        gap = near - far if printed else far - near
        return F.relu(gap + margin).mean()


class ImageNetEncoder(nn.Module):
    """EfficientNet-Lite0's pooled features (B, 1280), as trained on ImageNet: an asset, loaded when it is first used
    and no part of the weights."""

    outputs = 1280

    def forward(self, x: Tensor) -> Tensor:
        network = _lite0().to(x)
        x = F.relu6(network.bn0(network.conv_stem(x)))
        for block in network.blocks:
            x = block(x)
        return F.relu6(network.bn1(network.conv_head(x))).mean((2, 3))


@cache
def _lite0() -> EfficientNetLite:
    network = EfficientNetLite("lite0")
    network.load_state_dict(public_names(load_archive(LITE["efficientnet-lite0"].path())))
    return network.eval().requires_grad_(False)


def _encoder(network: Network) -> ResNet:
    return ResNet(0, network.depths, network.block, network.widths)


def build(model: ModelConfig, patterns: int, scenes: Sequence[int] = ()) -> FOSearch:
    return FOSearch(model, patterns, scenes)


def load_encoders(model: FOSearch, state: Mapping[str, Tensor]) -> str:
    """Start both encoders from the weights of another run of this system, or from a ResNet under torchvision's
    names."""
    own = {name: tensor for name, tensor in state.items() if name.startswith(("foreground.", "background."))}
    if not own:
        for encoder in (model.foreground, model.background):
            if isinstance(encoder, ResNet):
                load_imagenet(encoder, state)
        return "both encoders start from ImageNet weights, the rest is new"
    expected = {k: v for k, v in model.state_dict().items() if k.startswith(("foreground.", "background."))}
    for name, tensor in expected.items():
        if name not in own or own[name].shape != tensor.shape:
            raise VergenceError(f"the weights have no {name!r} of shape {tuple(tensor.shape)}: expected those of a "
                                "network of the same size")  # fmt: skip
    model.load_state_dict({**model.state_dict(), **{name: own[name] for name in expected}})
    return f"both encoders start from {len(expected)} tensors of another run, the rest is new"
