"""Connectionist temporal classification over paths of about equal spacing (Liu et al., NeurIPS 2018).

A path of a label is cut into segments, one for each symbol: the blanks before it, and the symbol itself as often as it
is repeated. Only paths whose segments, and whose blanks at the end, are not much longer than the mean are summed over.
Without that limit it is plain CTC. Log probabilities are (T, B, K), the blank first, as in :mod:`vergence.ops.ctc`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vergence.ops.ctc import BLANK


class Spaced(NamedTuple):
    """The paths of each label that keep to the spacing."""

    log_likelihood: Tensor
    """(B,): log of the sum of their probabilities; -inf if there are none."""
    entropy: Tensor
    """(B,): of these paths, in nats; 0 if there are none."""


class _Sum(NamedTuple):
    """Beginnings of paths: the log of their sum, and their mean log probability."""

    total: Tensor
    mean: Tensor


def longest_segment(steps: Tensor, lengths: Tensor, rate: float) -> Tensor:
    """Steps (B,) that a segment may last: ``rate`` times one more than the mean, rounded down, and at least one."""
    return (rate * (steps / lengths.clamp(min=1) + 1)).floor().long().clamp(min=1)


def spaced_paths(log_probs: Tensor, targets: Tensor, steps: Tensor, lengths: Tensor, rate: float = 1.5) -> Spaced:
    """The paths of labels (B, L), padded at will, of ``lengths`` (B,) symbols, whose segments keep to
    :func:`longest_segment`. Both results are differentiable. The cost is steps times symbols times the longest segment,
    with one Python step for each of T."""
    count, batch, _ = log_probs.shape
    most = longest_segment(steps, lengths, rate)
    wide = int(most.clamp(max=count).max())
    allowed = torch.arange(wide, device=most.device) < most.unsqueeze(1)  # (B, D): steps used in a segment, less one
    blank = log_probs[..., BLANK]  # (T, B)
    symbol = log_probs.gather(2, targets.clamp(min=0).unsqueeze(0).expand(count, -1, -1))  # (T, B, L)
    apart = F.pad(targets[:, 1:] != targets[:, :-1], (1, 0), value=True).unsqueeze(-1)  # else a blank stands between
    last = (lengths - 1).clamp(min=0)

    nothing = log_probs.new_full((batch, targets.shape[1], wide), -math.inf)
    pausing = running = _Sum(nothing, torch.zeros_like(nothing))  # in the blanks of a segment, in its symbol
    done = _Sum(log_probs.new_full((batch,), -math.inf), log_probs.new_zeros(batch))  # in the blanks after the last
    result = done
    for step in range(count):
        before = _entered(running, step)
        closed = _merge([*_last(running, last), done])
        pausing, running = (
            _emit(_begun(pausing, before, allowed), blank[step].view(-1, 1, 1)),
            _emit(_runs(running, pausing, _where(before, apart), allowed), symbol[step].unsqueeze(-1)),
        )
        trailing = step >= steps - most
        done = _emit(_where(closed, trailing), blank[step])
        ended = _merge([*_last(running, last), done])
        result = _Sum(*(torch.where(steps == step + 1, a, b) for a, b in zip(ended, result, strict=True)))
    some = torch.isfinite(result.total)
    empty = lengths == 0  # blanks alone: a single path
    alone = torch.where(torch.arange(count, device=steps.device).unsqueeze(1) < steps, blank, 0.0).sum(0)
    entropy = torch.where(some & ~empty, torch.where(some, result.total, 0.0) - result.mean, 0.0)
    return Spaced(torch.where(empty, alone, result.total), entropy)


def _entered(running: _Sum, step: int) -> _Sum:
    """(B, L, 1): beginnings after which a segment may begin, the first one at the first step."""
    ended = _merge_last(running)
    total = F.pad(ended.total[:, :-1], (1, 0), value=0.0 if step == 0 else -math.inf)
    return _Sum(total.unsqueeze(-1), F.pad(ended.mean[:, :-1], (1, 0)).unsqueeze(-1))


def _begun(pausing: _Sum, before: _Sum, allowed: Tensor) -> _Sum:
    """The blanks of a segment go on or begin."""
    return _where(_Sum(*(torch.cat([b, p[..., :-1]], -1) for b, p in zip(before, pausing, strict=True))),
                  allowed.unsqueeze(1))  # fmt: skip


def _runs(running: _Sum, pausing: _Sum, before: _Sum, allowed: Tensor) -> _Sum:
    """The symbol of a segment goes on, follows its blanks, or begins."""
    either = _merge([running, pausing])
    return _begun(either, before, allowed)


def _last(running: _Sum, last: Tensor) -> list[_Sum]:
    """Beginnings (B,) that have emitted the last symbol of their label."""
    ended = _merge_last(running)
    return [_Sum(*(part.gather(1, last.unsqueeze(1)).squeeze(1) for part in ended))]


def _emit(sums: _Sum, log_prob: Tensor) -> _Sum:
    reached = torch.isfinite(sums.total)
    return _Sum(sums.total + log_prob, torch.where(reached, sums.mean + log_prob, 0.0))


def _where(sums: _Sum, mask: Tensor) -> _Sum:
    return _Sum(torch.where(mask, sums.total, -math.inf), torch.where(mask, sums.mean, 0.0))


def _merge(sums: list[_Sum]) -> _Sum:
    return _merge_last(_Sum(*(torch.stack(part, -1) for part in zip(*sums, strict=True))))


def _merge_last(sums: _Sum) -> _Sum:
    """Sum over the last dimension; -inf and 0, with gradient zero, where there is nothing."""
    most = sums.total.amax(-1, keepdim=True).detach()
    weight = (sums.total - torch.where(torch.isfinite(most), most, 0.0)).exp()
    whole = weight.sum(-1)
    some = whole > 0
    safe = torch.where(some, whole, 1.0)
    total = torch.where(some, safe.log() + most.squeeze(-1), -math.inf)
    return _Sum(total, (weight * sums.mean).sum(-1) / safe)
