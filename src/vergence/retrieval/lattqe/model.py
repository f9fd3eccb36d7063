"""LAttQE: a transformer over the query and its neighbours predicts the weights of query expansion.

A query ``d_0`` and its neighbours ``d_1 .. d_k``, each with a learned positional embedding of its rank, pass through
encoders; the weight of a neighbour is the cosine between its output and the query's. The average is taken over the
original descriptors: the transformer only sets the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.core.errors import VergenceError
from vergence.ops.expansion import aggregate, alpha_weights, aqe_weights, aqewd_weights, svm_duals, unit
from vergence.ops.precision import wide
from vergence.retrieval.lattqe.settings import ModelConfig
from vergence.search.expansion import Alpha, Average, Decayed, Discriminative, Found, Method, NoExpansion


class DenseLayer(nn.Module):
    """A transformer encoder layer without attention: feed-forward, residual, layer norm."""

    def __init__(self, dimension: int, width: int, dropout: float) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(dimension, width), nn.Linear(width, dimension)
        self.norm, self.dropout = nn.LayerNorm(dimension), nn.Dropout(dropout)

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return self.norm(x + self.dropout(self.linear2(self.dropout(F.relu(self.linear1(x))))))


class LAttQE(nn.Module):
    """Queries (B, D) with neighbours (B, k, D) to expanded queries (B, D).

    ``padding`` (B, k) is true where a list is shorter than k.
    """

    def __init__(self, model: ModelConfig, dimension: int, tempered: bool = False) -> None:
        super().__init__()
        if dimension % model.heads:
            raise VergenceError(f"{model.heads} heads cannot share descriptors of {dimension} numbers")
        self.settings = model
        width = model.width or dimension
        # Descriptors are unit vectors: rank embeddings must start as small as their entries, or they dominate.
        learned = model.position == "learned"
        self.ranks = nn.Parameter(torch.empty(model.ranks + 1, dimension)) if learned else None
        if self.ranks is not None:
            nn.init.normal_(self.ranks, std=0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dimension, model.heads, width, model.dropout, batch_first=True)
            if model.mixing == "attention"
            else DenseLayer(dimension, width, model.dropout)
            for _ in range(model.layers)
        )
        self.classifier = nn.Linear(dimension, 1) if model.auxiliary else None
        self.log_temperature: nn.Parameter | None = None
        if tempered:
            self.temper()

    def temper(self) -> None:
        """Freeze everything and add the temperature of Eq. 4, which starts at 1: the second training phase."""
        device = next(self.parameters()).device
        self.requires_grad_(False)
        self.log_temperature = nn.Parameter(torch.zeros((), device=device))

    def encoded(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> Tensor:
        """The encoders' output for a query and its neighbours: (B, k + 1, D), the query first (Eq. 2)."""
        x = torch.cat([query[:, None], neighbours], 1)
        if self.settings.content == "none":
            x = torch.zeros_like(x)
        if self.ranks is not None:
            places = torch.arange(x.shape[1], device=x.device).clamp(max=self.settings.ranks)
            x = x + self.ranks[places]
        hidden = None if padding is None else F.pad(padding, (1, 0), value=False)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=hidden)
        return x

    def cosines(self, encoded: Tensor) -> Tensor:
        """Cosine of each output with the query's, (B, k + 1): exactly 1 for the query itself."""
        encoded = wide(encoded)
        cosines = F.cosine_similarity(encoded[:, :1], encoded[:, 1:], dim=-1)
        if self.settings.negative == "clamp":
            cosines = cosines.clamp(min=0)
        return F.pad(cosines, (1, 0), value=1.0)

    def weights(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> Tensor:
        """Weights for expanding a query, (B, k + 1) (Eq. 3)."""
        return _without(self.cosines(self.encoded(query, neighbours, padding)), padding, 0.0)

    def database_weights(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> Tensor:
        """Weights for augmenting a database, (B, k + 1): a softmax with temperature, so that unrelated neighbours count
        little (Eq. 4).

        Before the second training phase the temperature is 1.
        """
        cosines = self.cosines(self.encoded(query, neighbours, padding))
        if self.log_temperature is not None:
            cosines = cosines / self.log_temperature.exp()
        # Mask after the division: an infinity divided by the temperature has no finite gradient.
        return _without(cosines, padding, -torch.inf).softmax(-1)

    def expand(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Expanded queries (B, D) and the weights (B, k + 1)."""
        return self.from_encoded(self.encoded(query, neighbours, padding), query, neighbours, padding)

    def from_encoded(
        self, encoded: Tensor, query: Tensor, neighbours: Tensor, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Like :meth:`expand`, given the output of the encoders."""
        if self.settings.output == "direct":
            weights = _without(torch.ones_like(encoded[..., 0]), padding, 0.0)
            return unit((weights[..., None] * encoded).sum(1).to(query.dtype), query), weights
        weights = _without(self.cosines(encoded), padding, 0.0).to(query.dtype)
        return aggregate(query, neighbours, weights), weights

    def augment(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Augmented database descriptors (B, D), and the weights (B, k + 1)."""
        if self.settings.output == "direct":
            return self.expand(query, neighbours, padding)
        weights = self.database_weights(query, neighbours, padding).to(query.dtype)
        return aggregate(query, neighbours, weights), weights

    def forward(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> Tensor:
        return self.expand(query, neighbours, padding)[0]


class ClassicExpansion(nn.Module):
    """A baseline without parameters, with the same interface."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.settings = model

    def weights(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> Tensor:
        """Weights (B, k + 1); dqe has no low-ranked negatives here."""
        similarities = torch.einsum("bd,bkd->bk", query, neighbours)
        method = self.settings.method
        if method == "alpha":
            return alpha_weights(similarities, self.settings.alpha, padding)
        if method == "aqewd":
            return aqewd_weights(similarities, padding)
        ones = aqe_weights(similarities, padding)
        if method == "dqe":
            return svm_duals(torch.cat([query[:, None], neighbours], 1).float(), ones.float(), self.settings.svm_c)
        return ones if method == "aqe" else F.pad(torch.zeros_like(similarities), (1, 0), value=1.0)

    def forward(self, query: Tensor, neighbours: Tensor, padding: Tensor | None = None) -> Tensor:
        return aggregate(query, neighbours, self.weights(query, neighbours, padding).to(query.dtype))


@dataclass(frozen=True)
class Learned:
    """A trained model as a method of :mod:`vergence.search.expansion`: for queries, or for the items of a database."""

    model: LAttQE
    database: bool = False
    batch: int = 256

    def __call__(self, found: Found) -> tuple[Tensor, Tensor]:
        weight = next(self.model.parameters())
        use = self.model.augment if self.database else self.model.expand
        pairs = []
        for part in found.parts(self.batch):
            padding = part.padding.to(weight.device) if part.padding.any() else None
            expanded, weights = use(part.query.to(weight), part.neighbours.to(weight), padding)
            pairs.append((expanded.float().cpu(), weights.float().cpu()))
        return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])


Expansion = LAttQE | ClassicExpansion


def build(model: ModelConfig, dimension: int, tempered: bool) -> Expansion:
    """Builds the model named by the settings."""
    return LAttQE(model, dimension, tempered) if model.method == "lattqe" else ClassicExpansion(model)


def method_of(model: Expansion, database: bool = False) -> Method:
    """A model as a method of :mod:`vergence.search.expansion`."""
    return Learned(model, database) if isinstance(model, LAttQE) else classic(model.settings.method, model.settings)


def classic(name: str, model: ModelConfig = ModelConfig()) -> Method:
    """A baseline by name, as a method."""
    methods: dict[str, Method] = {
        "none": NoExpansion(),
        "aqe": Average(),
        "aqewd": Decayed(),
        "alpha": Alpha(model.alpha),
        "dqe": Discriminative(model.svm_negatives, model.svm_c),
    }
    return methods[name]


# Losses ---------------------------------------------------------------------------------------------------------------


def contrastive(expanded: Tensor, positive: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """Contrastive loss, averaged over queries, of positives (B, D) and negatives (B, n, D)."""
    pull = (expanded - positive).square().sum(-1)
    # The gradient of the distance is infinite at zero; a floor far below the margin keeps it finite.
    apart = (expanded[:, None] - negatives).square().sum(-1).clamp(min=1e-12).sqrt()
    return (pull + (margin - apart).clamp(min=0).square().sum(-1)).mean()


def relevance_loss(logits: Tensor, relevant: Tensor, padding: Tensor) -> Tensor:
    """Binary cross-entropy of logits (B, k) over the neighbours that are not padding."""
    each = F.binary_cross_entropy_with_logits(logits, relevant.to(logits.dtype), reduction="none")
    there = (~padding).to(each.dtype)
    return (each * there).sum() / there.sum().clamp(min=1)


def _without(weights: Tensor, padding: Tensor | None, value: float) -> Tensor:
    return weights if padding is None else weights.masked_fill(F.pad(padding, (1, 0), value=False), value)
