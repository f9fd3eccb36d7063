"""BC-GNN (Fig. 2): a base of two convolutions, a graph of boundaries and spans, reasoning blocks, three outputs."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vergence.nn.boundary_graph import Edges, GraphReasoning, SpanContent, normalised
from vergence.video.annotated import edges
from vergence.video.bcgnn.settings import ModelConfig


class BCGNN(nn.Module):
    """Probabilities of starts, ends and spans from a sequence of snippet features."""

    def __init__(self, settings: ModelConfig, channels: int) -> None:
        super().__init__()
        self.settings = settings
        base, nodes, content, kernel = settings.base, settings.width, settings.content, settings.kernel
        pad = kernel // 2
        self.base = nn.Sequential(
            nn.Conv1d(channels, base, kernel, padding=pad),
            nn.ReLU(),
            nn.Conv1d(base, base, kernel, padding=pad),
            nn.ReLU(),
        )
        self.start = nn.Conv1d(base, nodes, kernel, padding=pad)
        self.end = nn.Conv1d(base, nodes, kernel, padding=pad)
        self.content = nn.Conv1d(base, content, settings.content_kernel, padding=settings.content_kernel // 2)
        self.spans = SpanContent(content, nodes, settings.points)
        self.blocks = nn.ModuleList(
            GraphReasoning(nodes, settings.directed, settings.update) for _ in range(settings.blocks)
        )
        self.to_start, self.to_end, self.to_content = nn.Linear(nodes, 1), nn.Linear(nodes, 1), nn.Linear(2 * nodes, 1)

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        """Logits of starts and ends (B, T) and of spans (B, E), from features (B, D_i, T)."""
        if features.dim() != 3 or features.shape[2] < 2:
            raise ValueError(f"features are (batch, channels, two or more positions), got {tuple(features.shape)}")
        x = self.base(features)
        # Eq. 2 divides by sums that may all but vanish: half precision has no place in the graph.
        if x.dtype not in (torch.float16, torch.bfloat16):
            return self._reasoned(x)
        with torch.autocast(x.device.type, enabled=False):
            return self._reasoned(x.float())

    def _reasoned(self, x: Tensor) -> dict[str, Tensor]:
        own = _edges(x.shape[2], self.settings.longest, x.device)
        start, end = (torch.relu(head(x)).permute(2, 0, 1) for head in (self.start, self.end))
        forth = back = self.spans(torch.relu(self.content(x)), own)
        for block in self.blocks:
            start, end, forth, back = block(start, end, forth, back, own)
            if self.settings.propagate == "normalised":
                forth, back = (normalised(e, head, len(start)) for e, head in ((forth, own.start), (back, own.end)))
        return {
            "start": self.to_start(start)[..., 0].mT,
            "end": self.to_end(end)[..., 0].mT,
            "content": self.to_content(torch.cat([forth, back], -1))[..., 0].mT,
        }

    def fused(self, logits: dict[str, Tensor], length: int) -> tuple[Tensor, Tensor]:
        """All spans (E, 2) as positions, and their scores (B, E): start times end times content (Eq. 8)."""
        own = _edges(length, self.settings.longest, logits["start"].device)
        both = F.logsigmoid(logits["start"])[:, own.start] + F.logsigmoid(logits["end"])[:, own.end]
        return torch.stack(list(own), 1), (both + F.logsigmoid(logits["content"])).exp()


@cache
def _kept(length: int, longest: int, device: str) -> Edges:
    return Edges(*(side.to(device) for side in edges(length, longest)))


def _edges(length: int, longest: int, device: torch.device) -> Edges:
    if device.type == "meta" or torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return Edges(*(side.to(device) for side in edges(length, longest)))
    return _kept(length, longest, str(device))


def balanced(logits: Tensor, labels: Tensor) -> Tensor:
    """Eq. 7 as a mean, for each row of a batch that has positives and negatives: the mean of -log p over the positives
    plus the mean of -log(1 - p) over the negatives. Rows with one kind alone have one term."""
    positive = labels > 0.5
    costs = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    terms = [(costs * kind).sum(-1) / kind.sum(-1).clamp(min=1) for kind in (positive.to(costs), (~positive).to(costs))]
    return (terms[0] + terms[1]).mean()


def losses(model: Any, features: Tensor, start: Tensor, end: Tensor, content: Tensor) -> dict[str, Tensor]:
    """The three balanced losses (Eq. 6)."""
    logits = model(features)
    truth = {"start": start, "end": end, "content": content}
    return {name: balanced(logits[name], truth[name].to(logits[name])) for name in truth}
