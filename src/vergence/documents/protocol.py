"""Reading of held-out texts by the paper's protocol: accuracy, errors, confidence and alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vergence.contract.context import Context
from vergence.documents.lines import Lines
from vergence.documents.reader import centres
from vergence.metrics.reading import average_precision, character_error, recall_at_precision, reliability, word_error
from vergence.ops.ctc import greedy

BATCH = 64


@dataclass(frozen=True)
class Recognised:
    """Readings of held-out texts."""

    read: list[str]
    truth: list[str]
    confidence: Tensor
    """(N,): the log probability of the most probable path (Eq. 9)."""
    aligned: Tensor
    """(N,): mean probability of the true symbol, given that one is emitted, at the steps within its extent; not a
    number where extents are not known."""

    @property
    def correct(self) -> Tensor:
        return torch.tensor([a == b for a, b in zip(self.read, self.truth, strict=True)])


def recognised(ctx: Context[Any, Any], model: nn.Module, data: Lines) -> Recognised:
    """Greedy decoding of all texts."""
    read, truth, confidence, aligned = list[str](), list[str](), [], []
    for batch in ctx.batches(data, BATCH, "texts"):
        log_probs = model(batch["image"])
        steps = torch.full((log_probs.shape[1],), len(log_probs), device=log_probs.device)
        found, score = greedy(log_probs, steps)
        read += [data.alphabet.decode(label) for label in found]
        truth += batch["text"]
        confidence.append(score.double().cpu())
        aligned.append(alignment(log_probs, batch["target"], batch["extents"], batch["image"].shape[-1]).cpu())
    return Recognised(
        ctx.gather(read), ctx.gather(truth), ctx.gather(torch.cat(confidence)), ctx.gather(torch.cat(aligned))
    )


def alignment(log_probs: Tensor, targets: Tensor, extents: Tensor, width: int) -> Tensor:
    """Mean probability (B,) of the symbol in whose extent (B, L, 2) a step's middle lies, given that a symbol is
    emitted there; labels (B, L) have -1 where they end."""
    named = log_probs[..., 1:].double().softmax(-1)  # p(symbol | not blank) for either head
    at = centres(len(log_probs), width).to(extents)
    inside = (at[:, None, None] >= extents[None, ..., 0]) & (at[:, None, None] < extents[None, ..., 1])  # (T, B, L)
    inside = inside & (targets >= 0)
    index = (targets.clamp(min=1) - 1).expand(len(log_probs), -1, -1)
    chance = named.gather(2, index) * inside
    return chance.sum((0, 2)) / inside.sum((0, 2))


def judged(found: Recognised) -> Mapping[str, float]:
    """The metrics, in per cent."""
    correct = found.correct
    aligned = found.aligned[found.aligned.isfinite()]
    chance = found.confidence.exp().clamp(max=1.0)
    return {
        "accuracy": 100 * float(correct.double().mean()),
        "ap": average_precision(found.confidence, correct),
        "recall98": recall_at_precision(found.confidence, correct),
        "alignment": 100 * float(aligned.mean()) if len(aligned) else float("nan"),
        "cer": character_error(found.read, found.truth),
        "wer": word_error(found.read, found.truth),
        "ece": reliability(chance, correct).error,
    }
