"""Batch-level distillation written from its two algorithms: all copies at once, whole gradients kept in lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Gradients = list[Tensor]


def batch_level_distillation(
    network: nn.Module,
    pictures: Tensor,
    labels: Tensor,
    copies: int,
    task: int,
    *,
    warm: float,
    rate: float,
    strength: float,
    temperature: float,
    iterations: int = 2,
    ratio: Callable[[Tensor, Tensor], Tensor] = lambda wanted, own: wanted / own,
) -> list[Tensor]:
    """The weights after one batch, in the order of ``network.parameters()``; the network itself is left as it is.

    ``pictures`` (K · B, C, H, W) are all copies, ``labels`` (K · B,) their labels; ``network`` gives the logits of
    every task. ``ratio`` is ‖G_w‖ / ‖G_d‖ for a layer, from the two norms.
    """
    names = [name for name, _ in network.named_parameters()]
    weights = [p.detach().clone().requires_grad_() for p in network.parameters()]

    def logits() -> Sequence[Tensor]:
        outputs: Sequence[Tensor] = torch.func.functional_call(
            network, dict(zip(names, weights, strict=True)), (pictures,)
        )
        return outputs

    def gradients(loss: Tensor) -> Gradients:
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        return [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=True)]

    def new_loss() -> Tensor:  # Eq. 1
        chances = logits()[task].softmax(1)
        return -chances[torch.arange(len(labels)), labels].log().sum() / copies

    def old_loss() -> Tensor:  # Eq. 2
        now = [each.div(temperature).softmax(1) for each in logits()[:task]]
        return -sum((y * p.log()).sum() for y, p in zip(bank, now, strict=True)) / copies  # type: ignore[return-value]

    # Algorithm 1
    bank = [each.div(temperature).softmax(1).detach() for each in logits()[:task]]
    first = gradients(new_loss())
    weights = [(w - warm * g).detach().requires_grad_() for w, g in zip(weights, first, strict=True)]
    # Algorithm 2
    for _ in range(iterations):
        joint = gradients(new_loss())
        if task:
            for layer, (wanted, own) in enumerate(zip(first, gradients(old_loss()), strict=True)):
                if own.norm() > 0:
                    joint[layer] = joint[layer] + strength * ratio(wanted.norm(), own.norm()) * own
        weights = [(w - rate * g).detach().requires_grad_() for w, g in zip(weights, joint, strict=True)]
    return [w.detach() for w in weights]
