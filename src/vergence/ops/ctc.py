"""Connectionist temporal classification (Graves et al., 2006): paths of symbols and blanks, and their labels.

Log probabilities are (T, B, K) as in PyTorch, with the blank first (index 0). A path stands for the label that is left
when repeated symbols are merged and then blanks removed; the probability of a label is the sum over its paths. Nothing
is pruned here but in :func:`beam_search`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

BLANK = 0


def hierarchical(blank: Tensor, symbols: Tensor) -> Tensor:
    """Log probabilities (..., C + 1) that first decide on the blank, by its log odds (...,), and then on the symbol, by
    logits (..., C): ``log σ(b)`` and ``log σ(-b) + log softmax(s)``, finite for odds of any size."""
    named = F.logsigmoid(-blank).unsqueeze(-1) + symbols.log_softmax(-1)
    return torch.cat([F.logsigmoid(blank).unsqueeze(-1), named], -1)


def split(logits: Tensor) -> tuple[Tensor, Tensor]:
    """The inverse of :func:`hierarchical` for any softmax over blank and symbols, from logits (..., C + 1): log odds of
    the blank, and logits of the symbols."""
    return logits[..., BLANK] - logits[..., 1:].logsumexp(-1), logits[..., 1:]


def negative_log_likelihood(log_probs: Tensor, targets: Tensor, steps: Tensor, lengths: Tensor) -> Tensor:
    """-log p of each label, (B,), from normalised log probabilities (T, B, K), labels (B, L) padded at will, and their
    numbers of steps and symbols (B,); infinite where a label needs more steps than there are. It is PyTorch's loss,
    whose gradient holds for normalised log probabilities alone."""
    return F.ctc_loss(log_probs, targets, steps, lengths, blank=BLANK, reduction="none")


def needed_steps(targets: Tensor, lengths: Tensor) -> Tensor:
    """The fewest steps (B,) that labels (B, L) need: one for each symbol, and a blank between equal ones."""
    inside = torch.arange(1, targets.shape[1], device=targets.device) < lengths.unsqueeze(1)
    repeated = (targets[:, 1:] == targets[:, :-1]) & inside
    return lengths + repeated.sum(1)


# All paths of a label -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paths:
    """All paths of each label at once."""

    log_likelihood: Tensor
    """(B,): log p of the label."""
    entropy: Tensor
    """(B,): of the paths, given the label, in nats."""
    occupancy: Tensor
    """(T, B, K): the share of all paths, by probability, that emit a symbol at a step; sums to 1 over symbols for the
    steps that count."""


def paths(log_probs: Tensor, targets: Tensor, steps: Tensor, lengths: Tensor) -> Paths:
    """What all paths of labels (B, L) do, by one pass forward and one backward in the log domain. Likelihood and
    entropy are differentiable; without a path the entropy is 0 and the occupancy zero."""
    emitted, may_skip = _states(targets, lengths)
    scores = log_probs.gather(2, emitted.unsqueeze(0).expand(len(log_probs), -1, -1))  # (T, B, S)
    ends = 2 * lengths
    forward, weighted = _forward(scores, may_skip, steps)
    last = torch.stack([ends, (ends - 1).clamp(min=0)], 1)
    final = forward[-1].gather(1, last)
    final = torch.where(torch.stack([torch.ones_like(ends), ends], 1) > 0, final, -math.inf)
    total = _logsumexp(final)
    share = (final - _finite(total).unsqueeze(1)).exp() * torch.isfinite(final)
    mean = (share * weighted.gather(1, last)).sum(1)
    with torch.no_grad():
        occupancy = _occupied(scores.detach(), forward, may_skip, steps, ends, total, emitted, log_probs)
    return Paths(total, torch.where(torch.isfinite(total), total - mean, 0.0), occupancy)


def _states(targets: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Symbols (B, 2 L + 1) of the states of labels, blanks between them; and whether a state may be reached past the
    blank before it."""
    batch, longest = targets.shape
    emitted = targets.new_full((batch, 2 * longest + 1), BLANK)
    inside = torch.arange(longest, device=targets.device) < lengths.unsqueeze(1)
    emitted[:, 1::2] = torch.where(inside, targets, BLANK)
    before = F.pad(emitted, (2, 0), value=BLANK)[:, :-2]
    return emitted, (emitted != BLANK) & (emitted != before)


