"""Plain forms of query expansion: a query at a time, a neighbour at a time, every step written out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def aggregate(query: Tensor, neighbours: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """``q̂ = Σ w_i d_i / ‖·‖`` for one query (Eq. 1); the query's weight comes first."""
    total = weights[0] * query
    for weight, neighbour in zip(weights[1:], neighbours, strict=True):
        total = total + weight * neighbour
    return total / total.square().sum().sqrt()


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    centred = x - x.mean()
    return centred / (centred.square().mean() + eps).sqrt() * gain + bias


def encoder(tokens: Sequence[Tensor], state: Mapping[str, Tensor], heads: int) -> list[Tensor]:
    """One post-norm transformer encoder (Vaswani et al., 2017) with PyTorch's parameter names, in evaluation."""
    dimension = len(tokens[0])
    size = dimension // heads
    projected = [state["self_attn.in_proj_weight"] @ t + state["self_attn.in_proj_bias"] for t in tokens]
    made = []
    for i, token in enumerate(tokens):
        heard = []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            asks = projected[i][:dimension][own]
            scores = [asks @ p[dimension : 2 * dimension][own] / math.sqrt(size) for p in projected]
            shares = torch.stack(scores).softmax(0)
            heard.append(sum(s * p[2 * dimension :][own] for s, p in zip(shares, projected, strict=True)))
        mixed = state["self_attn.out_proj.weight"] @ torch.cat(heard) + state["self_attn.out_proj.bias"]
        x = layer_norm(token + mixed, state["norm1.weight"], state["norm1.bias"])
        hidden = (state["linear1.weight"] @ x + state["linear1.bias"]).clamp(min=0)
        x = x + state["linear2.weight"] @ hidden + state["linear2.bias"]
        made.append(layer_norm(x, state["norm2.weight"], state["norm2.bias"]))
    return made


def lattqe(query: Tensor, neighbours: Sequence[Tensor], state: Mapping[str, Tensor], layers: int, heads: int) -> Tensor:
    """The expanded query (D,) of one query and its neighbours (Eqs. 1 to 3)."""
    tokens = [d + state["ranks"][i] for i, d in enumerate([query, *neighbours])]
    for number in range(layers):
        start = f"layers.{number}."
        own = {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
        tokens = encoder(tokens, own, heads)
    lengths = [t.square().sum().sqrt() for t in tokens]
    weights = [tokens[0] @ t / (lengths[0] * length) for t, length in zip(tokens, lengths, strict=True)]
    return aggregate(query, neighbours, weights)


def average_precision(ranking: Sequence[int], positives: set[int], junk: set[int]) -> float:
    """Of one ranked list, by the benchmark's definition: junk out, then trapezoids between matches."""
    kept = [item for item in ranking if item not in junk]
    found, total = 0, 0.0
    for rank, item in enumerate(kept):
        if item in positives:
            before = 1.0 if rank == 0 else found / rank
            found += 1
            total += (before + found / (rank + 1)) / 2
    return total / len(positives)
