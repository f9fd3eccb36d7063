"""BC-GNN's graph edge by edge, as the paper writes it: loops over starts, ends, samples and neighbours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def span_content(sequence: Tensor, layer: nn.Linear, points: int, start: int, end: int) -> Tensor:
    """Feature (D,) of one span of a sequence (C, T): samples between its ends, joined channel by channel."""
    samples = []
    for n in range(points):
        place = start + (end - start) * n / (points - 1) if points > 1 else float(start)
        low = min(int(place), sequence.shape[1] - 2)
        samples.append(sequence[:, low] * (1 - (place - low)) + sequence[:, low + 1] * (place - low))
    joined: Tensor = layer(torch.stack(samples, 1).flatten())
    return joined


def reasoning(
    start: Tensor,
    end: Tensor,
    forth: dict[tuple[int, int], Tensor],
    back: dict[tuple[int, int], Tensor],
    block: Any,
) -> tuple[Tensor, Tensor, dict[tuple[int, int], Tensor], dict[tuple[int, int], Tensor]]:
    """Eqs. 1 to 3 for nodes (T, D) and edges by (start, end)."""
    to_end, to_start, of_start, of_end = block.to_end, block.to_start, block.start, block.end
    new_forth = {k: torch.relu(to_end(d * start[k[0]] * end[k[1]]) + d) for k, d in forth.items()}
    new_back = {k: torch.relu(to_start(d * start[k[0]] * end[k[1]]) + d) for k, d in back.items()}
    new_start, new_end = [], []
    length = len(start)
    for t in range(length):
        gathered = torch.zeros_like(start[0])
        for h in range(t + 1, length):  # ends after this start
            if (t, h) in new_back:
                total = torch.stack([new_back[k, h] for k in range(h) if (k, h) in new_back]).sum(0)
                gathered = gathered + new_back[t, h] / (total + 1e-2) * end[h]
        new_start.append(torch.relu(of_start(gathered) + start[t]))
        gathered = torch.zeros_like(start[0])
        for h in range(t):  # starts before this end
            if (h, t) in new_forth:
                total = torch.stack([new_forth[h, k] for k in range(h + 1, length) if (h, k) in new_forth]).sum(0)
                gathered = gathered + new_forth[h, t] / (total + 1e-2) * start[h]
        new_end.append(torch.relu(of_end(gathered) + end[t]))
    return torch.stack(new_start), torch.stack(new_end), new_forth, new_back


def dense(model: Any, features: Tensor, matrix: Tensor | None = None) -> dict[str, Tensor]:
    """The whole network on the full T x T square, with a sampling matrix as public boundary-matching code has it."""
    settings = model.settings
    length = features.shape[2]
    x = model.base(features)
    start, end = (torch.relu(head(x)).mT for head in (model.start, model.end))
    content = torch.relu(model.content(x))
    valid = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
    if settings.longest:
        valid &= ~torch.ones_like(valid).triu(settings.longest + 1)
    mask = sampling_matrix(length, settings.points).to(x) if matrix is None else matrix  # (T, N T T)
    samples = (content @ mask).view(*content.shape[:2], settings.points, length, length)
    layer = model.spans.layer
    forth = torch.einsum("bcnij,ocn->bijo", samples, layer.weight.view(-1, content.shape[1], settings.points))
    forth = (forth + layer.bias) * valid.unsqueeze(-1)
    back = forth
    for block in model.blocks:
        both = start.unsqueeze(2) * end.unsqueeze(1)
        forth = torch.relu(block.to_end(forth * both) + forth) * valid.unsqueeze(-1)
        back = torch.relu(block.to_start(back * both) + back) * valid.unsqueeze(-1)
        to_end = forth / (forth.sum(2, keepdim=True) + 1e-2)
        to_start = back / (back.sum(1, keepdim=True) + 1e-2)
        start, end = (
            torch.relu(block.start((to_start * end.unsqueeze(1)).sum(2)) + start),
            torch.relu(block.end((to_end * start.unsqueeze(2)).sum(1)) + end),
        )
    logits = model.to_content(torch.cat([forth, back], -1))[..., 0]
    return {
        "start": model.to_start(start)[..., 0],
        "end": model.to_end(end)[..., 0],
        "content": logits[:, valid],
    }


def sampling_matrix(length: int, points: int) -> Tensor:
    """Weights (T, points x T x T) that interpolate ``points`` samples of every span; zero where it is none."""
    mask = torch.zeros(length, points, length, length, dtype=torch.float64)
    share = torch.linspace(0, 1, points, dtype=torch.float64)
    for i in range(length):
        for j in range(i + 1, length):
            place = i + (j - i) * share
            low = place.floor().clamp(max=length - 2)
            n = torch.arange(points)
            mask[low.long(), n, i, j] += 1 - (place - low)
            mask[low.long() + 1, n, i, j] += place - low
    return mask.view(length, -1)