def _forward(scores: Tensor, may_skip: Tensor, steps: Tensor) -> tuple[list[Tensor], Tensor]:
    """Log sums (B, S) over the beginnings of paths that end in a state, after each step; and, at the last step, the
    mean log probability of those beginnings."""
    start = torch.full_like(scores[0], -math.inf)
    start[:, :2] = 0.0
    alpha = scores[0] + start
    mean = torch.where(torch.isfinite(alpha), scores[0], 0.0)
    every = [alpha]
    for step in range(1, len(scores)):
        ways = _ways(alpha, may_skip, -math.inf)
        grown = _logsumexp(ways)
        chance = (ways - _finite(grown).unsqueeze(-1)).exp() * torch.isfinite(ways)
        carried = (chance * _ways(mean, may_skip, 0.0)).sum(-1)
        counts = (step < steps).unsqueeze(1)
        alpha = torch.where(counts, grown + scores[step], alpha)
        reached = torch.isfinite(grown)
        mean = torch.where(counts, torch.where(reached, carried + scores[step], 0.0), mean)
        every.append(alpha)
    return every, mean


def _ways(values: Tensor, may_skip: Tensor, none: float) -> Tensor:
    """Values (B, S, 3) of the states from which each is reached: itself, the one before, and the one before that."""
    one = F.pad(values, (1, 0), value=none)[:, :-1]
    two = F.pad(values, (2, 0), value=none)[:, :-2]
    return torch.stack([values, one, torch.where(may_skip, two, none)], -1)


def _logsumexp(values: Tensor) -> Tensor:
    """Over the last dimension; -inf, with gradient zero, where all are."""
    most = _finite(values.amax(-1)).detach()
    inner = (values - most.unsqueeze(-1)).exp().sum(-1)
    return torch.where(inner > 0, torch.where(inner > 0, inner, 1.0).log() + most, -math.inf)


def _finite(values: Tensor) -> Tensor:
    return torch.where(torch.isfinite(values), values, 0.0)


def _occupied(
    scores: Tensor, forward: Sequence[Tensor], may_skip: Tensor, steps: Tensor, ends: Tensor, total: Tensor,
    emitted: Tensor, log_probs: Tensor,
) -> Tensor:  # fmt: skip
    occupancy = torch.zeros_like(log_probs)
    states = torch.arange(scores.shape[2], device=scores.device)
    final = (states == ends.unsqueeze(1)) | ((states == ends.unsqueeze(1) - 1) & (ends.unsqueeze(1) > 0))
    closing = torch.where(final, 0.0, -math.inf).to(scores)
    beta = closing
    for step in range(len(scores) - 1, -1, -1):
        if step < len(scores) - 1:
            onward = scores[step + 1] + beta
            one = F.pad(onward, (0, 1), value=-math.inf)[:, 1:]
            skip = F.pad(torch.where(may_skip, onward, -math.inf), (0, 2), value=-math.inf)[:, 2:]
            grown = _logsumexp(torch.stack([onward, one, skip], -1))
            beta = torch.where((step + 1 < steps).unsqueeze(1), grown, closing)
        share = (forward[step].detach() + beta - _finite(total.detach()).unsqueeze(1)).exp()
        share = share * (torch.isfinite(total) & (step < steps)).unsqueeze(1)
        occupancy[step].scatter_add_(1, emitted, share)
    return occupancy


# Reading --------------------------------------------------------------------------------------------------------------


def collapse(path: Sequence[int]) -> tuple[int, ...]:
    """The label of a path: repeated symbols merged, then blanks removed."""
    merged = [symbol for place, symbol in enumerate(path) if place == 0 or symbol != path[place - 1]]
    return tuple(symbol for symbol in merged if symbol != BLANK)


def greedy(log_probs: Tensor, steps: Tensor) -> tuple[list[tuple[int, ...]], Tensor]:
    """The labels of the most probable paths, and the log probabilities (B,) of those paths."""
    best, path = log_probs.max(-1)
    counts = torch.arange(len(log_probs), device=log_probs.device).unsqueeze(1) < steps
    labels = [collapse(own[:count]) for own, count in zip(path.mT.tolist(), steps.tolist(), strict=True)]
    return labels, torch.where(counts, best, 0.0).sum(0)


def beam_search(log_probs: Tensor, width: int = 16) -> list[tuple[tuple[int, ...], float]]:
    """The most probable labels of one sequence (T, K) and their log probabilities, best first, by a search that keeps
    ``width`` prefixes: with as many as there are, the probabilities are exact."""
    if width < 1:
        raise ValueError(f"a beam keeps one prefix or more, got {width}")
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}  # log p ending in a blank, in a symbol
    for row in log_probs.tolist():
        grown: dict[tuple[int, ...], list[float]] = {}
        for prefix, (in_blank, in_symbol) in beams.items():
            both = _plus(in_blank, in_symbol)
            _add(grown, prefix, 0, both + row[BLANK])
            if prefix:
                _add(grown, prefix, 1, in_symbol + row[prefix[-1]])
            for symbol in range(1, len(row)):
                before = in_blank if prefix and symbol == prefix[-1] else both
                _add(grown, (*prefix, symbol), 1, before + row[symbol])
        ranked = sorted(grown.items(), key=lambda item: -_plus(*item[1]))[:width]
        beams = {prefix: (pair[0], pair[1]) for prefix, pair in ranked}
    return [(prefix, _plus(*pair)) for prefix, pair in beams.items()]


def _add(beams: dict[tuple[int, ...], list[float]], prefix: tuple[int, ...], place: int, value: float) -> None:
    if value == -math.inf:
        return
    pair = beams.setdefault(prefix, [-math.inf, -math.inf])
    pair[place] = _plus(pair[place], value)


def _plus(a: float, b: float) -> float:
    """``log(exp a + exp b)``."""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@dataclass(frozen=True)
class Trie:
    """The prefixes of a lexicon: node 0 is the empty one, and parents come before their children."""

    parent: Tensor
    """(N,)."""
    symbol: Tensor
    """(N,): the last symbol of each prefix; the blank for the empty one."""
    ends: Tensor
    """(W,): the node of each word."""

    @staticmethod
    def of(words: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Trie:
        """The trie of words of symbols from 1."""
        nodes: dict[tuple[int, int], int] = {}
        parent, symbol, ends = [0], [BLANK], []
        for word in words:
            node = 0
            for letter in word:
                if letter == BLANK:
                    raise ValueError("a word of a lexicon has no blanks")
                key = (node, int(letter))
                if key not in nodes:
                    nodes[key] = len(parent)
                    parent.append(node)
                    symbol.append(int(letter))
                node = nodes[key]
            ends.append(node)
        return Trie(*(torch.tensor(values, device=device) for values in (parent, symbol, ends)))


def lexicon_scores(log_probs: Tensor, steps: Tensor, trie: Trie) -> Tensor:
    """log p (B, W) of every word of a lexicon. Words share the work of their common prefixes, and all nodes advance
    together: the cost is steps times nodes, and every probability is exact."""
    _, batch, _ = log_probs.shape
    nodes = len(trie.parent)
    in_symbol = log_probs.new_full((batch, nodes), -math.inf)
    in_blank = in_symbol.clone()
    in_blank[:, 0] = 0.0  # nothing is read yet
    differs = trie.symbol != trie.symbol[trie.parent]
    for step, row in enumerate(log_probs):
        arriving = torch.logaddexp(in_blank[:, trie.parent], torch.where(differs, in_symbol[:, trie.parent], -math.inf))
        arriving[:, 0] = -math.inf
        symbol = torch.logaddexp(in_symbol, arriving) + row[:, trie.symbol]
        symbol[:, 0] = -math.inf
        blank = torch.logaddexp(in_blank, in_symbol) + row[:, :1]
        counts = (step < steps).unsqueeze(1)
        in_symbol, in_blank = torch.where(counts, symbol, in_symbol), torch.where(counts, blank, in_blank)
    return torch.logaddexp(in_symbol, in_blank)[:, trie.ends]
